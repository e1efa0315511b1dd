"""Vertical ID3 on secret counts: three servers count for the sites."""
