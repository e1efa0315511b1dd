"""Paper 001: forests of private medians, and what they are compared with."""
