"""Words that carry no content. Both lists are shipped with the package, each with its origin and licence."""

from __future__ import annotations

from importlib import resources


def read_words(package: str, file: str) -> frozenset[str]:
    """The words of a list shipped inside `package`: one a line, lines that start with ``#`` are its notice."""
    text = resources.files(package).joinpath("data", file).read_text(encoding="utf-8")
    return frozenset(line for line in text.splitlines() if line and not line.startswith("#"))


NLTK_STOP_WORDS: frozenset[str] = read_words("attune.emotion", "stopwords_nltk.txt")
SPACY_STOP_WORDS: frozenset[str] = read_words("attune.emotion", "stopwords_spacy.txt")
STOP_WORDS: frozenset[str] = NLTK_STOP_WORDS | SPACY_STOP_WORDS  # seed 000 takes the union
