"""DP-TopDown between owners and a coordinator: its job, and what each of them does in a run."""
