"""Requests between parties over mutual TLS."""
