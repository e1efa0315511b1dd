"""Queries to hidden models: how they are asked, agreed on, charged and answered."""
