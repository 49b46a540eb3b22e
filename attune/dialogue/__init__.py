"""Dialogues, turns, examples; readers; protocols; text and vocabulary."""
