"""Verbs of somebody who has one table: what is public about it, and a private model of it."""
