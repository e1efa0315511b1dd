"""Vertical ID3 between sites on their own machines."""
