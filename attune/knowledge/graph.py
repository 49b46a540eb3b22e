"""The emotional context graph of seed 001.

Vertices are CLS, every word of the flattened history, and the emotional concepts of its words. For each word that is no stop
word, tuples with a wanted relation and a confidence above 0.1 are ranked by the intensity η of their concept: the first K′ of a
word, and of those the ten highest of the dialogue. Directed edges: word → word before it, word → its concepts, CLS ↔ every vertex.

Where the paper is silent: the relations left out are those of KEMP's code; assertions are read in both directions; a word that
the source lacks is looked up by its base form, and so is η of a word that the lexicon lacks; a concept is one word (a vertex has to have an embedding), no stop word and not the
word itself; a concept of several words is one vertex with an edge from each of them.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from attune.dialogue.text import normalise
from attune.dialogue.types import Context
from attune.emotion.lexicons import load_vad
from attune.knowledge.build import open_index
from attune.knowledge.ckece import EXCLUDED_RELATIONS as OF_SEED_000
from attune.knowledge.ckece import wanted_relations
from attune.knowledge.index import ConceptIndex, Direction, base_forms
from attune.knowledge.stopwords import STOP_WORDS

EXCLUDED_RELATIONS = OF_SEED_000 | {"CreatedBy", "Synonym", "MadeOf"}
CLS = "[CLS]"
CLS_KIND, WORD_KIND, CONCEPT_KIND = 0, 1, 2
_REMEMBERED = 1 << 15  # words whose concepts are kept


class IterableLexicon(Protocol):
    """What is asked of a VAD lexicon: its words, and the intensity of each."""

    def intensity(self, word: str, unknown: float = 0.0) -> float: ...

    def __iter__(self) -> Iterator[str]: ...


class GraphConcept(NamedTuple):
    """A concept vertex: how it was found, and the words (by their place in the graph's words) that lead to it."""

    concept: str
    relation: str  # to the first of the words
    intensity: float
    confidence: float
    words: tuple[int, ...]


@dataclass(frozen=True)
class GraphSettings:
    """The numbers of seed 001; its Figure 5 varies `per_dialogue` (0, 5, 10, 20)."""

    per_word: int = 5  # K′
    per_dialogue: int = 10
    threshold: float = 0.1  # the confidence has to be greater
    direction: Direction = "both"


@dataclass(frozen=True)
class ContextGraph:
    """An emotional context graph. Vertices: CLS, then the words, then the concepts.

    >>> graph = ContextGraph(("i", "fear"), (0, 0), (0.0, 0.8), (GraphConcept("panic", "IsA", 0.9, 0.3, (1,)),))
    >>> graph.vertices, graph.sources.tolist()
    (('[CLS]', 'i', 'fear', 'panic'), [-1, -1, -1, 2])
    >>> graph.adjacency.astype(int).tolist()
    [[0, 1, 1, 1], [1, 0, 0, 0], [1, 1, 0, 1], [1, 0, 0, 0]]
    """

    words: tuple[str, ...]
    turns: tuple[int, ...]  # per word, the number of its turn
    word_intensities: tuple[float, ...]
    concepts: tuple[GraphConcept, ...]

    def __len__(self) -> int:
        """How many vertices there are."""
        return 1 + len(self.words) + len(self.concepts)

    @property
    def vertices(self) -> tuple[str, ...]:
        """The text of each vertex."""
        return (CLS, *self.words, *(concept.concept for concept in self.concepts))

    @property
    def kinds(self) -> NDArray[np.uint8]:
        """What each vertex is: CLS_KIND, WORD_KIND or CONCEPT_KIND."""
        counts = (1, len(self.words), len(self.concepts))
        return np.repeat(np.array([CLS_KIND, WORD_KIND, CONCEPT_KIND], dtype=np.uint8), counts)

    @property
    def eta(self) -> NDArray[np.float32]:
        """η of each vertex; 0 for CLS."""
        return np.array([0.0, *self.word_intensities, *(c.intensity for c in self.concepts)], dtype=np.float32)

    @property
    def sources(self) -> NDArray[np.int32]:
        """Per vertex, the vertex of the first word that leads to it; −1 unless it is a concept."""
        firsts = [1 + concept.words[0] for concept in self.concepts]
        return np.array([*[-1] * (1 + len(self.words)), *firsts], dtype=np.int32)

    @cached_property
    def edges(self) -> NDArray[np.int32]:
        """Pairs (from, to) of vertices [m, 2]."""
        before = [(i, i - 1) for i in range(2, 1 + len(self.words))]
        concepts = list(enumerate(self.concepts, 1 + len(self.words)))
        known = [(1 + word, vertex) for vertex, concept in concepts for word in concept.words]
        everywhere = [pair for vertex in range(1, len(self)) for pair in ((0, vertex), (vertex, 0))]
        return np.array([*before, *known, *everywhere], dtype=np.int32).reshape(-1, 2)

    @property
    def adjacency(self) -> NDArray[np.bool_]:
        """adjacency[i, j]: an edge leads from i to j, so that i attends to j [e, e]. No vertex is its own neighbour."""
        matrix = np.zeros((len(self), len(self)), dtype=bool)
        matrix[self.edges[:, 0], self.edges[:, 1]] = True
        return matrix


class GraphBuilder:
    """Makes graphs of contexts; with a `vocabulary`, their concepts are words of it. What a word brings is worked out once and remembered.

    >>> from attune.dialogue.types import Turn
    >>> graph = GraphBuilder()((Turn("speaker", "I fear it must be cancer."),))
    >>> graph.words
    ('i', 'fear', 'it', 'must', 'be', 'cancer', '.')
    """

    def __init__(
        self,
        index: ConceptIndex | None = None,
        lexicon: IterableLexicon | None = None,
        *,
        settings: GraphSettings = GraphSettings(),
        vocabulary: Container[str] | None = None,
    ) -> None:
        self.index = open_index() if index is None else index
        self.lexicon: IterableLexicon = load_vad() if lexicon is None else lexicon
        self.settings, self.vocabulary = settings, vocabulary
        self._wanted = wanted_relations(self.index, EXCLUDED_RELATIONS)
        self._is_phrase = self.index.is_phrase
        self._eta = np.zeros(len(self.index), dtype=np.float32)  # of every concept; 0 where the lexicon lacks it
        for word in self.lexicon:
            if (number := self.index.find(word)) is not None:
                self._eta[number] = self.lexicon.intensity(word, 0.0)
        self.concepts_of = lru_cache(maxsize=_REMEMBERED)(self._concepts_of)
        self.intensity_of = lru_cache(maxsize=_REMEMBERED)(self._intensity_of)

    def __call__(self, context: Context) -> ContextGraph:
        """The graph of a context, from its turns in normal form."""
        return self.of_words([normalise(turn.text) for turn in context])

    def of_words(self, turns: Sequence[Sequence[str]]) -> ContextGraph:
        """The graph of turns that are lists of words already."""
        words = tuple(word for turn in turns for word in turn)
        numbers = tuple(number for number, turn in enumerate(turns) for _ in turn)
        found: dict[str, GraphConcept] = {}
        for place, word in enumerate(words):
            for concept in self.concepts_of(word):
                known = found.setdefault(concept.concept, concept)
                found[concept.concept] = known._replace(words=(*known.words, place))
        best = sorted(found.values(), key=lambda concept: -concept.intensity)[: self.settings.per_dialogue]
        concepts = tuple(sorted(best, key=lambda concept: concept.words[0]))
        return ContextGraph(words, numbers, tuple(map(self.intensity_of, words)), concepts)

    def _intensity_of(self, word: str) -> float:
        """η of a word of the context, or of its base form when the lexicon has only that (Warriner lists few others)."""
        forms = (word,) if word in STOP_WORDS else (word, *base_forms(word))  # "being" is not of "bee"
        known = (eta for form in forms if (eta := self.lexicon.intensity(form, -1.0)) >= 0)
        return round(next(known, 0.0), 6)

    def _concepts_of(self, word: str) -> tuple[GraphConcept, ...]:
        """The first K′ concepts of one word, by falling intensity; not yet tied to a place."""
        number = None if word in STOP_WORDS else self.index.resolve(word)
        if number is None:
            return ()
        edges = self.index.neighbours_of(number, self.settings.direction)
        scaled, numbers = edges.scaled, edges.concepts
        wanted = (scaled > self.settings.threshold) & self._wanted[edges.relations]
        wanted &= ~self._is_phrase[numbers] & (numbers != number)
        kept = np.flatnonzero(wanted)
        kept = kept[np.lexsort((-scaled[kept], -self._eta[numbers[kept]]))]
        chosen: dict[str, GraphConcept] = {}
        for i in kept.tolist():
            if len(chosen) == self.settings.per_word:
                break
            text = self.index.concept(int(numbers[i]))
            if self.vocabulary is not None and text not in self.vocabulary:
                continue
            if text not in STOP_WORDS and text != word and text not in chosen:
                relation, eta = self.index.relations[edges.relations[i]], round(float(self._eta[numbers[i]]), 6)
                chosen[text] = GraphConcept(text, relation, eta, float(scaled[i]), ())
        return tuple(chosen.values())


def batch_graphs(
    graphs: Sequence[ContextGraph], encode: Callable[[str], int] | None = None, padding: int = 0
) -> dict[str, NDArray[np.generic]]:
    """Graphs padded to the largest, ready for ``torch.from_numpy``.

    `mask` [b, e] is true where a vertex is; `kinds`, `eta`, `sources` (−1 where none), `turns` (−1 for CLS, concepts and padding) [b, e];
    `adjacency` [b, e, e]; with `encode`, the vertices as `ids` [b, e].
    """
    shape = (len(graphs), max(map(len, graphs), default=0))
    batch: dict[str, NDArray[np.generic]] = {
        "mask": np.zeros(shape, dtype=bool),
        "kinds": np.zeros(shape, dtype=np.int64),
        "eta": np.zeros(shape, dtype=np.float32),
        "sources": np.full(shape, -1, dtype=np.int64),
        "turns": np.full(shape, -1, dtype=np.int64),
        "adjacency": np.zeros((*shape, shape[1]), dtype=bool),
    }
    if encode is not None:
        batch["ids"] = np.full(shape, padding, dtype=np.int64)
    for row, graph in enumerate(graphs):
        size = len(graph)
        batch["mask"][row, :size] = True
        batch["kinds"][row, :size] = graph.kinds
        batch["eta"][row, :size] = graph.eta
        batch["sources"][row, :size] = graph.sources
        batch["turns"][row, 1 : 1 + len(graph.words)] = graph.turns
        batch["adjacency"][row, graph.edges[:, 0], graph.edges[:, 1]] = True
        if encode is not None:
            batch["ids"][row, :size] = [encode(vertex) for vertex in graph.vertices]
    return batch
