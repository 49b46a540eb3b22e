"""Low-rank adapters by the names of their weights. No torch here."""

from __future__ import annotations

MORE = "more.safetensors"  # of an export: what a training added to the adapters that it began with


def rank_axis(name: str) -> int | None:
    """Along which axis the rank of an adapter's matrix lies; nothing for other weights.

    >>> [rank_axis(f"layers.0.mlp.up_proj.{part}.weight") for part in ("lora_A.default", "lora_B.default", "base_layer")]
    [0, 1, None]
    """
    return 0 if ".lora_A." in name else 1 if ".lora_B." in name else None
