"""The labels: 32 emotions, 8 empathetic intents and neutral. One definition, imported everywhere.

Ids are stable: emotions in alphabetical order 0–31, then the intents 32–39 in the order of seed 002's
classifier data, then neutral, 40.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal

from attune.errors import DataError, did_you_mean

EMOTIONS: tuple[str, ...] = (
    "afraid", "angry", "annoyed", "anticipating", "anxious", "apprehensive", "ashamed", "caring",
    "confident", "content", "devastated", "disappointed", "disgusted", "embarrassed", "excited", "faithful",
    "furious", "grateful", "guilty", "hopeful", "impressed", "jealous", "joyful", "lonely",
    "nostalgic", "prepared", "proud", "sad", "sentimental", "surprised", "terrified", "trusting",
)  # fmt: skip
INTENTS: tuple[str, ...] = (
    "agreeing", "acknowledging", "encouraging", "consoling",
    "sympathizing", "suggesting", "questioning", "wishing",
)  # fmt: skip
NEUTRAL = "neutral"
LABELS: tuple[str, ...] = (*EMOTIONS, *INTENTS, NEUTRAL)

EMOTION_ID: dict[str, int] = {name: i for i, name in enumerate(EMOTIONS)}
LABEL_ID: dict[str, int] = {name: i for i, name in enumerate(LABELS)}

Polarity = Literal["positive", "negative"]
# MIME's grouping: 13 positive, 19 negative (FACTS A.4).
POSITIVE: frozenset[str] = frozenset(
    (
        *("confident", "joyful", "grateful", "impressed", "proud", "excited", "trusting"),
        *("hopeful", "faithful", "prepared", "content", "surprised", "caring"),
    )
)
NEGATIVE: frozenset[str] = frozenset(EMOTIONS) - POSITIVE


def polarity(emotion: str) -> Polarity:
    """MIME's polarity of an emotion.

    >>> polarity("joyful"), polarity("nostalgic")
    ('positive', 'negative')
    """
    return "positive" if EMOTIONS[emotion_id(emotion)] in POSITIVE else "negative"


def emotion_id(emotion: str) -> int:
    """Stable id of an emotion, with a did-you-mean error for anything else."""
    try:
        return EMOTION_ID[emotion]
    except KeyError:
        raise DataError(did_you_mean(emotion, EMOTIONS, "emotion")) from None


def label_id(label: str) -> int:
    """Stable id of any of the 41 labels, with a did-you-mean error for anything else."""
    try:
        return LABEL_ID[label]
    except KeyError:
        raise DataError(did_you_mean(label, LABELS, "label")) from None


# DailyDialog's turn labels, by their ids 0–6.
DAILYDIALOG: tuple[str, ...] = ("no emotion", "anger", "disgust", "fear", "happiness", "sadness", "surprise")
_OF_DAILYDIALOG: tuple[str, ...] = (NEUTRAL, "angry", "disgusted", "afraid", "joyful", "sad", "surprised")
# The nearest of the six for each emotion, by how EmpatheticDialogues uses the word ("anticipating" is there mostly
# looking forward to something, whatever MIME's grouping says); intents and neutral are "no emotion".
_NEAREST: dict[str, str] = {
    "anger": "angry annoyed furious jealous",
    "disgust": "disgusted",
    "fear": "afraid anxious apprehensive terrified",
    "happiness": "anticipating caring confident content excited faithful grateful hopeful joyful prepared proud trusting",
    "sadness": "ashamed devastated disappointed embarrassed guilty lonely nostalgic sad sentimental",
    "surprise": "impressed surprised",
}
TO_DAILYDIALOG: Mapping[str, int] = MappingProxyType(
    dict.fromkeys(LABELS, 0)
    | {emotion: DAILYDIALOG.index(name) for name, emotions in _NEAREST.items() for emotion in emotions.split()}
)  # any of the 41 labels to an id of DailyDialog


def from_dailydialog(emotion: int) -> str:
    """The label that stands for an emotion id of DailyDialog.

    >>> from_dailydialog(4), from_dailydialog(0), DAILYDIALOG[TO_DAILYDIALOG["terrified"]]
    ('joyful', 'neutral', 'fear')
    """
    if not 0 <= emotion < len(DAILYDIALOG):
        known = ", ".join(f"{i} {name}" for i, name in enumerate(DAILYDIALOG))
        raise DataError(f"unknown DailyDialog emotion {emotion}; expected one of {known}")
    return _OF_DAILYDIALOG[emotion]
