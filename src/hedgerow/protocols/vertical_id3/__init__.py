"""PPID3: an ID3 tree over columns that lie at several sites."""
