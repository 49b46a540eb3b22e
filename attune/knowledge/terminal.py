"""Explanations and statistics in the terminal, with rich."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text
from rich.tree import Tree

from attune.emotion.taxonomy import EMOTIONS
from attune.knowledge.ckece import spoken
from attune.knowledge.explain import Explanation, Feeling, FeltWord, feeling
from attune.knowledge.explain_page import MOST, PARTS, signed, strongest_words, summary
from attune.knowledge.overlap import PRINTED_SHARES, KnowledgeStatistics
from attune.knowledge.statistics import EmotionStatistics, Transitions
from attune.knowledge.statistics_page import percent

_COLOUR: dict[Feeling, str] = {"pleasant": "green", "unpleasant": "red", "neutral": "yellow", "unknown": "yellow"}
_PART_COLOURS = ("red", "magenta", "cyan")
_BLOCK, _EIGHTHS = "█", " ▏▎▍▌▋▊▉"


def show_explanation(said: Explanation, console: Console) -> None:
    """Print an explanation."""
    for turn, felt in zip(said.turns, said.felt):
        console.print(Text.assemble((f"{turn.role}: ", "dim"), _tinted(turn.text, felt)), soft_wrap=True)
    if not any(said.felt) and not said.concepts:
        console.print(Text(summary(said), "dim"))
    _print(console, "Emotion words", _felt(said) if any(said.felt) else "none")
    _print(console, "Keywords", _keywords(said) if said.keywords else "none")
    _print(console, "Concepts", _concepts(said) if said.concepts else "none")
    _print(console, "Emotional context graph", _graph(said))


def _print(console: Console, title: str, content: RenderableType) -> None:
    console.print()
    console.print(Text(title, "bold"))
    console.print(Padding(content, (0, 0, 0, 2)))


def _table(*columns: str, right: Sequence[str] = ()) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for column in columns:
        table.add_column(column, justify="right" if column in right else "left")
    return table


def _tinted(text: str, felt: Sequence[FeltWord]) -> Text:
    shown, done = Text(), 0
    for word in felt:
        shown.append(text[done : word.start])
        shown.append(text[word.start : word.end], f"bold {_COLOUR[feeling(word.valence)]}")
        shown.append(f"·{word.intensity:.2f}".replace("0.", "."), "dim")
        done = word.end
    return shown.append(text[done:])


def bar(share: float, width: int, style: str = "") -> Text:
    """A bar of blocks, exact to an eighth.

    >>> bar(0.5, 4).plain, bar(0.3125, 2).plain
    ('██', '▋')
    """
    eighths = round(max(share, 0.0) * width * 8)
    return Text((_BLOCK * (eighths // 8) + _EIGHTHS[eighths % 8]).rstrip(), style)


def _felt(said: Explanation) -> Table:
    table = _table("word", "intensity η", "", "valence", "why", right=("",))
    for word in strongest_words(said)[:MOST]:
        colour = _COLOUR[feeling(word.valence)]
        rated = "not rated" if word.valence is None else feeling(word.valence)
        why = ", ".join(word.emotions) or word.why
        table.add_row(Text(word.word), bar(word.intensity, 16, colour), signed(word.intensity), rated, Text(why, "dim"))
    return table


def _keywords(said: Explanation) -> Table:
    table = _table("word", "cosine", "", right=("",))
    for word, score in said.keywords:
        table.add_row(Text(word), bar(score, 16, "magenta"), signed(score))
    return table


def _concepts(said: Explanation) -> Table:
    names = [short for _, short, _ in PARTS]
    table = _table("statement", "score", "", *names, right=("score", *names))
    for concept in said.concepts:
        values = (concept.intensity, concept.similarity, concept.confidence)
        parts = Text.assemble(*(bar(value, 7, colour) for value, colour in zip(values, _PART_COLOURS)))
        numbers = (Text(signed(value), colour) for value, colour in zip(values, _PART_COLOURS))
        table.add_row(Text(str(concept)), Text(signed(concept.score), "bold"), parts, *numbers)
    return table


def _graph(said: Explanation) -> RenderableType:
    graph = said.graph
    kinds = f"{len(graph.words):,} words, {len(graph.concepts):,} concepts and CLS; {len(graph.edges):,} edges"
    tree = Tree(Text.assemble(("CLS", "bold yellow"), (" ↔ every vertex", "dim")), guide_style="dim")
    branches: dict[int, Tree] = {}
    for concept in graph.concepts:
        first = concept.words[0]
        if first not in branches:
            word = Text.assemble((graph.words[first], "bold"), (f" η {signed(graph.word_intensities[first])}", "dim"))
            branches[first] = tree.add(word)
        also = [graph.words[place] for place in concept.words[1:]]
        others = f", also from {', '.join(dict.fromkeys(also))}" if also else ""
        numbers = f" η {signed(concept.intensity)}, confidence {signed(concept.confidence)}{others}"
        branches[first].add(Text.assemble((f"<{spoken(concept.relation)}> ", "dim"), concept.concept, (numbers, "dim")))
    return Group(Text(kinds, "dim"), tree) if branches else Text(kinds, "dim")


def show_emotions(found: EmotionStatistics, console: Console) -> None:
    """Print the emotions of a corpus and how they are answered."""
    console.print(
        f"{found.data}{f', split {found.split}' if found.split else ''}: {found.dialogues:,} dialogues", markup=False
    )
    if found.emotions:
        table = _table("emotion", "count", "share", "", "speaker says", "listener says", right=("count", "share"))
        most = found.emotions[0].share
        for row in found.emotions:
            sides = (Text(", ".join(word for word, _ in words)) for words in (row.speaker_words, row.listener_words))
            table.add_row(
                Text(row.emotion), f"{row.dialogues:,}", percent(row.share), bar(row.share / most, 6, "cyan"), *sides
            )
        _print(console, "Emotions and their words", table)
    if agreement := found.agreement:
        console.print(
            f"\nSeed 003, Figure 3: {agreement.shares} of its {agreement.shares_printed} shares and {agreement.words} of its "
            f"{agreement.words_printed} words are the same."
        )
    if found.transitions is not None:
        _print(console, "From the speaker's emotion to the listener's", _flow(found.transitions))


def _flow(flow: Transitions) -> RenderableType:
    pairs = int(flow.emotions.sum())
    intents = percent(1 - flow.counts[:, : len(EMOTIONS)].sum() / max(flow.pairs, 1))
    said = Text(
        f"{flow.pairs:,} pairs; {intents} of the listener turns carry an intent or are neutral.\n"
        f"In {pairs:,} pairs both show an emotion: the same in {percent(flow.mirrored)}, by chance {percent(flow.expected)}.\n"
    )
    table = _table("the most frequent changes", "")
    for one, other, share in flow.strongest():
        table.add_row(f"{one} → {other}", f"{percent(share, 0)}")
    return Group(said, table)


def show_knowledge(found: KnowledgeStatistics, console: Console) -> None:
    """Print where the words of responses come from."""
    where = f"{found.data}{f', split {found.split}' if found.split else ''}"
    console.print(
        f"{where}: {found.words:,} non-stop words of {found.responses:,} responses; concept index {found.index}",
        markup=False,
    )
    words, responses = max(found.words, 1), max(found.responses, 1)
    table = _table("", "words", "", "responses with one", "seed 001", right=("words", "responses with one", "seed 001"))
    rows = (
        ("in the history", found.in_history, found.responses_in_history, PRINTED_SHARES["in_history"]),
        ("one hop from it", found.one_hop, found.responses_one_hop, PRINTED_SHARES["one_hop"]),
    )
    for name, count, some, printed in rows:
        table.add_row(
            name, percent(count / words), bar(count / words, 24, "cyan"), percent(some / responses), percent(printed)
        )
    table.add_row("neither", percent(found.neither / words), bar(found.neither / words, 24, "dim"))
    _print(console, "Where the words of a response come from", table)
