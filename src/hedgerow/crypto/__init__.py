"""Cryptographic building blocks."""
