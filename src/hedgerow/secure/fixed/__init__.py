"""Fixed-point functions of secret numbers."""
