"""The labels: 32 emotions, 8 empathetic intents and neutral. One definition, imported everywhere.

Ids are stable: emotions in alphabetical order 0–31, then the intents 32–39 in the order of seed 002's
classifier data, then neutral, 40.
"""

from __future__ import annotations

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
    "confident joyful grateful impressed proud excited trusting hopeful faithful prepared content surprised caring".split()
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
