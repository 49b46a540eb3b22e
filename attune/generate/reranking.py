"""Which of several candidates to say: each is scored for what a good reply is, and the weighted sum decides. No torch here.

>>> from attune.dialogue.types import Turn
>>> ask = Ask((Turn("speaker", "My old dog died."),))
>>> said = [Candidate("I see.", -2.0, 3), Candidate("Oh no, was your dog ill?", -4.0, 8)]
>>> [ranked.text for ranked in Reranker(encoder=None).rank([(ask, said)])[0]]
['Oh no, was your dog ill?', 'I see.']
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from math import log
from pathlib import Path
from typing import Literal, NamedTuple, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from attune.dialogue.text import normalise
from attune.dialogue.types import Context
from attune.errors import DataError, MissingError
from attune.files import atomic_write
from attune.generate.saying import Ask, Candidate
from attune.knowledge.stopwords import STOP_WORDS, stem

SIZE = 3  # words of a phrase
START, END = "<", ">"  # stand before and after a reply, so that a short one has phrases too


@dataclass(frozen=True)
class Weights:
    """What each score of a candidate counts. Chosen on validation, among a few (`benchmarks/reranking.py`)."""

    likelihood: float = 0.5
    """Log-probability per token, in nats."""
    overlap: float = 0.5
    """Share of its content words that stand in the context or among the concepts."""
    similarity: float = 2.0
    """Cosine with what the speaker said, when the sentence encoder is at hand."""
    consensus: float = 2.0
    """Mean cosine with the other candidates: what several of them say is what the context asks for."""
    label: float = 0.3
    """Probability that it carries the label that was predicted, when a labeller is at hand."""
    asked: float = 6.0
    """The same, for a label that somebody asked for."""
    generic: float = -1.0
    """How common its phrases are among replies, when that was learnt."""
    repeats: float = -4.0
    """Share of its phrases that one earlier turn has word for word, the agent's or the person's."""
    length: float = -1.0
    """Its length against the tone: above 0 if it is long though brevity is wanted, or short though length is."""


class Ranked(NamedTuple):
    """A candidate with its scores. One that was not compared with others has no score."""

    text: str
    score: float | None
    scores: dict[str, float]


class Labels(Protocol):
    """What a labeller says of a text."""

    @property
    def probabilities(self) -> Mapping[str, float]: ...


class Labelling(Protocol):
    """A system with the capability `label`."""

    def label(self, texts: Sequence[str]) -> Sequence[Labels]: ...


class Encoding(Protocol):
    """Texts to vectors of length 1."""

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]: ...


@dataclass(frozen=True)
class CommonPhrases:
    """Phrases of three words with the number of replies that have them: what makes a reply generic is learnt, not listed.

    >>> common = CommonPhrases.learn(["I am so sorry.", "I am so sorry!", "I am so glad.", "Was it a big dog?"], least=2)
    >>> common.share("I am so sorry.") > common.share("Was it a big cat?") == 0.0
    True
    """

    replies: int
    counts: dict[str, int] = field(repr=False)

    @classmethod
    def learn(cls, replies: Iterable[str], *, most: int = 5_000, least: int = 3) -> Self:
        """Count in replies to many different contexts: a corpus's responses, or a system's own candidates."""
        counts: Counter[str] = Counter()
        number = 0
        for reply in replies:
            counts.update(set(phrases(reply)))
            number += 1
        return cls(number, {phrase: count for phrase, count in counts.most_common(most) if count >= least})

    def share(self, reply: str) -> float:
        """From 0, said for the first time, to 1, said to everybody: the mean over its phrases, by the logarithm."""
        found = phrases(reply)
        whole = len(found) * log(1 + self.replies)
        return sum(log(1 + self.counts.get(phrase, 0)) for phrase in found) / whole if whole else 0.0

    def save(self, path: Path | str) -> None:
        with atomic_write(path) as file:
            json.dump({"replies": self.replies, "phrases": self.counts}, file, ensure_ascii=False)

    @classmethod
    def load(cls, path: Path | str) -> Self:
        try:
            found = json.loads(Path(path).read_text(encoding="utf-8"))
            return cls(int(found["replies"]), {str(key): int(value) for key, value in found["phrases"].items()})
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise DataError(f"{path}: not a file of common phrases ({type(error).__name__}: {error})") from None


class Reranker:
    """Orders the candidates of asks, best first.

    `encoder` is by default the packaged sentence encoder if its part is already here; nothing is fetched for it. So is a
    `labeller` that is "auto" the packaged one, which is opened when it is first asked.
    """

    def __init__(
        self,
        weights: Weights = Weights(),
        *,
        labeller: Labelling | Literal["auto"] | None = None,
        common: CommonPhrases | None = None,
        encoder: Encoding | Literal["auto"] | None = "auto",
    ) -> None:
        self.weights, self._labeller, self.common, self._encoder = weights, labeller, common, encoder

    def rank(self, batch: Sequence[tuple[Ask, Sequence[Candidate]]]) -> list[list[Ranked]]:
        """The candidates of each ask in order; the same text twice counts once, by its better likelihood."""
        some = [(ask, _distinct(found)) for ask, found in batch]
        compared = [pair for pair in some if len(pair[1]) > 1]
        scores: dict[int, list[dict[str, float]]] = {
            id(found): [self._plain(ask, candidate) for candidate in found] for ask, found in some
        }
        for found in (self._similar(compared), self._label(compared)):
            for (_, candidates), more in zip(compared, found, strict=True):
                for kept, values in zip(scores[id(candidates)], more):
                    kept |= values
        return [self._ordered(ask, found, scores[id(found)]) for ask, found in some]

    def _ordered(self, ask: Ask, found: Sequence[Candidate], scores: Sequence[dict[str, float]]) -> list[Ranked]:
        worth = asdict(self.weights)
        if ask.control.asked:
            worth["label"] = worth["asked"]
        ranked = [
            Ranked(
                candidate.text,
                round(sum(worth[name] * value for name, value in some.items()), 4) if len(found) > 1 else None,
                {name: round(value, 4) for name, value in some.items()},
            )
            for candidate, some in zip(found, scores, strict=True)
        ]
        return sorted(ranked, key=lambda one: -(one.score or 0.0))

    def _plain(self, ask: Ask, candidate: Candidate) -> dict[str, float]:
        """The scores that need words and nothing else."""
        scores = {
            "likelihood": candidate.logprob / max(candidate.tokens, 1),
            "overlap": overlap(candidate.text, ask.context, ask.control.concepts),
            "repeats": repeats(candidate.text, ask.context),
        }
        if self.common is not None:
            scores["generic"] = self.common.share(candidate.text)
        if ask.tone.brevity != 0.5:
            scores["length"] = (ask.tone.brevity - 0.5) * len(candidate.text.split()) / 10
        return scores

    def _similar(self, batch: Sequence[tuple[Ask, Sequence[Candidate]]]) -> list[list[dict[str, float]]]:
        encoder = self.encoder if batch else None
        if encoder is None:
            return [[] for _ in batch]
        said = [" ".join(turn.text for turn in ask.context if turn.role == "speaker") for ask, _ in batch]
        vectors = encoder.encode([*said, *(candidate.text for _, found in batch for candidate in found)])
        similar, start = [], len(said)
        for row, (_, found) in enumerate(batch):
            own = vectors[start : start + len(found)]
            others = own @ own.sum(axis=0) - (own * own).sum(axis=1)
            similar.append(
                [
                    {"similarity": float(one), "consensus": float(other) / (len(found) - 1)}
                    for one, other in zip(own @ vectors[row], others, strict=True)
                ]
            )
            start += len(found)
        return similar

    def _label(self, batch: Sequence[tuple[Ask, Sequence[Candidate]]]) -> list[list[dict[str, float]]]:
        wanted = [(ask.control.label, found) for ask, found in batch]
        texts = [candidate.text for label, found in wanted if label for candidate in found]
        labeller = self.labeller if texts else None
        if labeller is None:
            return [[] for _ in batch]
        given = iter(labeller.label(texts))
        return [
            [{"label": next(given).probabilities.get(label, 0.0)} for _ in found] if label else []
            for label, found in wanted
        ]

    @property
    def encoder(self) -> Encoding | None:
        if self._encoder == "auto":
            from attune.knowledge.sentences import load_encoder

            self._encoder = load_encoder() if _encoder_is_here() else None
        return self._encoder

    @property
    def labeller(self) -> Labelling | None:
        if self._labeller == "auto":
            from attune.generate.labeller import load_labeller

            self._labeller = load_labeller() if _encoder_is_here() else None
        return self._labeller


def _encoder_is_here() -> bool:
    """Whether the part that sentence encoder and labeller stand on is here already."""
    from attune.parts import locate

    try:
        locate("minilm", fetch=False)
    except MissingError:
        return False
    return True


def phrases(text: str) -> list[str]:
    """Three words each, with where the text starts and ends.

    >>> phrases("So sorry!")
    ['< so sorry', 'so sorry !', 'sorry ! >']
    """
    words = [START, *normalise(text), END]
    return [" ".join(words[i : i + SIZE]) for i in range(len(words) - SIZE + 1)]


def content_words(text: str) -> set[str]:
    """The stems of the words that carry a meaning.

    >>> sorted(content_words("Was your dog really barking?"))
    ['bark', 'dog']
    """
    return {stem(word) for word in normalise(text) if word.isalpha() and word not in STOP_WORDS}


def overlap(text: str, context: Context, concepts: Sequence[str] = ()) -> float:
    """The share of a reply's content words that the speaker used or that are among the concepts; 0 if it has none.

    >>> from attune.dialogue.types import Turn
    >>> overlap("Was your dog old?", (Turn("speaker", "My dog died."),), ["old age"])
    1.0
    """
    found = content_words(text)
    said = [turn.text for turn in context if turn.role == "speaker"]
    known = set().union(*(content_words(one) for one in (*said, *concepts)))
    return len(found & known) / len(found) if found else 0.0


def repeats(text: str, context: Context) -> float:
    """The greatest share of a reply's phrases that one earlier turn has too.

    >>> from attune.dialogue.types import Turn
    >>> repeats("I am so sorry.", (Turn("listener", "I am so sorry."), Turn("speaker", "Yes.")))
    1.0
    """
    found = set(phrases(text))
    return max((len(found & set(phrases(turn.text))) / len(found) for turn in context), default=0.0)


def _distinct(candidates: Sequence[Candidate]) -> list[Candidate]:
    best: dict[str, Candidate] = {}
    for candidate in candidates:
        text = candidate.text.strip()
        if text and (text not in best or candidate.logprob > best[text].logprob):
            best[text] = candidate._replace(text=text)
    return list(best.values())
