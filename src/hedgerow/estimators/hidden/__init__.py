"""Estimators of models on three servers, hidden or opened."""
