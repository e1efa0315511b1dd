"""Experiments of paper 003 (wu2020pivot): trees among peers, section 7 and what it claims."""
