"""The label taxonomies; VAD and emotion lexicons; intensity; emotion words."""
