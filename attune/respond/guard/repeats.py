"""Replies that only repeat what was said before."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from difflib import SequenceMatcher

ALIKE = 0.9  # from here on two texts are the same to a reader
_RUN = 6  # words in a row that nobody says again by chance
_FLIPPED = {"i": "you", "my": "your", "me": "you", "am": "are", "im": "youre", "myself": "yourself", "was": "were"}


def repeated(reply: str, by_person: Sequence[str], by_agent: Sequence[str]) -> str | None:
    """What a reply repeats, if it does: the person's words, the agent's, or its own.

    >>> repeated("My dog died last night.", ["my dog died last night"], [])
    'says what the person said: “my dog died last night”'
    >>> repeated("Oh no, your dog died?", ["my dog died last night"], [])
    """
    words = _words(reply)
    for said in by_person:
        other = _words(said)
        if _said_back(words, other):
            return f"says what the person said: “{said.strip()[:80]}”"
    for said in by_agent:
        other = _words(said)
        if _same(words, other) or _inside(other, words, 6):
            return f"says again what it said before: “{said.strip()[:80]}”"
    sentences = [tuple(_words(sentence)) for sentence in re.split(r"[.!?\n]+", reply)]
    grams = Counter(zip(words, words[1:], words[2:]))
    if max(grams.values(), default=0) > 2 or any(
        count > 1 for said, count in Counter(sentences).items() if len(said) > 2
    ):
        return "says the same thing more than once"
    return None


def _said_back(words: list[str], other: list[str]) -> bool:
    """Whether a reply is what the person said, or a piece of it, also with "you" for "I" if it is long."""
    if _inside(words, other, 4) or _inside(other, words, 4) or _shared(words, other) >= _RUN:
        return True
    if len(words) > _RUN:
        words, other = ([_FLIPPED.get(word, word) for word in row] for row in (words, other))
    return _same(words, other)


def _words(text: str) -> list[str]:
    return re.findall(r"\w+", text.lower().replace("'", "").replace("’", ""))


def _same(one: list[str], other: list[str]) -> bool:
    if len(one) < 3 or not other:
        return False
    matcher = SequenceMatcher(None, one, other, autojunk=False)
    return one == other or (len(one) > 5 and matcher.quick_ratio() >= ALIKE and matcher.ratio() >= ALIKE)


def _inside(part: list[str], whole: list[str], least: int) -> bool:
    return len(part) >= least and f" {' '.join(part)} " in f" {' '.join(whole)} "


def _shared(one: list[str], other: list[str]) -> int:
    if len(one) < _RUN or len(other) < _RUN:
        return 0
    return SequenceMatcher(None, one, other, autojunk=False).find_longest_match().size
