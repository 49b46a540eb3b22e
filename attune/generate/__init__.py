"""Decoding modes, engines, reranking."""
