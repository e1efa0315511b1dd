"""Learners over counts: criteria, candidates, searches, and the growth of trees."""
