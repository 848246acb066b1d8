"""Keeps one true row a payment between a PSP and an ERP; see README.md."""

__version__ = "0.1.0"
