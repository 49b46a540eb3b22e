"""What a system put out, one item per example, and the corpus text that is joined to it for scoring.

A file of outputs is JSON lines. `prediction` and `reference` are whitespace-tokenised and taken as they are;
`emotion`, `predicted_emotion`, `label`, `predicted_label`, `nll` (nats, end of reply included), `tokens` (its count),
`unk_bytes`, `text`, `context` and `id` may be there. Every item has all that a metric needs, or the metric is not computed.
"""

from __future__ import annotations

import gzip
import json
import math
import zlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import IO, Any, NamedTuple, cast

import numpy as np

from attune.dialogue.protocols import PROTOCOLS
from attune.dialogue.readers import read, splits
from attune.dialogue.text import normal_form
from attune.emotion.taxonomy import emotion_id, label_id
from attune.errors import DataError, MissingError
from attune.files import atomic_write

LONGEST_LINE = 10_000_000  # bytes; a longer line is no reply


@dataclass(frozen=True, slots=True)
class Item:
    """One example as it was answered. `raw_reference` is the corpus text; only a corpus (`--data`) gives it."""

    id: str | None = None
    prediction: str | None = None
    text: str | None = None
    reference: str | None = None
    emotion: str | None = None
    predicted_emotion: str | None = None
    label: str | None = None
    predicted_label: str | None = None
    nll: float | None = None
    tokens: int | None = None
    unk_bytes: int = 0
    raw_reference: str | None = None


KEPT = (
    "id",
    "prediction",
    "text",
    "predicted_emotion",
    "predicted_label",
    "nll",
    "tokens",
    "unk_bytes",
)  # never corpus text


class Outputs:
    """Items to be scored together, with what all of them share.

    >>> outputs = Outputs([Item(prediction="i am glad .", reference="great !")])
    >>> len(outputs), outputs.lacks("prediction"), outputs.lacks("nll")
    (1, None, "1 of 1 items have no 'nll'")
    """

    def __init__(
        self, items: Sequence[Item], *, text_form: str = "as-given", training: Collection[str] | None = None
    ) -> None:
        self.items = list(items)
        self.text_form = text_form  # what `nll` is the likelihood of: "raw" text, its "normal-form", or unknown
        self.training = training  # normal forms of the training responses

    def __len__(self) -> int:
        return len(self.items)

    def lacks(self, need: str) -> str | None:
        """Why a metric that needs this cannot be computed; None when everything is there."""
        if need == "training":
            return None if self.training is not None else "no training responses to compare with (--train DIR)"
        if need == "nll of raw text":
            return None if self.text_form == "raw" else f"'nll' is of {self.text_form} text, not of the raw reference"
        absent = sum(getattr(item, need) is None for item in self.items)
        return f"{absent:,} of {len(self):,} items have no '{need}'" if absent else None

    def column(self, name: str) -> list[Any]:
        return [getattr(item, name) for item in self.items]

    def numbers(self, name: str) -> np.ndarray:
        return np.array(self.column(name), dtype=float)

    @cached_property
    def words(self) -> list[list[str]]:
        """The whitespace tokens of every prediction."""
        return [(item.prediction or "").split() for item in self.items]


def read_outputs(path: str | Path) -> list[Item]:
    """The items of a file of outputs (`.gz` too). The first bad line stops it, with file, line and reason."""
    path = Path(path)
    items: list[Item] = []
    seen: dict[str, int] = {}
    for number, line in _lines(path):
        where = f"{path}:{number}"
        item = _item(line, where)
        if item.id is not None and seen.setdefault(item.id, number) != number:
            raise DataError(f"{where}: id '{item.id}' stands in line {seen[item.id]} already")
        items.append(item)
    if not items:
        raise DataError(f"{path}: is empty; expected one JSON object per line with 'prediction' and 'reference'")
    return items


def write_outputs(path: Path, items: Iterable[Item]) -> None:
    """Items as JSON lines, gzipped if the name ends in `.gz`; the same items always give the same bytes."""
    text = "".join(line(item) + "\n" for item in items).encode()
    with atomic_write(path, "wb") as file:
        file.write(gzip.compress(text, mtime=0) if path.suffix == ".gz" else text)


def line(item: Item) -> str:
    """One item as it is kept: no corpus text, nothing that is absent."""
    kept = {key: value for key, value in asdict(item).items() if key in KEPT and value is not None}
    if not kept["unk_bytes"]:
        del kept["unk_bytes"]
    return json.dumps(kept, ensure_ascii=False)


class Joined(NamedTuple):
    """Items with their corpus text, the split that holds them, and the protocol whose examples they are, all of them."""

    items: list[Item]
    split: str
    protocol: str | None


def join(items: Sequence[Item], corpus: str | Path) -> Joined:
    """Put the corpus' references, emotions and turn labels to items by `id`.

    A reference that an item already has is kept; `raw_reference` is always the corpus'.
    """
    wanted = {item.id for item in items}
    if None in wanted:
        raise DataError("a line has no 'id' (\"conv_id:turn\"), so the corpus cannot be joined to it")
    found: dict[str, tuple[str, str | None, str | None]] = {}
    asked: dict[str, set[str]] = {name: set() for name in PROTOCOLS}
    used: list[str] = []
    for split in sorted(splits(corpus), key=lambda name: {"test": 0, "valid": 1}.get(name, 2)):
        before = len(found)
        here: dict[str, set[str]] = {name: set() for name in PROTOCOLS}
        for dialogue in read(corpus, split=split):
            for position, turn in enumerate(dialogue.turns, 1):
                if (key := f"{dialogue.id}:{position}") in wanted:
                    found[key] = (turn.text, dialogue.emotion, turn.label)
            for name, protocol in PROTOCOLS.items():
                here[name].update(example.id for example in protocol.function(dialogue))
        if len(found) > before:
            used.append(split)
            asked = {name: ids | here[name] for name, ids in asked.items()}
        if len(found) == len(wanted):
            break
    joined = []
    for item in items:
        if item.id not in found:
            raise DataError(f"id '{item.id}' is not in the corpus {corpus} (expected \"conv_id:turn\")")
        raw, emotion, label = found[item.id]
        reference = item.reference if item.reference is not None else normal_form(raw)
        emotion, label = item.emotion or emotion, item.label or label
        joined.append(replace(item, reference=reference, raw_reference=raw, emotion=emotion, label=label))
    whole = [name for name in ("listener-turns", *asked) if asked[name] == wanted]
    return Joined(joined, "+".join(used), whole[0] if whole else None)


def training_responses(corpus: str | Path) -> frozenset[str] | None:
    """The normal forms of all listener turns of a corpus' training split; None if it has none."""
    if "train" not in splits(corpus):
        return None
    turns = (turn for dialogue in read(corpus, split="train") for turn in dialogue.turns)
    return frozenset(normal_form(turn.text) for turn in turns if turn.role == "listener")


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    """Numbered lines that are not blank, as text; what is not text is said so."""
    try:
        with _open(path) as file:
            for number, raw in enumerate(iter(lambda: file.readline(LONGEST_LINE + 1), b""), 1):
                if len(raw) > LONGEST_LINE:
                    raise DataError(f"{path}:{number}: the line is longer than {LONGEST_LINE:,} bytes")
                try:
                    text = raw.decode("utf-8-sig" if number == 1 else "utf-8")
                except UnicodeDecodeError:
                    raise DataError(f"{path}:{number}: is not UTF-8 text; expected JSON lines") from None
                if text.strip():
                    yield number, text
    except FileNotFoundError:
        raise MissingError(f"no file at {path}") from None
    except IsADirectoryError:
        raise DataError(f"{path}: is a folder; expected a file of JSON lines") from None
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"{path}: cannot be read: {error}") from None


def _open(path: Path) -> IO[bytes]:
    with path.open("rb") as file:
        zipped = file.read(2) == b"\x1f\x8b"
    return cast("IO[bytes]", gzip.open(path, "rb")) if zipped else path.open("rb")


def _item(text: str, where: str) -> Item:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise DataError(f"{where}: is not JSON ({error})") from None
    if not isinstance(found, dict):
        raise DataError(f"{where}: expected a JSON object, found {type(found).__name__}")
    if not {"prediction", "predicted_emotion", "predicted_label", "nll"} & found.keys():
        raise DataError(f"{where}: has no 'prediction' (keys: {', '.join(map(str, found)) or 'none'})"[:300])
    texts = {key: _text(found, key, where) for key in ("id", "prediction", "text", "reference")}
    return Item(
        **texts,
        emotion=_named(found, "emotion", where, emotion_id),
        predicted_emotion=_named(found, "predicted_emotion", where, emotion_id),
        label=_named(found, "label", where, label_id),
        predicted_label=_named(found, "predicted_label", where, label_id),
        nll=_number(found, "nll", where),
        tokens=_count(found, "tokens", where, least=1),
        unk_bytes=_count(found, "unk_bytes", where, least=0) or 0,
    )


def _text(found: Mapping[str, Any], key: str, where: str) -> str | None:
    value = found.get(key)
    if value is not None and not isinstance(value, str):
        raise DataError(f"{where}: '{key}' must be text, found {value!r:.60}")
    return value


def _named(found: Mapping[str, Any], key: str, where: str, known: Callable[[str], int]) -> str | None:
    """An emotion or a label, in lower case."""
    value = _text(found, key, where)
    if value is None:
        return None
    try:
        known(value.lower())
    except DataError as error:
        raise DataError(f"{where}: '{key}': {error}") from None
    return value.lower()


def _number(found: Mapping[str, Any], key: str, where: str) -> float | None:
    value = found.get(key)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value) or value < 0:
        raise DataError(f"{where}: '{key}' must be a number of at least 0, found {value!r:.60}")
    return float(value)


def _count(found: Mapping[str, Any], key: str, where: str, least: int) -> int | None:
    value = _number(found, key, where)
    if value is None:
        return None
    if value < least or value != int(value):
        raise DataError(f"{where}: '{key}' must be a whole number of at least {least}, found {found[key]!r:.60}")
    return int(value)
