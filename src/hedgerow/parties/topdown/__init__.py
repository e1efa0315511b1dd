"""DP-TopDown between owners, a coordinator and servers on their own machines."""
