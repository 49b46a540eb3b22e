"""What the trainer reads: encoded examples, and the order in which they are seen."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from attune.dialogue.protocols import examples
from attune.dialogue.readers import labelled, read
from attune.dialogue.text import normalise
from attune.dialogue.types import Dialogue, Example, ReadReport
from attune.errors import DataError, MissingError
from attune.files import data_dir

POOL = 300  # batches whose examples are sorted by length together
STRATA = 30  # parts of a pool that are then sorted by their other length


def corpus(data: str | Path | None, default: str = "empathetic_dialogues") -> Path:
    """The corpus folder asked for, or the `default` one below `ATTUNE_DATA`."""
    if data is not None:
        if not Path(data).exists():
            raise MissingError(f"no corpus at {data}")
        return Path(data)
    root = data_dir()
    if root is None or not (root / default).is_dir():
        fetch = " (attune data get empathetic-dialogues fetches it)" if default == "empathetic_dialogues" else ""
        raise MissingError(f"no corpus: give --data DIR, or set ATTUNE_DATA to the folder that holds {default}/{fetch}")
    return root / default


def load_split(data: str | Path, split: str, labels: bool = False) -> list[Dialogue]:
    """All dialogues of one split, with the labels of their turns if these are wanted; an empty one is an error."""
    report = ReadReport()
    found = list(labelled(data, split, report) if labels else read(data, split=split, report=report))
    if not found:
        raise DataError(f"{data}: the split '{split}' holds no dialogue ({len(report.bad)} bad rows)")
    return found


def load_examples(dialogues: Sequence[Dialogue], protocol: str, split: str) -> list[Example]:
    found = list(examples(dialogues, protocol))
    if not found:
        raise DataError(f"the protocol '{protocol}' makes no example of the split '{split}'")
    return found


def count_words(dialogues: Sequence[Dialogue]) -> Counter[str]:
    """How often each normal-form word stands in the turns."""
    counts: Counter[str] = Counter()
    for dialogue in dialogues:
        for turn in dialogue.turns:
            counts.update(normalise(turn.text))
    return counts


def bucketed(items: Sequence[Any], size: int, seed: int, epoch: int) -> list[np.ndarray]:
    """One epoch's batches of places: shuffled, then sorted by length within pools, then the batches shuffled.

    An item that has two lengths (`inner_size` beside `size`) meets others that are alike in both. The order depends on the seed and the epoch alone, so a resumed run sees what the interrupted one would have seen.
    """
    rng = np.random.default_rng([seed, epoch])
    order = rng.permutation(len(items))
    lengths = np.array([item.size for item in items])
    inner = np.array([getattr(item, "inner_size", 0) for item in items])
    batches: list[np.ndarray] = []
    for start in range(0, len(order), size * POOL):
        pool = order[start : start + size * POOL]
        pool = pool[np.argsort(lengths[pool], kind="stable")]
        strata = np.array_split(pool, STRATA)  # by turns up and down: where one ends, the next goes on
        pool = np.concatenate([p[np.argsort((-1) ** i * inner[p], kind="stable")] for i, p in enumerate(strata)])
        batches += np.split(pool, range(size, len(pool), size))
    return [batches[i] for i in rng.permutation(len(batches))]


def in_order(items: Sequence[Any], size: int) -> Iterator[np.ndarray]:
    """Batches of places by length, for validation."""
    order = np.argsort([item.size for item in items], kind="stable")
    for start in range(0, len(order), size):
        yield order[start : start + size]
