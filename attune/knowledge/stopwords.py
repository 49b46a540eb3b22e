"""What makes two words the same for the knowledge filters: stop words and stems."""

from __future__ import annotations

from functools import lru_cache

import snowballstemmer

from attune.emotion.stopwords import STOP_WORDS

__all__ = ["STOP_WORDS", "same_stem", "stem"]

_english = snowballstemmer.stemmer("english")


@lru_cache(maxsize=1 << 16)
def stem(word: str) -> str:
    """The English Snowball stem of a word, or of each word of a phrase.

    >>> stem("Actually"), stem("blood cells")
    ('actual', 'blood cell')
    """
    return " ".join(_english.stemWords(word.lower().replace("_", " ").split()))


def same_stem(a: str, b: str) -> bool:
    """Whether two words (or phrases) are the same or have the same stem.

    >>> same_stem("actual", "actually"), same_stem("blood", "blood cell")
    (True, False)
    """
    return stem(a) == stem(b)
