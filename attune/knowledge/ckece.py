"""CKECE: the commonsense knowledge and emotional concepts extractor of seed 000 (section 3.1).

Keywords of the context lead to tuples (keyword, relation, concept, confidence s); a tuple goes if

- the keyword or the concept is a stop word (a phrase: if all its words are),
- s < α,
- keyword and concept are the same or have the same stem,
- the relation is on the paper's list.

The rest is ranked by f = η(concept) + cos(keyword, concept) + s: the best three of a keyword, ten of a context.

Where the paper is silent: assertions are read in both directions (see :mod:`attune.knowledge.index`), a statement found in both
counts once, and so does a concept that several relations tie to one keyword (Figure 2 names none twice; `repeat_concepts` allows
it); a keyword that the source lacks is looked up by its base form; η of a phrase that the lexicon lacks is the mean over its
words that it has, as the phrase's vector is the mean of its words' vectors.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from attune.emotion.lexicons import load_vad
from attune.knowledge.build import open_index
from attune.knowledge.index import ConceptIndex, Direction
from attune.knowledge.keywords import Keyword, keywords
from attune.knowledge.stopwords import STOP_WORDS, same_stem
from attune.knowledge.vectors import load_vectors

EXCLUDED_RELATIONS = frozenset(
    {"Antonym", "ExternalURL", "NotDesires", "NotHasProperty", "NotCapableOf", "dbpedia", "DistinctFrom"}
    | {"EtymologicallyDerivedFrom", "EtymologicallyRelatedTo", "SymbolOf", "FormOf", "AtLocation", "DerivedFrom"}
)
UNKNOWN_INTENSITY = 0.5  # seed 000's η of what the lexicon lacks
_REMEMBERED = 1 << 14  # keywords whose tuples are kept


class Lexicon(Protocol):
    """What is asked of a VAD lexicon."""

    def intensity(self, word: str, unknown: float = 0.0) -> float: ...


class Vectors(Protocol):
    """What is asked of word vectors."""

    def cosines(self, word: str, others: Sequence[str]) -> NDArray[np.float32]: ...


class EmotionalConcept(NamedTuple):
    """A tuple that CKECE chose, with the three parts of its score.

    >>> fear = EmotionalConcept("fear", "IsA", "panic", intensity=0.9, similarity=0.6, confidence=0.25)
    >>> str(fear), fear.score
    ('fear <is a> panic', 1.75)
    """

    keyword: str
    relation: str
    concept: str
    intensity: float
    similarity: float
    confidence: float

    @property
    def score(self) -> float:
        """f = η + cosine + confidence."""
        return self.intensity + self.similarity + self.confidence

    def __str__(self) -> str:
        return f"{self.keyword} <{spoken(self.relation)}> {self.concept}"


class Extraction(NamedTuple):
    """What CKECE found in one context."""

    keywords: list[Keyword]
    concepts: list[EmotionalConcept]


@dataclass(frozen=True)
class CkeceSettings:
    """The numbers of seed 000."""

    threshold: float = 0.1  # α: a smaller confidence is left out
    per_keyword: int = 3
    per_context: int = 10
    keywords: int = 10
    direction: Direction = "both"
    repeat_concepts: bool = False  # two relations to one concept: two tuples of the keyword, or only the better one


def spoken(relation: str) -> str:
    """A relation as the paper prints it.

    >>> spoken("HasSubevent"), spoken("dbpedia/influencedBy")
    ('has subevent', 'dbpedia influenced by')
    """
    return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", relation.replace("/", " ")).lower()


class Ckece:
    """Keywords and emotional concepts of contexts. Tuples of a keyword are worked out once and remembered.

    >>> str(Ckece().concepts(["cancer"])[0])
    'cancer <is a> disease'
    """

    def __init__(
        self,
        index: ConceptIndex | None = None,
        lexicon: Lexicon | None = None,
        vectors: Vectors | None = None,
        *,
        settings: CkeceSettings = CkeceSettings(),
        find_keywords: Callable[..., list[list[Keyword]]] = keywords,
    ) -> None:
        self.index = open_index() if index is None else index
        self.lexicon: Lexicon = load_vad() if lexicon is None else lexicon
        self.vectors: Vectors = load_vectors() if vectors is None else vectors
        self.settings = settings
        self._find_keywords = find_keywords
        self._wanted = wanted_relations(self.index, EXCLUDED_RELATIONS)
        self.tuples = lru_cache(maxsize=_REMEMBERED)(self._tuples)

    def extract(self, texts: Sequence[str]) -> list[Extraction]:
        """Keywords and concepts of whole contexts, each given as one text."""
        found = self._find_keywords(texts, top=self.settings.keywords)
        return [Extraction(some, self.concepts(word for word, _ in some)) for some in found]

    def concepts(self, words: Iterable[str]) -> list[EmotionalConcept]:
        """The tuples chosen for the keywords of one context, best first."""
        chosen = [concept for word in dict.fromkeys(words) for concept in self.tuples(word)]
        return sorted(chosen, key=lambda concept: -concept.score)[: self.settings.per_context]

    def _tuples(self, keyword: str) -> tuple[EmotionalConcept, ...]:
        """The tuples chosen for one keyword, best first."""
        number = None if keyword in STOP_WORDS else self.index.resolve(keyword)
        if number is None:
            return ()
        edges = self.index.neighbours_of(number, self.settings.direction)
        scaled = edges.scaled
        kept = np.flatnonzero((scaled >= self.settings.threshold) & self._wanted[edges.relations])
        kept = kept[np.argsort(-scaled[kept], kind="stable")]
        statements = (edges.relations[kept].astype(np.uint64) << np.uint64(32)) | edges.concepts[kept]
        kept = kept[np.unique(statements, return_index=True)[1]]  # a statement in both directions: the surer one
        numbers, concept = np.unique(edges.concepts[kept], return_inverse=True)
        texts = self.index.texts(numbers)
        intensity = np.array([self.intensity(text) for text in texts])
        similarity = self.vectors.cosines(keyword, texts)
        score = intensity[concept] + similarity[concept] + scaled[kept]
        chosen: list[EmotionalConcept] = []
        taken: set[str] = set()
        for i in np.argsort(-score, kind="stable").tolist():
            text = texts[concept[i]]
            if len(chosen) == self.settings.per_keyword:
                break
            if all(word in STOP_WORDS for word in text.split()) or same_stem(keyword, text):
                continue
            if text in taken and not self.settings.repeat_concepts:
                continue
            taken.add(text)
            relation = self.index.relations[edges.relations[kept[i]]]
            parts = (intensity[concept[i]], similarity[concept[i]], scaled[kept[i]])
            chosen.append(EmotionalConcept(keyword, relation, text, *(round(float(part), 6) for part in parts)))
        return tuple(chosen)

    def intensity(self, concept: str) -> float:
        """η of a concept; of a phrase that the lexicon lacks, the mean over its words that it has."""
        whole = self.lexicon.intensity(concept, -1.0)
        if whole >= 0:
            return whole
        known = [eta for word in concept.split() if (eta := self.lexicon.intensity(word, -1.0)) >= 0]
        return sum(known) / len(known) if known else UNKNOWN_INTENSITY


def wanted_relations(index: ConceptIndex, excluded: frozenset[str]) -> NDArray[np.bool_]:
    """Per relation of an index, whether it is not excluded ("dbpedia" excludes dbpedia/genre too)."""
    return np.array([relation.partition("/")[0] not in excluded for relation in index.relations])
