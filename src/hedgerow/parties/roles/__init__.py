"""What servers and owners do besides runs and queries."""
