"""Evaluations of hidden models on shared rows: jobs, what servers do, and what analysts get."""
