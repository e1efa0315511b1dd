"""Side-by-side benchmarks: each compares with a peer in the same run and prints ratios."""
