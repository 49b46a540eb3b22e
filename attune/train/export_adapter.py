"""Low-rank adapters of a Llama-type decoder as the GGUF file that llama.cpp puts on its base."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from attune.errors import DataError, SettingsError, did_you_mean

Kind = Literal["f32", "f16", "q8_0"]
KINDS: tuple[Kind, ...] = ("f32", "f16", "q8_0")

# What a linear part of a layer is called: by transformers, and by llama.cpp.
PLACES = {
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}
_NAME = re.compile(r"(?:^|\.)layers\.(\d+)\.(\w+\.\w+)\.lora_([AB])(?:\.\w+)?\.weight$")


def write_adapter(
    path: Path, tensors: Mapping[str, NDArray[Any]], decoder: Mapping[str, Any], alpha: float, kind: Kind = "f16"
) -> None:
    """Write the adapters among `tensors`, named as in a run's `model.safetensors`, for a decoder of this configuration.

    llama.cpp multiplies an adapter by `alpha` ÷ its rank, as peft does. The same tensors give the same bytes.
    """
    import gguf

    checked(kind)
    if decoder.get("model_type") != "llama":
        raise SettingsError(
            f"a GGUF adapter can be written for a decoder of the Llama type, not for a {decoder.get('model_type')}"
        )
    found = _by_place(tensors)
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_type(gguf.GGUFType.ADAPTER)
    writer.add_string(gguf.Keys.Adapter.TYPE, "lora")
    writer.add_float32(gguf.Keys.Adapter.LORA_ALPHA, alpha)
    for (layer, place), sides in sorted(found.items()):
        if len(sides) != 2:
            raise DataError(f"layer {layer}, {place}: the adapter has only its {next(iter(sides))} side")
        down, up = sides["A"], sides["B"]  # [rank, in], [out, rank]
        if down.shape[0] != up.shape[1]:
            raise DataError(f"layer {layer}, {place}: the sides have the shapes {down.shape} and {up.shape}")
        if place == "self_attn.q_proj":
            up = interleaved(up, int(decoder["num_attention_heads"]))
        elif place == "self_attn.k_proj":
            up = interleaved(up, int(decoder["num_key_value_heads"]))
        for side, value in (("lora_a", down), ("lora_b", up)):
            value = np.ascontiguousarray(value, dtype=np.float32)
            stored = gguf.GGMLQuantizationType[kind.upper()]
            if kind == "q8_0" and value.shape[1] % 32:
                stored = gguf.GGMLQuantizationType.F16  # its rows are not whole blocks
            name = f"blk.{layer}.{PLACES[place]}.weight.{side}"
            writer.add_tensor(name, gguf.quantize(value, stored), raw_dtype=stored)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def checked(kind: str) -> Kind:
    """The kind of this name, or an error that names the nearest."""
    for known in KINDS:
        if known == kind:
            return known
    raise SettingsError(did_you_mean(kind, KINDS, "kind of adapter"))


def interleaved(rows: NDArray[Any], heads: int) -> NDArray[Any]:
    """Rows of a query or key weight in llama.cpp's order: its rotary embedding turns neighbours, transformers' turns halves.

    >>> interleaved(np.arange(8).reshape(8, 1), heads=2).ravel().tolist()
    [0, 2, 1, 3, 4, 6, 5, 7]
    """
    out, width = rows.shape
    return rows.reshape(heads, 2, out // heads // 2, width).swapaxes(1, 2).reshape(out, width)


def _by_place(tensors: Mapping[str, NDArray[Any]]) -> dict[tuple[int, str], dict[str, NDArray[Any]]]:
    found: dict[tuple[int, str], dict[str, NDArray[Any]]] = {}
    for name, value in tensors.items():
        if "lora_" not in name:
            continue
        match = _NAME.search(name)
        if match is None or match[2] not in PLACES:
            raise DataError(f"{name}: llama.cpp has no place for this adapter; it has {', '.join(PLACES)}")
        found.setdefault((int(match[1]), match[2]), {})[match[3]] = value
    if not found:
        raise DataError("there are no adapters (lora_A, lora_B) among the weights")
    return found
