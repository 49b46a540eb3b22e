"""DailyDialog: one dialogue per line, every turn ended by `__eou__`; the turns' emotions in a file beside it.

The two people alternate, and the first is the speaker. A turn's label is DailyDialog's own emotion by its
name (`EMOTIONS`); these seven are none of the 41 labels. The files set punctuation apart ("Let ' s go , Jim .") or
leave no space behind it; turns have it as people write it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import chain, repeat
from pathlib import Path

from attune.dialogue.formats.base import Bad, Reader, stem
from attune.dialogue.lines import lines
from attune.dialogue.types import ROLES, Dialogue, Turn
from attune.errors import DataError

END = "__eou__"
EMOTIONS = ("no emotion", "anger", "disgust", "fear", "happiness", "sadness", "surprise")
_APART = re.compile(r" +([,.!?;:]+)(?= |$)")
_ENDING = re.compile(r"(?<=\w) ?(['’]) ?(s|m|t|re|ve|ll|d)\b")
_NO_SPACE = re.compile(r"(?<=[a-z])([,.!?])(?=[A-Z][a-z']* )")


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
    said = [as_people_write(text) for text in texts]
    return tuple(Turn(ROLES[i % 2], text, label) for i, (text, label) in enumerate(zip(said, labels, strict=True)))


def as_people_write(text: str) -> str:
    """A turn of the corpus with its punctuation where it belongs.

    >>> as_people_write("Good.Let ' s go , Jim ! You don't mind ?")
    "Good. Let's go, Jim! You don't mind?"
    """
    return _NO_SPACE.sub(r"\1 ", _ENDING.sub(r"\1\2", _APART.sub(r"\1", text)))


DAILYDIALOG = Reader(
    "dailydialog",
    f"DailyDialog, turns ended by {END}",
    lambda head: END in head and not head.startswith(("{", "[")),
    read_dailydialog,
)
