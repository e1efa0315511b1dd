"""DP-TopDown as a Flower app: a ServerApp that coordinates, a ClientApp at every owner."""
