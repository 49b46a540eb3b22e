"""EmpDG's emotional context (seed 004): the words of a text that carry emotion."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from attune.emotion.lexicons import EmotionLexicon, VadLexicon, load_emotion_lexicon, load_vad
from attune.emotion.stopwords import NLTK_STOP_WORDS
from attune.emotion.tagger import Tagger


@dataclass(frozen=True, slots=True)
class EmotionWord:
    """A word that carries emotion: where it stands, how strong it is (η), and why it was taken."""

    index: int
    word: str
    intensity: float
    why: Literal["lexicon", "adjective"]


def emotion_words(
    tokens: Sequence[str],
    *,
    lexicon: EmotionLexicon | None = None,
    tagger: Tagger | None = None,
    vad: VadLexicon | None = None,
) -> list[EmotionWord]:
    """The words of the emotion lexicon, and the adjectives that are not in it; stop words never.

    NLTK's stop words alone are left out, as EmpDG does: spaCy's list has words such as "alone" and "empty".
    The intensity of a word that the VAD lexicon lacks is 0.

    >>> [(word.word, word.why) for word in emotion_words("i felt lonely in the new town .".split())]
    [('lonely', 'lexicon'), ('new', 'adjective')]
    """
    lexicon = load_emotion_lexicon() if lexicon is None else lexicon
    vad = load_vad() if vad is None else vad
    tags = (Tagger.load() if tagger is None else tagger).tag(tokens)
    found = []
    for i, (token, tag) in enumerate(zip(tokens, tags)):
        if token.lower() in NLTK_STOP_WORDS:
            continue
        if token in lexicon:
            found.append(EmotionWord(i, token, vad.intensity(token), "lexicon"))
        elif tag.startswith("JJ") and token[0].isalpha():
            found.append(EmotionWord(i, token, vad.intensity(token), "adjective"))
    return found
