"""Layers that the systems share."""
