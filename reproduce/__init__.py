"""The papers' experiments, run again on public data and set beside the papers' own figures."""
