"""Voting trees: noiseless hidden trees, noise on the vote of every query."""
