"""Concept sources and their on-disk index; keywords; CKECE; the emotional context graph."""
