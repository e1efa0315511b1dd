"""What learners may see of rows: counts, in memory, in batches, or on a cluster."""
