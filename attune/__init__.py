"""Attune: an open toolkit and a running system for empathetic dialogue."""

__version__ = "0.1.0"
