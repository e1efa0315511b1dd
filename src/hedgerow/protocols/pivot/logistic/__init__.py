"""Logistic regression over columns of m peers, of whom all but one may be curious."""
