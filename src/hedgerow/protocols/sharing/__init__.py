"""What owners and analysts share with the servers: tables, uploads and queries."""
