"""DailyDialog: one dialogue per line, every turn ended by `__eou__`; the turns' emotions in a file beside it.

The two people alternate, and the first is the speaker. A turn's label is DailyDialog's own emotion by its
name (`EMOTIONS`); these seven are none of the 41 labels.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, repeat
from pathlib import Path

from attune.dialogue.formats.base import Bad, Reader, stem
from attune.dialogue.lines import lines
from attune.dialogue.types import ROLES, Dialogue, Turn
from attune.errors import DataError

END = "__eou__"
EMOTIONS = ("no emotion", "anger", "disgust", "fear", "happiness", "sadness", "surprise")


def read_dailydialog(path: Path, bad: Bad) -> Iterator[Dialogue]:
    """Dialogues of a `dialogues_….txt`, with labels if `dialogues_emotion_….txt` stands beside it."""
    beside = path.with_name(path.name.replace("dialogues_", "dialogues_emotion_", 1))
    labels: Iterator[str | None] = repeat(None)
    if beside != path and beside.is_file():
        labels = chain((line for _, line in lines(beside)), repeat(""))
    for (number, line), labelled in zip(lines(path), labels, strict=False):
        if not line.strip():
            continue
        try:
            turns = _turns(line, labelled)
        except DataError as error:
            bad(path, number, str(error))
        else:
            yield Dialogue(f"{stem(path)}:{number}", turns)


def _turns(line: str, labelled: str | None) -> tuple[Turn, ...]:
    *texts, rest = (text.strip() for text in line.split(END))
    if rest or not texts:
        raise DataError(f"expected {END} after every turn, found {(rest or line)[-40:]!r} at the end")
    if "" in texts:
        raise DataError(f"turn {texts.index('') + 1} is empty")
    labels: list[str | None] = [None] * len(texts)
    if labelled is not None:
        ids = labelled.split()
        if len(ids) != len(texts):
            raise DataError(f"{len(texts)} turns, but {len(ids)} emotions in the file beside it")
        for i, id in enumerate(ids):
            if not (id.isdecimal() and int(id) < len(EMOTIONS)):
                raise DataError(f"expected an emotion from 0 to {len(EMOTIONS) - 1} for turn {i + 1}, found {id!r}")
            labels[i] = EMOTIONS[int(id)]
    return tuple(Turn(ROLES[i % 2], text, label) for i, (text, label) in enumerate(zip(texts, labels, strict=True)))


DAILYDIALOG = Reader(
    "dailydialog",
    f"DailyDialog, turns ended by {END}",
    lambda head: END in head and not head.startswith(("{", "[")),
    read_dailydialog,
)
