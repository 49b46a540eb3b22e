"""Keywords by KeyBERT's method: the words of a text whose embeddings are nearest to the embedding of the whole text."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from attune.emotion.stopwords import read_words
from attune.knowledge.sentences import SentenceEncoder, load_encoder

_WORD = re.compile(r"\b\w\w+\b")
_LEFT_OUT = read_words("attune.knowledge", "stopwords_sklearn.txt")  # KeyBERT's candidates come from scikit-learn


class Keyword(NamedTuple):
    """A word of a text and its cosine with the text, in 0..1."""

    word: str
    score: float


def candidates(text: str) -> list[str]:
    """The distinct words that may become keywords: two characters or more, lower-cased, no stop words; sorted.

    >>> candidates("I fear the cancer, and a fear of 3 tests.")
    ['cancer', 'fear', 'tests']
    """
    return sorted(set(_WORD.findall(text.lower())) - _LEFT_OUT)


def keywords(texts: Sequence[str], *, top: int = 10, encoder: SentenceEncoder | None = None) -> list[list[Keyword]]:
    """The `top` keywords of each text, best first; only those with a score above 0.

    Every distinct word of all texts is embedded once, and remembered by the encoder.

    >>> [word for word, _ in keywords(["I cough blood and fear it is cancer."], top=2)[0]]
    ['cancer', 'cough']
    """
    encoder = load_encoder() if encoder is None else encoder
    words = [candidates(text) for text in texts]
    chosen = [i for i, some in enumerate(words) if some]
    documents = encoder.encode([texts[i] for i in chosen])
    every = sorted({word for some in words for word in some})
    row = {word: i for i, word in enumerate(every)}
    vectors = encoder.encode_words(every)
    found: list[list[Keyword]] = [[] for _ in texts]
    for i, document in zip(chosen, documents):
        scores = vectors[[row[word] for word in words[i]]] @ document
        best = scores.argsort(kind="stable")[::-1][:top]
        ranked = (Keyword(words[i][j], round(float(scores[j]), 4)) for j in best)
        found[i] = [keyword for keyword in ranked if keyword.score > 0]
    return found
