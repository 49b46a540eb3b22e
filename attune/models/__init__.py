"""One file per system, shared `layers/`, and a registry."""
