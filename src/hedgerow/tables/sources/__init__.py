"""What rows are read from: the text of CSV files, and databases; how messages name them."""
