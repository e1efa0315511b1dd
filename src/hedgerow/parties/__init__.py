"""Parties of a consortium: who they are, what they allow, and what they keep."""
