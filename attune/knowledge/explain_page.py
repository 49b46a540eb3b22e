"""An explanation for a person, as one HTML page."""

from __future__ import annotations

from collections.abc import Iterator

from attune.knowledge.ckece import EmotionalConcept, spoken
from attune.knowledge.draw import MOST_WORDS, draw_graph
from attune.knowledge.explain import Explanation, FeltWord, feeling
from attune.knowledge.page import Node, bar, counted, footer, header, legend, node, page, section, table

WIDE, NARROW = 920, 350  # units of the two drawings; a page shows the one that fits
MOST = 12  # rows of a list
PARTS = (("one", "η", "intensity η"), ("two", "cos", "cosine"), ("three", "conf", "confidence"))


def explanation_page(said: Explanation) -> str:
    """The whole page, with the graph drawn for wide and for narrow windows."""
    title = "What is felt, and what it brings to mind"
    used = said.sources
    return page(
        f"Attune: {title[0].lower()}{title[1:]}",
        header("explain", title, summary(said)),
        section(
            "What was said",
            "Tinted words carry emotion; the small number is how strongly (η, from 0 to 1).",
            *_turns(said),
            legend(
                ("unpleasant", "unpleasant word"),
                ("pleasant", "pleasant word"),
                ("neutral", "neither, or not in the lexicon"),
            ),
        ),
        node("div", {"class": "pair"}, _felt(said), _keywords(said)),
        _concepts(said),
        _graph(said),
        footer(f"Concepts: {used['index']}. Valence and arousal: {used['vad']}. Emotion lexicon: {used['emotions']}."),
    )


def summary(said: Explanation) -> str:
    """What was found, in one sentence."""
    words = sum(map(len, said.felt))
    if not words and not said.concepts:
        return (
            "The lexicons and the concept index, which are English, know none of these words: there is little to show."
        )
    return (
        f"{counted(words, 'emotion word')}, {counted(len(said.keywords), 'keyword')} and "
        f"{counted(len(said.concepts), 'concept')} that people commonly tie to them."
    )


def _turns(said: Explanation) -> Iterator[Node]:
    for turn, felt in zip(said.turns, said.felt):
        yield node(
            "div",
            {"class": f"turn {turn.role}"},
            node("span", {"class": "who"}, turn.role),
            node("p", {"dir": "auto"}, *_tinted(turn.text, felt)),
        )


def _tinted(text: str, felt: tuple[FeltWord, ...]) -> Iterator[Node | str]:
    done = 0
    for word in felt:
        yield text[done : word.start]
        done = word.end
        why = ", ".join(word.emotions) or word.why
        title = f"{word.word}: intensity {word.intensity:.2f}, {feeling(word.valence)} ({why})"
        yield node(
            "mark",
            {"class": feeling(word.valence), "style": f"--i:{word.intensity:.2f}", "title": title},
            text[word.start : word.end],
            node("sup", None, f"{word.intensity:.2f}".removeprefix("0")),
        )
    yield text[done:]


def strongest_words(said: Explanation) -> list[FeltWord]:
    """The different emotion words, by falling intensity."""
    words = {word.word: word for felt in said.felt for word in felt}
    return sorted(words.values(), key=lambda word: (-word.intensity, word.word))


def _none(text: str) -> Node:
    return node("p", {"class": "empty"}, text)


def _number(value: float) -> Node:
    return node("td", {"class": "number"}, signed(value))


def signed(value: float) -> str:
    """A number with two places and a real minus sign.

    >>> signed(0.256), signed(-0.012), signed(-0.001)
    ('0.26', '−0.01', '0.00')
    """
    return f"{round(value, 2) + 0.0:.2f}".replace("-", "−")


def _felt(said: Explanation) -> Node:
    words = strongest_words(said)
    if not words:
        return section("Emotion words", "", _none("None: no word is in the emotion lexicon, and none is an adjective."))
    more = f" The {MOST} strongest of {len(words):,}." if len(words) > MOST else ""
    rows = (
        (
            node("td", {"dir": "auto"}, word.word),
            node("td", None, bar((feeling(word.valence), word.intensity))),
            _number(word.intensity),
            node("td", {"class": "soft"}, "not rated" if word.valence is None else feeling(word.valence)),
        )
        for word in words[:MOST]
    )
    return section(
        "Emotion words",
        f"Words of the emotion lexicon, and adjectives that are not in it.{more}",
        table(("word", "intensity η", "", "valence"), rows),
    )


def _keywords(said: Explanation) -> Node:
    if not said.keywords:
        return section("Keywords", "", _none("None: there is no word that could stand for the whole."))
    rows = (
        (node("td", {"dir": "auto"}, word), node("td", None, bar(("two", score))), _number(score))
        for word, score in said.keywords
    )
    note = "The words whose meaning is nearest to the meaning of the whole."
    return section("Keywords", note, table(("word", "cosine with the whole", ""), rows))


def _concepts(said: Explanation) -> Node:
    title = "Concepts that people tie to the keywords"
    if not said.concepts:
        return section(title, "", _none("None: the concept index ties nothing to these keywords."))
    return section(
        title,
        "Ranked by the sum of three parts: how strong the concept feels, how near it is to the keyword, and how sure the source is.",
        node("ol", {"class": "concepts"}, *map(_concept, said.concepts)),
        legend(*((f"{kind} square", name) for kind, _, name in PARTS)),
    )


def _concept(concept: EmotionalConcept) -> Node:
    values = (concept.intensity, concept.similarity, concept.confidence)
    label = ", ".join(f"{name} {signed(value)}" for (*_, name), value in zip(PARTS, values))
    return node(
        "li",
        None,
        node(
            "span",
            {"class": "statement"},
            node("b", None, concept.keyword),
            node("i", None, f" <{spoken(concept.relation)}> "),
            node("b", None, concept.concept),
        ),
        bar(*((kind, value / 3) for (kind, *_), value in zip(PARTS, values)), label=f"{concept}: {label}"),
        node(
            "span",
            {"class": "parts"},
            *(node("span", None, f"{short} {signed(value)}") for (_, short, _), value in zip(PARTS, values)),
        ),
        node("span", {"class": "total"}, signed(concept.score)),
    )


def _graph(said: Explanation) -> Node:
    words = len(said.graph.words)
    part = (
        f" Of {words:,} words, {MOST_WORDS} are drawn: those with concepts, and the last." if words > MOST_WORDS else ""
    )
    return section(
        "Emotional context graph",
        "The words stand in reading order, each with an arrow to the word before it. Concepts grow from their words; the larger a dot, "
        "the stronger the word. CLS is joined to every one of them. Point at a dot to read its numbers." + part,
        *(
            node("figure", {"class": kind}, draw_graph(said, width, kind))
            for kind, width in (("wide", WIDE), ("narrow", NARROW))
        ),
        legend(("unpleasant", "unpleasant"), ("pleasant", "pleasant"), ("neutral", "neither, or not rated")),
        *([_graph_in_numbers(said)] if said.graph.concepts else []),
    )


def _graph_in_numbers(said: Explanation) -> Node:
    graph = said.graph
    rows = (
        (
            node("td", {"dir": "auto"}, ", ".join(dict.fromkeys(graph.words[place] for place in concept.words))),
            node("td", {"class": "soft"}, spoken(concept.relation)),
            node("td", None, concept.concept),
            _number(concept.intensity),
            _number(concept.confidence),
        )
        for concept in graph.concepts
    )
    return node(
        "details",
        None,
        node("summary", None, "The concepts of the graph in numbers"),
        table(("word", "relation", "concept", "η", "confidence"), rows),
    )
