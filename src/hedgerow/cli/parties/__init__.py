"""Verbs of a party of a consortium: founding, serving, uploads, runs, queries, accounts."""
