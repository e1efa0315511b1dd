"""Runs of the three servers: job, admission, agreement, attempts and stages."""
