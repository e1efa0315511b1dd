"""What the auditor attacks: every mechanism, protocol and estimator with a claim."""
