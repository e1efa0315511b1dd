"""Growers of trees on secret shares: levels of nodes, scores, choices and leaves."""
