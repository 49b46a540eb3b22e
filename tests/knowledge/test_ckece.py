from __future__ import annotations

import pytest

from attune.knowledge.ckece import EXCLUDED_RELATIONS, Ckece, CkeceSettings, EmotionalConcept, spoken
from attune.knowledge.keywords import Keyword
from tests.knowledge.conftest import FewVectors, FewWords, MakeIndex

FIGURE_2 = (
    "I am being in fear lately. oh no! Any particular reason why? "
    "I stared to cough blood 3 days ago and I fear it must be cancer."
)
NOTHING = FewWords({})


def chosen(make_index: MakeIndex, keyword: str, *rows: tuple[str, str, str, float], **settings: object) -> list[str]:
    """What is chosen for a keyword when the lexicon and the vectors know nothing."""
    ckece = Ckece(make_index(rows), NOTHING, FewVectors(), settings=CkeceSettings(**settings))  # type: ignore[arg-type]
    return [str(concept) for concept in ckece.concepts([keyword])]


# ------------------------------------------------------------------------------- each filter, on its own


def test_a_tuple_that_passes_every_filter_is_chosen(make_index: MakeIndex) -> None:
    assert chosen(make_index, "fear", ("IsA", "fear", "panic", 0.5)) == ["fear <is a> panic"]


def test_a_concept_that_is_a_stop_word_is_removed(make_index: MakeIndex) -> None:
    assert chosen(make_index, "fear", ("IsA", "fear", "something", 0.5), ("IsA", "fear", "panic", 0.5)) == [
        "fear <is a> panic"
    ]


def test_a_phrase_is_a_stop_word_only_if_all_its_words_are(make_index: MakeIndex) -> None:
    rows = (("Causes", "fear", "do something", 0.5), ("Causes", "fear", "do harm", 0.5))
    assert chosen(make_index, "fear", *rows) == ["fear <causes> do harm"]


def test_a_keyword_that_is_a_stop_word_has_no_tuples(make_index: MakeIndex) -> None:
    assert chosen(make_index, "something", ("IsA", "something", "panic", 0.5)) == []


def test_a_confidence_below_the_threshold_is_removed_and_one_at_it_is_kept(make_index: MakeIndex) -> None:
    rows = (("IsA", "fear", "panic", 0.19), ("IsA", "fear", "dread", 0.2))  # confidences 0.095 and 0.1
    assert chosen(make_index, "fear", *rows) == ["fear <is a> dread"]
    assert len(chosen(make_index, "fear", *rows, threshold=0.05)) == 2


@pytest.mark.parametrize("concept", ["fear", "fears", "fearing"])
def test_a_concept_with_the_stem_of_the_keyword_is_removed(make_index: MakeIndex, concept: str) -> None:
    rows = (("Synonym", "fear", concept, 1.0), ("IsA", "fear", "panic", 0.5))
    assert chosen(make_index, "fear", *rows) == ["fear <is a> panic"]


def test_the_papers_examples_of_same_stems_are_removed(make_index: MakeIndex) -> None:
    assert chosen(make_index, "addition", ("Synonym", "addition", "addition", 0.5)) == []
    assert chosen(make_index, "actual", ("Synonym", "actual", "actually", 0.5)) == []


def test_a_phrase_that_holds_the_keyword_is_kept_as_in_figure_2(make_index: MakeIndex) -> None:
    assert chosen(make_index, "blood", ("PartOf", "blood cell", "blood", 0.5)) == ["blood <part of> blood cell"]


@pytest.mark.parametrize("relation", [*sorted(EXCLUDED_RELATIONS), "dbpedia/genre"])
def test_an_excluded_relation_is_removed(make_index: MakeIndex, relation: str) -> None:
    assert chosen(make_index, "fear", (relation, "fear", "panic", 1.0)) == []


def test_the_papers_13_relations_are_excluded_and_those_it_keeps_are_not() -> None:
    assert len(EXCLUDED_RELATIONS) == 13
    assert not EXCLUDED_RELATIONS & {"Synonym", "CreatedBy", "MadeOf", "RelatedTo", "IsA"}


# ---------------------------------------------------------------------------------------- score and choice


def test_the_score_is_intensity_and_similarity_and_confidence(make_index: MakeIndex) -> None:
    index = make_index([("IsA", "fear", "panic", 0.5), ("Causes", "fear", "scream", 1.0), ("HasA", "fear", "xyz", 0.5)])
    ckece = Ckece(index, FewWords({"panic": 0.9, "scream": 0.3}), FewVectors({("fear", "panic"): 0.6}))
    parts = {c.concept: (c.intensity, c.similarity, c.confidence) for c in ckece.concepts(["fear"])}
    assert parts == {
        "panic": (0.9, pytest.approx(0.6), 0.25),
        "scream": (0.3, 0.0, 0.5),
        "xyz": (0.5, 0.0, 0.25),  # not in the lexicon: the middle
    }
    assert [c.concept for c in ckece.concepts(["fear"])] == ["panic", "scream", "xyz"]
    assert ckece.concepts(["fear"])[0].score == pytest.approx(1.75)


def test_the_best_three_of_a_keyword_and_the_best_ten_of_a_context_are_chosen(make_index: MakeIndex) -> None:
    words = [f"{letter}word" for letter in "abcdef"]
    rows = [("Causes", word, f"{word} concept {i}", 0.4 + 0.2 * i) for word in words for i in range(5)]
    ckece = Ckece(make_index(rows), NOTHING, FewVectors())
    assert [c.concept for c in ckece.concepts(["aword"])] == [f"aword concept {i}" for i in (4, 3, 2)]
    found = ckece.concepts(words)
    assert len(found) == 10
    assert [c.score for c in found] == sorted((c.score for c in found), reverse=True)
    assert sorted(c.confidence for c in found) == pytest.approx([0.5] * 4 + [0.6] * 6)  # all the best, four second ones


def test_a_filtered_tuple_does_not_take_a_place_among_the_three(make_index: MakeIndex) -> None:
    rows = [("Causes", "fear", "fears", 2.0), *(("Causes", "fear", f"concept {i}", 0.5) for i in range(3))]
    assert len(chosen(make_index, "fear", *rows)) == 3


def test_statements_are_read_in_both_directions_unless_told_otherwise(make_index: MakeIndex) -> None:
    rows = (("IsA", "panic", "fear", 0.5),)
    assert chosen(make_index, "fear", *rows) == ["fear <is a> panic"]
    assert chosen(make_index, "fear", *rows, direction="out") == []


def test_a_statement_in_both_directions_counts_once_with_the_larger_confidence(make_index: MakeIndex) -> None:
    index = make_index([("IsA", "panic", "fear", 0.5), ("IsA", "fear", "panic", 1.0)])
    (only,) = Ckece(index, NOTHING, FewVectors(), settings=CkeceSettings(repeat_concepts=True)).concepts(["fear"])
    assert only.confidence == 0.5


def test_a_concept_of_several_relations_is_named_once_unless_told_otherwise(make_index: MakeIndex) -> None:
    rows = (("IsA", "fear", "panic", 0.5), ("Causes", "fear", "panic", 1.0))
    assert chosen(make_index, "fear", *rows) == ["fear <causes> panic"]
    assert chosen(make_index, "fear", *rows, repeat_concepts=True) == ["fear <causes> panic", "fear <is a> panic"]


def test_a_phrase_has_its_own_intensity_or_the_mean_of_its_known_words(make_index: MakeIndex) -> None:
    lexicon = FewWords({"stage fright": 0.1, "fright": 0.9, "stage": 0.5, "dark": 0.4})
    ckece = Ckece(make_index([("IsA", "a", "b", 1.0)]), lexicon, FewVectors())
    found = [ckece.intensity(text) for text in ("stage fright", "fright stage", "dark xyz", "xyz", "qq xyz")]
    assert found == [0.1, pytest.approx(0.7), 0.4, 0.5, 0.5]


def test_an_inflected_keyword_is_looked_up_by_its_base_form(make_index: MakeIndex) -> None:
    assert chosen(make_index, "worries", ("IsA", "worry", "fear", 1.0)) == ["worries <is a> fear"]


def test_extract_takes_keywords_in_the_order_found_and_asks_for_ten(make_index: MakeIndex) -> None:
    asked: list[int] = []

    def find_keywords(texts: list[str], *, top: int) -> list[list[Keyword]]:
        asked.append(top)
        return [[Keyword("fear", 0.9), Keyword("unheard", 0.2)] if "fear" in text else [] for text in texts]

    index = make_index([("IsA", "fear", "panic", 0.5)])
    ckece = Ckece(index, NOTHING, FewVectors(), find_keywords=find_keywords)
    first, second = ckece.extract(["I fear it", "nothing"])
    assert [word for word, _ in first.keywords] == ["fear", "unheard"]
    assert [str(concept) for concept in first.concepts] == ["fear <is a> panic"]
    assert second == ([], [])
    assert asked == [10]


@pytest.mark.parametrize(
    ("relation", "said"),
    [("IsA", "is a"), ("RelatedTo", "related to"), ("HasSubevent", "has subevent"), ("NotIsA", "not is a")],
)
def test_relations_are_printed_as_in_the_paper(relation: str, said: str) -> None:
    assert spoken(relation) == said
    assert str(EmotionalConcept("fear", relation, "panic", 0, 0, 0)) == f"fear <{said}> panic"


def test_the_papers_dialogue_yields_its_keywords_and_concepts_in_its_form() -> None:
    (found,) = Ckece().extract([FIGURE_2])
    assert {"cancer", "cough", "fear", "blood"} <= {word for word, _ in found.keywords}
    printed = [str(concept) for concept in found.concepts]
    assert len(printed) == 10
    assert "cancer <is a> disease" in printed
    assert all(0 <= concept.intensity <= 1 and 0.1 <= concept.confidence <= 1 for concept in found.concepts)
