"""Networks between parties: plans, meters, the simulator and TLS."""
