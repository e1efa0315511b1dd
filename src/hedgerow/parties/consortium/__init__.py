"""Who takes part: founding, members, keys, policy, and whether all can be reached."""
