"""Logs and metrics; every name stands in one closed, commented list."""
