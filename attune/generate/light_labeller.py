"""A classifier without torch, as `attune export` writes it: the packaged encoder on onnxruntime, with what training added to it.

What was added to a matrix is kept in low rank: `NAME.up` [m, r] and `NAME.down` [r, n] in 8 bits, and what each of the r products
counts, `NAME.scale` [r]. What was added to a vector is kept whole, in half precision.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load_file

from attune.errors import DataError
from attune.generate.engines.perceiver import WEIGHTS, Array, LightTokens, packaged
from attune.generate.labeller import Labeller
from attune.generate.systems import Progress, intact, needed, told
from attune.knowledge.sentences import SHAPES, Encoder
from attune.parts import locate

HEAD = ("head.weight", "head.bias")
UP, DOWN, SCALE = ".up", ".down", ".scale"


class LightLabeller(Labeller):
    """The folder of an exported classifier: `config.json` and `model.safetensors`. The tokenizer is the encoder's own."""

    concurrent = True

    def __init__(self, path: Path, name: str, *, threads: int | None = None) -> None:
        """`threads` is how many cores one call uses; by default `OMP_NUM_THREADS`, else all of them."""
        super().__init__(name, path)
        config = json.loads((path / "config.json").read_text(encoding="utf-8"))
        base = packaged(config)
        place = locate(base)
        self.tokens = LightTokens(place / "tokenizer.json", config["context_tokens"])
        try:
            kept = {key: value.astype(np.float32) for key, value in load_file(path / WEIGHTS).items()}
            self._weight, self._bias = (kept.pop(key) / config["temperature"] for key in HEAD)
            added = sums(kept)
        except (OSError, SafetensorError, KeyError) as error:
            raise DataError(f"{path / WEIGHTS}: not the weights of an exported classifier ({error})") from None
        if unknown := sorted(added.keys() - SHAPES[base].tensors()):
            raise DataError(f"{path / WEIGHTS}: '{base}' has no {unknown[0]}")
        self._encoder = Encoder(base, place, longest=config["context_tokens"], threads=threads, added=added)

    def logits(self, texts: Sequence[str], progress: Progress | None = None) -> np.ndarray:
        vectors = self._encoder.vectors([self.tokens.ids([text]) for text in texts], unit=False)
        return told(vectors @ self._weight.T + self._bias, progress)


def sums(kept: Mapping[str, Array]) -> dict[str, Array]:
    """What is added to each tensor, by its name."""
    matrices = [key.removesuffix(UP) for key in kept if key.endswith(UP)]
    added = {
        name: np.asarray(kept[name + UP] * kept[name + SCALE] @ kept[name + DOWN], dtype=np.float32)
        for name in matrices
    }
    return added | {key: value for key, value in kept.items() if not key.endswith((UP, DOWN, SCALE))}


def factors(matrices: Mapping[str, Array], size: int) -> dict[str, NDArray[Any]]:
    """The nearest sums of products that fit into so many bytes; each matrix has as many as are worth their bytes.

    >>> matrices = {"w": np.array([[2, 4], [1, 2]], np.float32), "v": np.array([[0.1, 0], [0, 0]], np.float32)}
    >>> kept = factors(matrices, 8)  # room for one product
    >>> sums({name: value.astype(np.float32) for name, value in kept.items()})["w"].round(1).tolist()
    [[2.0, 4.0], [1.0, 2.0]]
    """
    found = {name: np.linalg.svd(value, full_matrices=False) for name, value in matrices.items()}
    bytes_of = {name: sum(value.shape) + 4 for name, value in matrices.items()}  # of one product
    worth = sorted((-(one**2) / bytes_of[name], name) for name, (_, sizes, _) in found.items() for one in sizes)
    taken = np.cumsum([bytes_of[name] for _, name in worth]) <= size
    ranks = Counter(name for (_, name), fits in zip(worth, taken) if fits)
    kept: dict[str, NDArray[Any]] = {}
    for name, rank in sorted(ranks.items()):
        left, sizes, right = found[name][0][:, :rank], found[name][1][:rank], found[name][2][:rank]
        tall, wide = (np.abs(side).max(axis, keepdims=True) / 127 for side, axis in ((left, 0), (right, 1)))
        kept[name + UP], kept[name + DOWN] = np.rint(left / tall).astype(np.int8), np.rint(right / wide).astype(np.int8)
        kept[name + SCALE] = (sizes * tall[0] * wide[:, 0]).astype(np.float32)
    return kept


def open_light_labeller(path: Path, name: str) -> LightLabeller:
    """Open the folder that `attune export` wrote; its weights are checked against the sum in its configuration."""
    needed(path, WEIGHTS)
    intact(path, WEIGHTS)
    return LightLabeller(path, name)
