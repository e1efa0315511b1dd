"""Noise drawn on shares, which nobody knows."""
