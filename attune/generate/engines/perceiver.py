"""A perceiver's run without torch: what the speaker feels and what reply to give, from one pass of its encoder on onnxruntime.

The run's own weights are small (adapters and heads, or some layers); the encoder that they change comes as a part.
"""

from __future__ import annotations

import json
import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load_file
from tokenizers import Tokenizer

from attune.dialogue.types import Context
from attune.emotion.opinions import normalised, together
from attune.emotion.wording import WORDING, Wording
from attune.errors import DataError, SettingsError
from attune.generate.systems import needed
from attune.knowledge.sentences import SHAPES, Encoder, mapped
from attune.parts import PARTS, locate

Array = NDArray[np.float32]

WEIGHTS = "model.safetensors"
HEADS = ("emotion", "label")
MARKS = (("[CLS]", "[SEP]"), ("<s>", "</s>"))  # the first token of what is read, and what stands behind each turn
REMEMBERED = 256  # contexts; both heads are asked about the same ones
_DOWN, _UP = ".lora_A.default.weight", ".lora_B.default.weight"


class LightTokens:
    """Texts as an encoder reads them, in its own tokens."""

    def __init__(self, file: Path, longest: int) -> None:
        self.longest = longest
        self.tokenizer = Tokenizer.from_file(str(file))
        self.tokenizer.no_padding()
        self.tokenizer.no_truncation()
        ids = [(self.tokenizer.token_to_id(first), self.tokenizer.token_to_id(end)) for first, end in MARKS]
        marks = next(((first, end) for first, end in ids if first is not None and end is not None), None)
        if marks is None:
            raise DataError(f"{file}: it has no {' and '.join(MARKS[0])}")
        self._first, self._end = marks

    def ids(self, texts: Sequence[str]) -> tuple[int, ...]:
        """`<CLS> u1 <SEP> u2 <SEP> …`; of what is too long the beginning is left out."""
        said = [
            token for text in texts for token in (*self.tokenizer.encode(text, add_special_tokens=False).ids, self._end)
        ]
        return (self._first, *said[-(self.longest - 1) :])


class LightPerceiver:
    """The folder of a perceiver's run: `config.json`, `model.safetensors`, the encoder's `tokenizer.json`, perhaps its wording."""

    def __init__(self, folder: str | Path, *, threads: int | None = None) -> None:
        """`threads` is how many cores one call uses; by default `OMP_NUM_THREADS`, else all of them."""
        folder = Path(folder)
        needed(folder, "config.json", WEIGHTS, "encoder/tokenizer.json")
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        base = packaged(config)
        self.tokens = LightTokens(folder / "encoder" / "tokenizer.json", config["context_tokens"])
        try:
            trained = {name: value.astype(np.float32) for name, value in load_file(folder / WEIGHTS).items()}
        except (OSError, SafetensorError) as error:
            raise DataError(f"{folder / WEIGHTS}: cannot be read ({error})") from None
        self._heads: dict[str, tuple[Array, Array]] = {}
        for name, temperature in zip(HEADS, config["temperatures"], strict=True):
            try:
                self._heads[name] = trained[f"{name}.weight"] / temperature, trained[f"{name}.bias"] / temperature
            except KeyError as error:
                raise DataError(f"{folder / WEIGHTS}: not a perceiver's weights: no {error.args[0]}") from None
        place = locate(base)
        added = differences(trained, mapped(place / WEIGHTS, base))
        self._encoder = Encoder(base, place, longest=self.tokens.longest, threads=threads, added=added)
        self.wording = Wording.load(folder / WORDING) if config.get("words_share") else None
        self.words_share: float = config.get("words_share", 0.0)
        self._known: OrderedDict[tuple[int, ...], dict[str, Array]] = OrderedDict()
        self._lock = threading.Lock()

    def perceive(self, contexts: Sequence[Context]) -> Array:
        """[n, 32] probabilities in the order of EMOTIONS."""
        seen = self.seen(contexts)
        return seen if self.wording is None else together(seen, self.wording.perceive(contexts), self.words_share)

    def seen(self, contexts: Sequence[Context]) -> Array:
        """[n, 32]: what the encoder alone takes contexts to feel."""
        return self._shares("emotion", contexts)

    def decide(self, contexts: Sequence[Context]) -> Array:
        """[n, 41] probabilities of the label of the reply to give, in the order of LABELS."""
        return self._shares("label", contexts)

    def _shares(self, head: str, contexts: Sequence[Context]) -> Array:
        rows = [self.tokens.ids([turn.text for turn in context]) for context in contexts]
        with self._lock:
            found = {ids: self._known[ids] for ids in rows if ids in self._known}
        if new := list(dict.fromkeys(ids for ids in rows if ids not in found)):
            vectors = self._encoder.vectors(new, unit=False)
            logits = {name: vectors @ weight.T + bias for name, (weight, bias) in self._heads.items()}
            found |= {ids: {name: logits[name][i] for name in HEADS} for i, ids in enumerate(new)}
        with self._lock:
            self._known |= {ids: found[ids] for ids in rows}
            while len(self._known) > REMEMBERED:
                self._known.popitem(last=False)
        width = len(self._heads[head][1])
        return normalised(np.array([found[ids][head] for ids in rows], dtype=np.float32).reshape(len(rows), width))


def packaged(config: Mapping[str, object]) -> str:
    """The part that a run's encoder is; an error says why it cannot run without torch."""
    name = str(config.get("encoder"))
    if name not in SHAPES:
        raise SettingsError(f"without torch, the encoder is one of {', '.join(map(repr, SHAPES))}, not '{name}'")
    if config.get("pooling") != "mean":
        raise SettingsError(f"without torch, the pooling is 'mean', not '{config.get('pooling')}'")
    bases: dict[str, dict[str, str]] = config.get("bases") or {}  # type: ignore[assignment]
    pinned = next(value for file, value in PARTS[name].files.items() if file.endswith(WEIGHTS))
    if (trained_on := bases.get("encoder", {}).get("checksum", pinned)) != pinned:
        raise DataError(f"the run was trained on other weights of '{name}' ({trained_on[:12]}…) than the part's")
    return name


def differences(trained: Mapping[str, Array], base: Mapping[str, Array]) -> dict[str, Array]:
    """What a run adds to the encoder's tensors: products of adapters, and what whole tensors that it trained differ by."""
    added: dict[str, Array] = {}
    for name, value in trained.items():
        key = name.removeprefix("encoder.")
        if key == name or key.endswith(_UP):
            continue
        if key.endswith(_DOWN):
            up = trained[name.removesuffix(_DOWN) + _UP]
            added[key.removesuffix(_DOWN) + ".weight"] = 2 * up @ value  # alpha is twice the rank
        elif key in base:
            added[key] = value - base[key]
    return added
