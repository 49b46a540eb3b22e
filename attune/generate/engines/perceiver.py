"""The exported perceiver on onnxruntime, without torch: what the speaker feels and what reply to give, from one pass."""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

from attune.dialogue.types import Context
from attune.errors import DataError
from attune.generate.systems import needed

Array = NDArray[np.float32]

CLS, SEP = "[CLS]", "[SEP]"
BATCH = 32  # contexts read at once
REMEMBERED = 256  # contexts; both heads are asked about the same ones


class LightPerceiver:
    """A folder with `perceiver.onnx` and the encoder's `tokenizer.json`."""

    def __init__(self, folder: str | Path, *, threads: int | None = None) -> None:
        """`threads` is how many cores one call uses; by default `OMP_NUM_THREADS`, else all of them."""
        import onnxruntime

        folder = Path(folder)
        needed(folder, "perceiver.onnx", "encoder/tokenizer.json")
        self.tokenizer = Tokenizer.from_file(str(folder / "encoder" / "tokenizer.json"))
        self.tokenizer.no_padding()
        self.tokenizer.no_truncation()
        first, end = self.tokenizer.token_to_id(CLS), self.tokenizer.token_to_id(SEP)
        if first is None or end is None:
            raise DataError(f"{folder / 'encoder' / 'tokenizer.json'}: it has no {CLS} and {SEP}")
        self._first, self._end = first, end
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = int(os.environ.get("OMP_NUM_THREADS", 0)) if threads is None else threads
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        options.log_severity_level = 3
        try:
            self._session = onnxruntime.InferenceSession(
                str(folder / "perceiver.onnx"), options, providers=["CPUExecutionProvider"]
            )
            self.longest = int(self._session.get_modelmeta().custom_metadata_map["longest"])
        except Exception as error:  # onnxruntime has no class of its own for a file that is no graph
            raise DataError(f"{folder / 'perceiver.onnx'}: not a perceiver ({str(error).splitlines()[0]})") from None
        self._heads = [output.name for output in self._session.get_outputs()]
        self._known: OrderedDict[tuple[int, ...], dict[str, Array]] = OrderedDict()
        self._lock = threading.Lock()

    def perceive(self, contexts: Sequence[Context]) -> Array:
        """[n, 32] probabilities in the order of EMOTIONS."""
        return self._shares("emotion", contexts)

    def decide(self, contexts: Sequence[Context]) -> Array:
        """[n, 41] probabilities of the label of the reply to give, in the order of LABELS."""
        return self._shares("label", contexts)

    def ids(self, context: Context) -> tuple[int, ...]:
        """`<CLS> u1 <SEP> u2 <SEP> …`; of what is too long the beginning is left out."""
        said = [
            token
            for turn in context
            for token in (*self.tokenizer.encode(turn.text, add_special_tokens=False).ids, self._end)
        ]
        return (self._first, *said[-(self.longest - 1) :])

    def _shares(self, head: str, contexts: Sequence[Context]) -> Array:
        rows = [self.ids(context) for context in contexts]
        with self._lock:
            found = {ids: self._known[ids] for ids in rows if ids in self._known}
        new = sorted({ids for ids in rows if ids not in found}, key=len)
        for start in range(0, len(new), BATCH):
            found |= self._read(new[start : start + BATCH])
        with self._lock:
            self._known |= {ids: found[ids] for ids in rows}
            while len(self._known) > REMEMBERED:
                self._known.popitem(last=False)
        logits = np.stack([found[ids][head] for ids in rows]) if rows else np.empty((0, 0), dtype=np.float32)
        shares = np.exp(logits - logits.max(axis=-1, keepdims=True)) if rows else logits
        return np.asarray(shares / shares.sum(axis=-1, keepdims=True), dtype=np.float32)

    def _read(self, rows: Sequence[tuple[int, ...]]) -> dict[tuple[int, ...], dict[str, Array]]:
        ids = np.zeros((len(rows), max(map(len, rows))), dtype=np.int64)
        mask = np.zeros(ids.shape, dtype=np.float32)
        for i, row in enumerate(rows):
            ids[i, : len(row)], mask[i, : len(row)] = row, 1
        logits = self._session.run(self._heads, {"ids": ids, "mask": mask})
        return {row: {head: values[i] for head, values in zip(self._heads, logits)} for i, row in enumerate(rows)}
