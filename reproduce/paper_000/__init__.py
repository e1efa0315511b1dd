"""Paper 000: trees that stay secret, and trees that are opened."""
