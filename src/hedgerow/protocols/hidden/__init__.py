"""Hidden and opened trees on three servers (Hamada et al.'s setting with differential privacy)."""
