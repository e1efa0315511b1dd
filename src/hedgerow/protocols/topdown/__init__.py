"""DP-TopDown: best-first private trees over the records of several owners."""
