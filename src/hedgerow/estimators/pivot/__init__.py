"""Linear models over columns that lie at peers."""
