"""A GGUF model with its adapters worked into it, in another precision: made once, then kept in the cache."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from filelock import FileLock

from attune.files import atomic_dir, cache_dir, sha256

FORM = 1  # of what is written here; another number makes all of it anew


def merged(model: Path, adapters: Sequence[Path] = (), kind: str = "q8_0") -> Path:
    """The model's quantised matrices plus the adapters', as `kind`: a file in the cache, made by whoever asks first.

    In 8 bits it is larger than in 4 and loses next to nothing; llama.cpp reads prompts faster from it.
    """
    made = merged_at(model, adapters, kind)
    folder = made.parent
    if not made.is_file():
        folder.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(folder.parent / f"{folder.name}.lock"):
            if not made.is_file():  # another process was quicker
                with atomic_dir(folder) as new:
                    write_merged(new / made.name, model, adapters, kind)
    return made


def merged_at(model: Path, adapters: Sequence[Path] = (), kind: str = "q8_0") -> Path:
    """Where that file is, or will be."""
    parts = [str(FORM), kind, *map(_sum, (model, *adapters))]
    return cache_dir() / "engines" / hashlib.sha256(" ".join(parts).encode()).hexdigest()[:16] / "model.gguf"


def _sum(file: Path) -> str:
    stat = file.stat()
    return _sum_of(file, stat.st_size, stat.st_mtime_ns)


@lru_cache(maxsize=8)  # preparing and opening ask for the same files
def _sum_of(file: Path, size: int, changed: int) -> str:
    return sha256(file)


def write_merged(path: Path, model: Path, adapters: Sequence[Path] = (), kind: str = "q8_0") -> None:
    """Write the file. The same files give the same bytes."""
    import gguf

    wanted = gguf.GGMLQuantizationType[kind.upper()]
    source = gguf.GGUFReader(model)
    added = _added(adapters)
    writer = gguf.GGUFWriter(path, str(source.fields["general.architecture"].contents()))
    for name, field in source.fields.items():
        if name.startswith("GGUF.") or name == "general.architecture":
            continue
        first, last = field.types[0], field.types[-1]
        writer.add_key_value(name, field.contents(), first, last if first == gguf.GGUFValueType.ARRAY else None)
    for tensor in source.tensors:
        value, stored = np.asarray(tensor.data), tensor.tensor_type
        if tensor.name in added or (value.ndim == 2 and tensor.name.startswith("blk.")):
            whole = gguf.dequantize(value, stored)
            value = gguf.quantize((whole + added.get(tensor.name, 0)).astype(np.float32), wanted)
            stored = wanted
        writer.add_tensor(tensor.name, value, raw_dtype=stored)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _added(adapters: Sequence[Path]) -> dict[str, Any]:
    """What adapters add to each matrix."""
    import gguf

    found: dict[str, Any] = {}
    for adapter in adapters:
        reader = gguf.GGUFReader(adapter)
        alpha = float(reader.fields[gguf.Keys.Adapter.LORA_ALPHA].contents())
        sides = {tensor.name: gguf.dequantize(tensor.data, tensor.tensor_type) for tensor in reader.tensors}
        for name in sides:
            if name.endswith(".lora_a"):
                down, up = sides[name], sides[f"{name.removesuffix('a')}b"]  # [rank, in], [out, rank]
                place = name.removesuffix(".lora_a")
                found[place] = found.get(place, 0) + alpha / down.shape[0] * (up @ down)
    return found
