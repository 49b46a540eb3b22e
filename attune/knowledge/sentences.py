"""Sentence embeddings without torch: all-MiniLM-L6-v2 on onnxruntime.

The graph (`data/minilm.onnx`, made by :mod:`attune.knowledge.encoder_graph`) is a few kilobytes and has no weights; they
are mapped straight from the part's `model.safetensors`.
"""

from __future__ import annotations

import json
import os
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from importlib import resources
from pathlib import Path
from threading import Lock

import numpy as np
from numpy.typing import NDArray

from attune.errors import DataError, MissingError
from attune.parts import locate

Array = NDArray[np.float32]

VOCABULARY, POSITIONS, HIDDEN, INNER, LAYERS, HEADS = 30_522, 512, 384, 1_536, 6, 12
MOST_TOKENS = 256  # of a text; the rest is not read, as the model's authors set it
_BATCH_TOKENS = 2_048  # larger batches are no faster, only larger
_REMEMBERED = 1 << 15  # words; 1.5 kB each


def weights() -> dict[str, tuple[int, ...]]:
    """The tensors that the graph takes from `model.safetensors`, with their shapes."""
    shapes: dict[str, tuple[int, ...]] = {
        "embeddings.word_embeddings.weight": (VOCABULARY, HIDDEN),
        "embeddings.position_embeddings.weight": (POSITIONS, HIDDEN),
        "embeddings.token_type_embeddings.weight": (2, HIDDEN),
    }
    dense = {f"attention.self.{name}": (HIDDEN, HIDDEN) for name in ("query", "key", "value")}
    dense |= {"attention.output.dense": (HIDDEN, HIDDEN)}
    dense |= {"intermediate.dense": (INNER, HIDDEN), "output.dense": (HIDDEN, INNER)}
    norms = ["embeddings.LayerNorm"]
    for layer in (f"encoder.layer.{i}" for i in range(LAYERS)):
        norms += [f"{layer}.attention.output.LayerNorm", f"{layer}.output.LayerNorm"]
        for name, shape in dense.items():
            shapes |= {f"{layer}.{name}.weight": shape, f"{layer}.{name}.bias": shape[:1]}
    for name in norms:
        shapes |= {f"{name}.weight": (HIDDEN,), f"{name}.bias": (HIDDEN,)}
    return shapes


class SentenceEncoder:
    """Texts to vectors of 384 numbers and length 1: the mean over the tokens' last states.

    >>> encoder = load_encoder()
    >>> a, b, c = encoder.encode(["I lost my dog.", "My puppy is gone.", "The train was late."])
    >>> bool(a @ b > a @ c)
    True
    """

    size = HIDDEN

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
        import onnxruntime
        from tokenizers import Tokenizer

        folder = locate("minilm") if folder is None else Path(folder)
        for file in ("model.safetensors", "tokenizer.json"):
            if not (folder / file).is_file():
                raise MissingError(
                    f"no sentence encoder in {folder}: {file} is not there; the default is the part 'minilm' (attune setup)"
                )
        self._tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self._tokenizer.no_padding()
        self._tokenizer.enable_truncation(MOST_TOKENS)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = int(os.environ.get("OMP_NUM_THREADS", 0)) if threads is None else threads
        options.add_session_config_entry(
            "session.intra_op.allow_spinning", "0"
        )  # waiting threads leave the cores alone
        options.log_severity_level = 3
        tensors = _mapped(folder / "model.safetensors")
        tensors |= {name: tensors[name] + value for name, value in (added or {}).items()}
        self._vocabulary = tensors.pop("embeddings.word_embeddings.weight")  # stays on disk; a text needs a few rows
        kind = tensors.pop("embeddings.token_type_embeddings.weight")[0]
        self._positions = tensors.pop("embeddings.position_embeddings.weight")[:MOST_TOKENS] + kind
        values = [onnxruntime.OrtValue.ortvalue_from_numpy(tensor) for tensor in tensors.values()]
        options.add_external_initializers(list(tensors), values)
        graph = resources.files("attune.knowledge").joinpath("data", "minilm.onnx").read_bytes()
        self._session = onnxruntime.InferenceSession(graph, options, providers=["CPUExecutionProvider"])
        self._values = values  # the session may read them in place
        self._words: OrderedDict[str, Array] = OrderedDict()
        self._lock = Lock()

    def encode(self, texts: Sequence[str | tuple[str, str]], batch_size: int = 32) -> Array:
        """One row per text or pair of texts [n, 384]. Texts of like length go together, at most `batch_size` at a time."""
        encoded = [code.ids for code in self._tokenizer.encode_batch(list(texts))]
        vectors = np.empty((len(encoded), HIDDEN), dtype=np.float32)
        for rows in _batches([len(ids) for ids in encoded], batch_size):
            longest = len(encoded[rows[-1]])
            tokens = np.zeros((len(rows), longest, HIDDEN), dtype=np.float32)
            mask = np.zeros((len(rows), longest), dtype=np.float32)
            for i, row in enumerate(rows):
                length = len(encoded[row])
                np.add(self._vocabulary[encoded[row]], self._positions[:length], out=tokens[i, :length])
                mask[i, :length] = 1
            vectors[rows] = self._session.run(None, {"tokens": tokens, "mask": mask})[0]
        return vectors

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
        return np.stack([found[word] for word in words]) if words else np.empty((0, HIDDEN), dtype=np.float32)


@lru_cache(maxsize=2)
def load_encoder(folder: str | Path | None = None) -> SentenceEncoder:
    """The encoder of a folder (by default the part "minilm"), loaded once per process."""
    return SentenceEncoder(folder)


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


def _mapped(path: Path) -> dict[str, Array]:
    """The graph's tensors, mapped from a safetensors file rather than read: processes share them."""
    try:
        data = np.memmap(path, dtype=np.uint8, mode="r")
        start = 8 + int(data[:8].view("<u8")[0])
        header = json.loads(data[8:start].tobytes())
    except ValueError as error:
        raise DataError(f"{path}: not a whole safetensors file: {error}") from None
    tensors = {}
    for name, shape in weights().items():
        entry = header.get(name, {})
        if entry.get("dtype") != "F32" or tuple(entry["shape"]) != shape:
            found = f"{entry['dtype']} {entry['shape']}" if entry else "nothing"
            raise DataError(f"{path}: expected {name} as F32 {list(shape)}, found {found}; only MiniLM-L6-H384 fits")
        first, last = (start + offset for offset in entry["data_offsets"])
        if last > len(data):
            raise DataError(f"{path}: cut off at {len(data)} bytes, inside {name}")
        tensors[name] = data[first:last].view("<f4").reshape(shape)
    return tensors
