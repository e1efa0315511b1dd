"""Vertical ID3 at a party: its jobs, a site's own columns and nodes, and what sites are asked."""
