"""The statistics of a corpus for a person, as HTML pages."""

from __future__ import annotations

from typing import Any

import numpy as np

from attune.emotion.taxonomy import DAILYDIALOG, EMOTIONS, INTENTS, LABELS, NEUTRAL, TO_DAILYDIALOG
from attune.knowledge.charts import heat_map, histogram
from attune.knowledge.overlap import PRINTED_SHARES, KnowledgeStatistics
from attune.knowledge.page import Node, bar, counted, footer, header, legend, node, page, section, table
from attune.knowledge.statistics import EmotionRow, EmotionStatistics, Transitions, printed_figure

# Emotions that are alike stand together: by DailyDialog's six, then by the alphabet.
ORDER = sorted(EMOTIONS, key=lambda emotion: (TO_DAILYDIALOG[emotion], emotion))
FAMILIES = [DAILYDIALOG[TO_DAILYDIALOG[emotion]] for emotion in ORDER]
SHARE_LABELS = ("none", *(f"≤{10 * tenth}" for tenth in range(1, 11)))


def percent(share: float, places: int = 1) -> str:
    """A share as per cent.

    >>> percent(0.0514), percent(0.5, 0)
    ('5.1\\xa0%', '50\\xa0%')
    """
    return f"{100 * share:.{places}f}\N{NO-BREAK SPACE}%"


def emotion_page(found: EmotionStatistics) -> str:
    """The emotions of a corpus, their words, and how listeners answer them."""
    where = f"{counted(found.dialogues, 'dialogue')}{f' of the split {found.split}' if found.split else ''}"
    title = "How people feel, and how they are answered"
    parts = [_emotions(found)] if found.emotions else []
    if found.transitions is not None:
        parts += [_flow(found.transitions), _answers(found.transitions)]
    return page(
        f"Attune: {title[0].lower()}{title[1:]}",
        header("stats emotions", title, where),
        *parts,
        footer(found.data + "."),
    )


def _emotions(found: EmotionStatistics) -> Node:
    agreement = found.agreement
    note = "The share of the dialogues, and the three words that the speaker and the listener use most (stop words left out)."
    if agreement:
        note += (
            f" Seed 003 prints the same in its Figure 3: {agreement.shares} of its {agreement.shares_printed} shares and "
            f"{agreement.words} of its {agreement.words_printed} words are found here. Words that it does not print are dotted."
        )
    printed = printed_figure() if agreement else None
    most = max(row.share for row in found.emotions)
    rows = (
        (
            node("th", {"scope": "row"}, row.emotion),
            node("td", {"class": "share"}, bar(("three", row.share / most))),
            node("td", {"class": "number", "title": counted(row.dialogues, "dialogue")}, percent(row.share)),
            _words(row, "speaker", printed),
            _words(row, "listener", printed),
        )
        for row in found.emotions
    )
    head = ("emotion", "share of dialogues", "", "speaker says", "listener says")
    return section("Emotions and their words", note, table(head, rows, "emotions"))


def _words(row: EmotionRow, side: str, printed: dict[str, dict[str, Any]] | None) -> Node:
    words = row.speaker_words if side == "speaker" else row.listener_words
    shown: list[Node | str] = []
    for word, count in words:
        other = printed is not None and word not in printed[row.emotion][side]
        attributes = {"title": f"{count:,} times"} | ({"class": "other"} if other else {})
        shown += [", "] * bool(shown) + [node("span", attributes, word)]
    return node("td", {"class": f"words {side}"}, *shown)


def _flow(flow: Transitions) -> Node:
    places = [EMOTIONS.index(emotion) for emotion in ORDER]
    counts = flow.emotions[np.ix_(places, places)]
    totals = counts.sum(axis=1)
    shares = counts / np.maximum(totals, 1)[:, None]
    breaks = [i for i in range(1, len(ORDER)) if FAMILIES[i] != FAMILIES[i - 1]]

    def tell(i: int, j: int) -> str:
        return f"{ORDER[i]} → {ORDER[j]}: {percent(shares[i, j])} ({counts[i, j]:,} of {totals[i]:,})"

    summary = (
        f"Of {int(totals.sum()):,} pairs in which speaker and listener both show an emotion, the listener mirrors the speaker's in "
        f"{percent(flow.mirrored)}; by chance it would be {percent(flow.expected)}."
    )
    drawing = heat_map(
        shares,
        ORDER,
        ORDER,
        name="flow",
        title="From the speaker's emotion to the listener's",
        about=summary,
        tell=tell,
        breaks=breaks,
    )
    changes = [
        node("li", None, f"{one} → {other} ", node("b", None, percent(share, 0)))
        for one, other, share in flow.strongest(12)
    ]
    return section(
        "From the speaker's emotion to the listener's",
        f"{summary} Each row sums to 100 %; numbers from 10\N{NO-BREAK SPACE}% on are printed, framed cells mirror. This is seed 001's Figure 3, with the labels of the "
        "corpus; emotions that are alike stand together.",
        node("div", {"class": "scroll", "tabindex": "0", "role": "region", "aria-label": "heat map"}, drawing),
        node("h3", None, "The most frequent changes"),
        node("ul", {"class": "changes"}, *changes),
    )


def _answers(flow: Transitions) -> Node:
    """What the listener does, row by row: an intent, nothing of note, or an emotion of their own."""
    rows = [*ORDER, *INTENTS, NEUTRAL]
    columns = [*INTENTS, NEUTRAL, "an emotion"]
    full = flow.counts[[LABELS.index(row) for row in rows]]
    counts = np.column_stack([full[:, [LABELS.index(c) for c in columns[:-1]]], full[:, : len(EMOTIONS)].sum(axis=1)])
    totals = counts.sum(axis=1)
    shares = counts / np.maximum(totals, 1)[:, None]

    def tell(i: int, j: int) -> str:
        return f"{rows[i]} → {columns[j]}: {percent(shares[i, j])} ({counts[i, j]:,} of {totals[i]:,})"

    whole = counts.sum(axis=0) / max(int(counts.sum()), 1)
    best = int(whole.argmax())
    about = f"Of {flow.pairs:,} listener turns, {percent(1 - whole[-1])} carry an intent or are neutral; most often {columns[best]}, {percent(whole[best])}."
    breaks = [i for i in range(1, len(ORDER)) if FAMILIES[i] != FAMILIES[i - 1]] + [len(ORDER), len(rows) - 1]
    drawing = heat_map(
        shares,
        rows,
        columns,
        name="answers",
        title="What the listener does",
        about=about,
        tell=tell,
        cell=(66.0, 21.0),
        breaks=breaks,
        least=0.02,
    )
    return section(
        "What the listener does",
        f"{about} Each row is a label of the speaker's turn, and its numbers are per cent.",
        node("div", {"class": "scroll", "tabindex": "0", "role": "region", "aria-label": "heat map"}, drawing),
    )


def knowledge_page(found: KnowledgeStatistics) -> str:
    """Where the words of responses come from."""
    title = "Where the words of a reply come from"
    words = max(found.words, 1)
    parts = (
        ("two", "in the history", found.in_history / words),
        ("three", "not in it, but one hop from it", found.only_one_hop / words),
        ("neutral", "neither", found.neither / words),
    )
    label = ", ".join(f"{name} {percent(share)}" for _, name, share in parts)
    return page(
        f"Attune: {title[0].lower()}{title[1:]}",
        header(
            "stats knowledge",
            title,
            f"{counted(found.words, 'word')} of {counted(found.responses, 'listener turn')}; stop words are left out.",
        ),
        section(
            "Words",
            "A word is one hop from the history if the concept index joins it to a word that was said before.",
            node("div", {"class": "big"}, bar(*((kind, share) for kind, _, share in parts), label=label)),
            legend(*((f"{kind} square", f"{name}: {percent(share)}") for kind, name, share in parts)),
            node(
                "p",
                {"class": "note below"},
                f"All in all, {percent(found.in_history / words)} of the words stand in the history and {percent(found.one_hop / words)} one hop from it.",
            ),
        ),
        _responses(found),
        footer(f"{found.data}, {found.split or 'all of it'}. Concept index: {found.index} {found.checksum[:12]}."),
    )


def _responses(found: KnowledgeStatistics) -> Node:
    responses = max(found.responses, 1)
    history, hop = found.responses_in_history / responses, found.responses_one_hop / responses
    about = f"{percent(history)} of the responses have at least one word of the history; {percent(hop)} have at least one word one hop from it."
    series = [("two", found.history_bins / responses), ("three", found.one_hop_bins / responses)]
    drawings = (
        node(
            "figure",
            {"class": kind},
            histogram(
                [(kind, shares.tolist()) for kind, shares in series],
                SHARE_LABELS if width > 500 else ("none", *("" if i % 2 else f"≤{10 * i}" for i in range(1, 11))),
                name=kind,
                title="Responses by the share of their words",
                about=about,
                width=width,
                height=height,
                axis="per cent of the words of a response",
            ),
        )
        for kind, width, height in (("wide", 920.0, 300.0), ("narrow", 350.0, 240.0))
    )
    rows = (
        (
            node("th", {"scope": "row"}, name),
            node("td", {"class": "number"}, percent(here)),
            node("td", {"class": "number"}, percent(PRINTED_SHARES[key])),
        )
        for key, name, here in (("in_history", "in the history", history), ("one_hop", "one hop from it", hop))
    )
    return section(
        "Responses",
        f"{about} Below: responses by how many per cent of their words are found so.",
        *drawings,
        legend(("two square", "in the history"), ("three square", "one hop from it")),
        node("h3", None, "Beside seed 001"),
        table(("responses with a word …", "here", "seed 001, Figure 2"), rows, "small"),
        node(
            "p",
            {"class": "note below"},
            "Seed 001 counts with ConceptNet 5 and does not say how much overlap counts as overlap. The way it points is the same: "
            "what is one hop away covers far more than what was said.",
        ),
    )
