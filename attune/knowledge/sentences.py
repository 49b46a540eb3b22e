"""Encoders without torch: all-MiniLM-L6-v2, for sentence embeddings, and all-mpnet-base-v2 on onnxruntime.

A graph (`data/minilm.onnx`, made by :mod:`attune.knowledge.encoder_graph`) is a few kilobytes and has no weights; they
are mapped straight from the part's `model.safetensors`.
"""

from __future__ import annotations

import json
import mmap
import os
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources
from pathlib import Path
from tempfile import TemporaryFile
from threading import Lock
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from attune.errors import DataError, MissingError
from attune.parts import locate

if TYPE_CHECKING:
    from tokenizers import Tokenizer

Array = NDArray[np.float32]

MOST_TOKENS = 256  # of a text; the rest is not read, as the model's authors set it
_BATCH_TOKENS = 2_048  # larger batches are no faster, only larger
_REMEMBERED = 1 << 15  # words; 1.5 kB each
_WORDS, _PLACES, _KINDS = (f"embeddings.{name}_embeddings.weight" for name in ("word", "position", "token_type"))
_FARTHEST = 128  # tokens apart: from there on all is equally far
_NEAR = "encoder.relative_attention_bias.weight"


@dataclass(frozen=True)
class Shape:
    """An encoder of BERT's family: its numbers, and how its checkpoint names the parts of a layer."""

    vocabulary: int
    positions: int
    hidden: int
    inner: int
    layers: int
    heads: int
    epsilon: float = 1e-12
    query: str = "attention.self.query"
    key: str = "attention.self.key"
    value: str = "attention.self.value"
    out: str = "attention.output.dense"
    norm: str = "attention.output.LayerNorm"
    kinds: int = 2
    """Of texts, as BERT tells two apart; 0: it does not."""
    first: int = 0
    """The position of the first token."""
    buckets: int = 0
    """Of distances between tokens, for which attention has a bias; 0: it has none."""

    def tensors(self) -> dict[str, tuple[int, ...]]:
        """What is taken from its `model.safetensors`, with the shapes."""
        d = self.hidden
        shapes: dict[str, tuple[int, ...]] = {_WORDS: (self.vocabulary, d), _PLACES: (self.positions, d)}
        shapes |= {_KINDS: (self.kinds, d)} if self.kinds else {}
        shapes |= {_NEAR: (self.buckets, self.heads)} if self.buckets else {}
        dense = dict.fromkeys((self.query, self.key, self.value, self.out), (d, d))
        dense |= {"intermediate.dense": (self.inner, d), "output.dense": (d, self.inner)}
        norms = ["embeddings.LayerNorm"]
        for layer in (f"encoder.layer.{i}" for i in range(self.layers)):
            norms += [f"{layer}.{self.norm}", f"{layer}.output.LayerNorm"]
            for name, shape in dense.items():
                shapes |= {f"{layer}.{name}.weight": shape, f"{layer}.{name}.bias": shape[:1]}
        return shapes | {f"{name}.{side}": (d,) for name in norms for side in ("weight", "bias")}


# By the part that holds the weights. The graph of each is `data/NAME.onnx`.
SHAPES = {
    "minilm": Shape(vocabulary=30_522, positions=512, hidden=384, inner=1_536, layers=6, heads=12),
    "mpnet": Shape(
        vocabulary=30_527,
        positions=514,
        hidden=768,
        inner=3_072,
        layers=12,
        heads=12,
        epsilon=1e-5,
        query="attention.attn.q",
        key="attention.attn.k",
        value="attention.attn.v",
        out="attention.attn.o",
        norm="attention.LayerNorm",
        kinds=0,
        first=2,
        buckets=32,
    ),
}


class Encoder:
    """One of :data:`SHAPES` on onnxruntime: rows of token ids to a vector each."""

    def __init__(
        self,
        name: str,
        folder: Path,
        *,
        longest: int,
        threads: int | None = None,
        added: Mapping[str, Array] | None = None,
    ) -> None:
        """The weights are those of a folder's `model.safetensors`, mapped; what is `added` to some, by name, adapts them to a task.

        A session packs the weights for itself, so what it was given need not stay in memory: sums are mapped from a file too.
        """
        import onnxruntime

        self.shape = shape = SHAPES[name]
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = int(os.environ.get("OMP_NUM_THREADS", 0)) if threads is None else threads
        options.add_session_config_entry(
            "session.intra_op.allow_spinning", "0"
        )  # waiting threads leave the cores alone
        options.log_severity_level = 3
        tensors = mapped(folder / "model.safetensors", name)
        tensors |= _sums(tensors, added or {})
        files = _files(tensors.values())
        self._vocabulary = tensors.pop(_WORDS)  # stays on disk; a text needs a few rows
        self._positions = np.array(tensors.pop(_PLACES)[shape.first : shape.first + longest])
        if shape.kinds:
            self._positions += tensors.pop(_KINDS)[0]
        self._bias = biases(np.array(tensors.pop(_NEAR)), longest) if shape.buckets else None
        values = [onnxruntime.OrtValue.ortvalue_from_numpy(tensor) for tensor in tensors.values()]
        options.add_external_initializers(list(tensors), values)
        self._session = onnxruntime.InferenceSession(graph_of(name), options, providers=["CPUExecutionProvider"])
        self._values = values  # the session may read them in place; what it needs again is mapped again
        for file in files:
            if hasattr(mmap, "MADV_DONTNEED"):
                file.madvise(mmap.MADV_DONTNEED)

    def vectors(self, rows: Sequence[Sequence[int]], most: int = 32, *, unit: bool = True) -> Array:
        """[n, d]: the mean of each row's last states; of length 1, if `unit`. Rows of like length go together."""
        found = np.empty((len(rows), self.shape.hidden), dtype=np.float32)
        for places in _batches([len(ids) for ids in rows], most):
            longest = len(rows[places[-1]])
            tokens = np.zeros((len(places), longest, self.shape.hidden), dtype=np.float32)
            mask = np.zeros((len(places), longest), dtype=np.float32)
            for i, place in enumerate(places):
                length = len(rows[place])
                np.add(self._vocabulary[list(rows[place])], self._positions[:length], out=tokens[i, :length])
                mask[i, :length] = 1
            given = {"tokens": tokens, "mask": mask}
            if self._bias is not None:
                given["bias"] = self._bias[:, :longest, :longest]
            (made,) = self._session.run(["embedding" if unit else "total"], given)
            found[places] = made if unit else made / mask.sum(axis=1, keepdims=True)
        return found


def graph_of(name: str) -> bytes:
    """The graph of a shape, as it is shipped."""
    return resources.files("attune.knowledge").joinpath("data", f"{name}.onnx").read_bytes()


def biases(table: Array, longest: int) -> Array:
    """[heads, longest, longest]: what attention adds for the distance between two tokens, by a table [buckets, heads].

    Half of the buckets are for each direction; near distances have one each, farther ones share, evenly in the logarithm.
    """
    half = len(table) // 2
    near = half // 2
    distance = (
        np.arange(longest)[:, None] - np.arange(longest)[None]
    )  # from the token that looks to the one it looks at
    far = np.abs(distance)
    with np.errstate(divide="ignore"):
        shared = near + np.log(far / near, dtype=np.float32) / np.log(_FARTHEST / near, dtype=np.float32) * (
            half - near
        )
    bucket = np.where(far < near, far, np.minimum(np.where(far < near, 0, shared).astype(np.int64), half - 1))
    return np.ascontiguousarray(table[bucket + half * (distance < 0)].transpose(2, 0, 1))


class SentenceEncoder:
    """Texts to vectors of 384 numbers and length 1: the mean over the tokens' last states.

    >>> encoder = load_encoder()
    >>> a, b, c = encoder.encode(["I lost my dog.", "My puppy is gone.", "The train was late."])
    >>> bool(a @ b > a @ c)
    True
    """

    size = SHAPES["minilm"].hidden

    def __init__(
        self,
        folder: str | Path | None = None,
        *,
        threads: int | None = None,
        added: Mapping[str, Array] | None = None,
    ) -> None:
        """A folder with `model.safetensors` and `tokenizer.json` of MiniLM's shape; by default the part "minilm".

        `threads` is how many cores one call uses; by default `OMP_NUM_THREADS`, else all of them. What is `added` to
        tensors of the model, by name, adapts it to a task.
        """
        folder = locate("minilm") if folder is None else Path(folder)
        for file in ("model.safetensors", "tokenizer.json"):
            if not (folder / file).is_file():
                raise MissingError(
                    f"no sentence encoder in {folder}: {file} is not there; the default is the part 'minilm' (attune setup)"
                )
        self._tokenizer = _tokenizer(folder / "tokenizer.json")
        self._encoder = Encoder("minilm", folder, longest=MOST_TOKENS, threads=threads, added=added)
        self._words: OrderedDict[str, Array] = OrderedDict()
        self._lock = Lock()

    def encode(self, texts: Sequence[str | tuple[str, str]], batch_size: int = 32) -> Array:
        """One row per text or pair of texts [n, 384]. Texts of like length go together, at most `batch_size` at a time."""
        return self._encoder.vectors([code.ids for code in self._tokenizer.encode_batch(list(texts))], batch_size)

    def encode_words(self, words: Sequence[str]) -> Array:
        """As `encode`, but the last 32,768 words are remembered: dialogues repeat theirs."""
        with self._lock:
            found = {word: self._words[word] for word in words if word in self._words}
        new = [word for word in dict.fromkeys(words) if word not in found]
        found |= zip(new, self.encode(new, batch_size=128))
        with self._lock:
            for word in words:
                self._words[word] = found[word]
                self._words.move_to_end(word)
            while len(self._words) > _REMEMBERED:
                self._words.popitem(last=False)
        return np.stack([found[word] for word in words]) if words else np.empty((0, self.size), dtype=np.float32)


@lru_cache(maxsize=2)
def load_encoder(folder: str | Path | None = None) -> SentenceEncoder:
    """The encoder of a folder (by default the part "minilm"), loaded once per process."""
    return SentenceEncoder(folder)


@lru_cache(maxsize=2)
def _tokenizer(path: Path) -> Tokenizer:
    """The same for all encoders of a process."""
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(path))
    tokenizer.no_padding()
    tokenizer.enable_truncation(MOST_TOKENS)
    return tokenizer


def _batches(lengths: Sequence[int], most: int) -> Iterator[list[int]]:
    """Positions by rising length, cut so that a padded batch stays small."""
    batch: list[int] = []
    for row in sorted(range(len(lengths)), key=lengths.__getitem__):
        if batch and (len(batch) >= most or (len(batch) + 1) * lengths[row] > _BATCH_TOKENS):
            yield batch
            batch = []
        batch.append(row)
    if batch:
        yield batch


def _sums(tensors: Mapping[str, Array], added: Mapping[str, Array]) -> dict[str, Array]:
    """Tensors with what is added to them, in a file without a name that is gone with the process."""
    if not added:
        return {}
    with TemporaryFile() as file:
        whole = np.memmap(file, np.float32, "w+", shape=(sum(value.size for value in added.values()),))
    found, start = {}, 0
    for key, value in added.items():
        place = whole[start : start + value.size].reshape(value.shape)
        found[key] = np.add(tensors[key], value, out=place)
        start += value.size
    return found


def _files(tensors: Iterable[Array]) -> list[mmap.mmap]:
    """The mapped files that tensors lie in."""
    found: dict[int, mmap.mmap] = {}
    for tensor in tensors:
        whole: Any = tensor
        while isinstance(whole, np.ndarray):
            whole = whole.base
        if isinstance(whole, mmap.mmap):
            found[id(whole)] = whole
    return list(found.values())


def mapped(path: Path, name: str) -> dict[str, Array]:
    """The tensors of one of :data:`SHAPES`, mapped from a safetensors file rather than read: processes share them."""
    try:
        data = np.memmap(path, dtype=np.uint8, mode="r")
        start = 8 + int(data[:8].view("<u8")[0])
        header = json.loads(data[8:start].tobytes())
    except ValueError as error:
        raise DataError(f"{path}: not a whole safetensors file: {error}") from None
    tensors = {}
    for key, shape in SHAPES[name].tensors().items():
        entry = header.get(key, {})
        if entry.get("dtype") != "F32" or tuple(entry["shape"]) != shape:
            found = f"{entry['dtype']} {entry['shape']}" if entry else "nothing"
            raise DataError(f"{path}: expected {key} as F32 {list(shape)}, found {found}; only {name} fits")
        first, last = (start + offset for offset in entry["data_offsets"])
        if last > len(data):
            raise DataError(f"{path}: cut off at {len(data)} bytes, inside {key}")
        tensors[key] = data[first:last].view("<f4").reshape(shape)
    return tensors
