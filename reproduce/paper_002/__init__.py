"""Vertical ID3 among several sites, by cardinality of set intersections (vaidya2005vertical)."""
