"""What Attune hears in a text or dialogue: words that carry emotion, keywords, emotional concepts, and the context graph.

>>> said = explain([Turn("speaker", "I fear it must be cancer.")])
>>> [word.word for word in said.felt[0]], said.keywords[0].word, str(said.concepts[0])
(['fear', 'cancer'], 'cancer', 'cancer <is a> disease')
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from attune.dialogue.readers import read
from attune.dialogue.text import normalise
from attune.dialogue.types import ROLES, Dialogue, Turn
from attune.emotion.lexicons import EmotionLexicon, VadLexicon, load_emotion_lexicon, load_vad
from attune.emotion.words import emotion_words
from attune.errors import DataError, MissingError
from attune.knowledge.annotate import AnnotateSettings, Annotator
from attune.knowledge.build import open_index
from attune.knowledge.ckece import EmotionalConcept
from attune.knowledge.graph import CLS_KIND, CONCEPT_KIND, WORD_KIND, ContextGraph
from attune.knowledge.keywords import Keyword
from attune.knowledge.page import printable

VERSION = 1  # of the JSON; a change of its shape is a new version
KINDS = {CLS_KIND: "cls", WORD_KIND: "word", CONCEPT_KIND: "concept"}
Feeling = Literal["pleasant", "unpleasant", "neutral", "unknown"]
_NEUTRAL = 0.05  # a valence this near to ½ is neither pleasant nor unpleasant


@dataclass(frozen=True, slots=True)
class FeltWord:
    """A word that carries emotion, and where it stands in its turn as written (`text[start:end]`)."""

    word: str
    start: int
    end: int
    intensity: float  # η, 0..1
    valence: float | None  # 0..1; None if the lexicon lacks the word
    why: Literal["lexicon", "adjective"]
    emotions: tuple[str, ...]  # that the emotion lexicon ties to it


@dataclass(frozen=True)
class Explanation:
    """Everything that was found in the turns of one context."""

    turns: tuple[Turn, ...]
    felt: tuple[tuple[FeltWord, ...], ...]  # per turn
    keywords: tuple[Keyword, ...]
    concepts: tuple[EmotionalConcept, ...]
    graph: ContextGraph
    valences: tuple[float | None, ...]  # per vertex of the graph
    sources: dict[str, str]  # what was used: index, VAD lexicon, emotion lexicon

    def as_json(self) -> dict[str, Any]:
        """The whole as plain values; docs/guide/knowledge.md describes it."""
        return {
            "version": VERSION,
            "turns": [
                {
                    "role": turn.role,
                    "text": turn.text,
                    "emotion_words": [
                        {
                            "word": word.word,
                            "start": word.start,
                            "end": word.end,
                            "intensity": round(word.intensity, 4),
                            "valence": None if word.valence is None else round(word.valence, 4),
                            "why": word.why,
                            "emotions": list(word.emotions),
                        }
                        for word in felt
                    ],
                }
                for turn, felt in zip(self.turns, self.felt)
            ],
            "keywords": [{"word": word, "score": score} for word, score in self.keywords],
            "concepts": [
                {
                    "text": str(concept),
                    "keyword": concept.keyword,
                    "relation": concept.relation,
                    "concept": concept.concept,
                    "intensity": round(concept.intensity, 4),
                    "cosine": round(concept.similarity, 4),
                    "confidence": round(concept.confidence, 4),
                    "score": round(concept.score, 4),
                }
                for concept in self.concepts
            ],
            "graph": graph_json(self.graph),
            "sources": self.sources,
        }


def graph_json(graph: ContextGraph) -> dict[str, Any]:
    """A graph as vertices and edges.

    >>> graph = ContextGraph(("i", "fear"), (0, 0), (0.0, 0.8), ())
    >>> graph_json(graph)["vertices"][2]
    {'text': 'fear', 'kind': 'word', 'intensity': 0.8, 'turn': 0}
    >>> [edge["kind"] for edge in graph_json(graph)["edges"]]
    ['temporal', 'global', 'global', 'global', 'global']
    """
    turns = (None, *graph.turns, *[None] * len(graph.concepts))
    kinds = [KINDS[kind] for kind in graph.kinds.tolist()]
    return {
        "vertices": [
            {"text": text, "kind": kind, "intensity": round(float(eta), 4), "turn": turn}
            for text, kind, eta, turn in zip(graph.vertices, kinds, graph.eta, turns)
        ],
        "edges": [
            {
                "from": start,
                "to": end,
                "kind": "global" if "cls" in (kinds[start], kinds[end]) else _EDGE_KINDS[kinds[end]],
            }
            for start, end in graph.edges.tolist()
        ],
    }


_EDGE_KINDS = {"word": "temporal", "concept": "emotion"}  # by what the edge leads to


def explain(
    turns: Sequence[Turn],
    *,
    index: str | Path | None = None,
    vad: str | Path | None = None,
) -> Explanation:
    """Explain a context: `index` is the folder of a concept index, `vad` the name or file of a VAD lexicon."""
    said = tuple(Turn(turn.role, printable(turn.text), turn.label) for turn in turns)
    if not any(turn.text.strip() for turn in said):
        raise DataError("there is no text to explain: give at least one word")
    concepts, lexicon, emotions = open_index(index), load_vad(vad), load_emotion_lexicon()
    settings = AnnotateSettings(index=str(index) if index else None, lexicon=str(vad) if vad else None)
    found = Annotator(settings)([said])[0]
    return Explanation(
        turns=said,
        felt=tuple(tuple(_felt(turn.text, lexicon, emotions)) for turn in said),
        keywords=tuple(found.keywords),
        concepts=tuple(found.concepts),
        graph=found.graph,
        valences=tuple(valence(vertex, lexicon) for vertex in found.graph.vertices),
        sources={
            "index": f"{concepts.meta['source']} {concepts.checksum[:12]}",
            "vad": lexicon.name,
            "emotions": emotions.name,
        },
    )


def _felt(text: str, vad: VadLexicon, lexicon: EmotionLexicon) -> Iterator[FeltWord]:
    """The emotion words of a text, each found again where it is written: the n-th of a word is the n-th there too."""
    tokens = normalise(text)
    chosen = {word.index: word for word in emotion_words(tokens, lexicon=lexicon, vad=vad)}
    written = {word.word: _places(word.word, text) for word in chosen.values()}
    for i, token in enumerate(tokens):
        span = next(written[token], None) if token in written else None
        if i in chosen and span is not None:
            word = chosen[i]
            emotions = tuple(sorted(lexicon[token])) if token in lexicon else ()
            yield FeltWord(token, *span, word.intensity, valence(token, vad), word.why, emotions)


def _places(word: str, text: str) -> Iterator[tuple[int, int]]:
    """Where a word stands by itself in a text: not as a part of another one, nor of one with a hyphen."""
    alone = rf"(?<!\w)(?<!\w-){re.escape(word)}(?!\w)(?!-\w)"
    return (place.span() for place in re.finditer(alone, text, re.IGNORECASE))


def valence(word: str, vad: VadLexicon) -> float | None:
    """How pleasant a word is, 0..1; None if the lexicon lacks it."""
    return vad[word][0] if word in vad else None


def feeling(valence: float | None) -> Feeling:
    """A valence in a word.

    >>> feeling(0.9), feeling(0.1), feeling(0.5), feeling(None)
    ('pleasant', 'unpleasant', 'neutral', 'unknown')
    """
    if valence is None:
        return "unknown"
    if abs(valence - 0.5) <= _NEUTRAL:
        return "neutral"
    return "pleasant" if valence > 0.5 else "unpleasant"


def turns_of(texts: Sequence[str]) -> tuple[Turn, ...]:
    """Texts as the turns of a dialogue that the speaker opens."""
    return tuple(Turn(ROLES[i % 2], text) for i, text in enumerate(texts))


def find_dialogue(path: str | Path, id: str | None = None) -> Dialogue:
    """The dialogue of a file with this id, or its first one."""
    first: Dialogue | None = None
    for dialogue in read(path):
        if id is None or dialogue.id == id:
            return dialogue
        first = first or dialogue
    assert first is not None  # a file without a dialogue is an error of `read`
    raise MissingError(f"{path}: holds no dialogue '{id}'; its first is '{first.id}'")
