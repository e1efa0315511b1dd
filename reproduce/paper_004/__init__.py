"""Paper 004: trees from the top down, by owners who send noisy counts."""
