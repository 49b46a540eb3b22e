"""What a system looked at when it replied, as one HTML page without scripts: choosing a word of the reply tints what it came from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from attune.generate.explain import ReplyExplanation
from attune.knowledge.charts import heat_map
from attune.knowledge.page import Node, bar, footer, header, legend, node, page, section, table
from attune.models.codec import Place

COLUMNS = 22  # of the map: the places that were looked at most
ROWS = 6  # of a list of emotions
_LEAST = 0.004  # a smaller weight cannot be seen
_CELL = (26.0, 24.0)


def reply_page(said: ReplyExplanation) -> str:
    """The whole page: it draws what the system offers to be looked into."""
    title = "What the reply came from"
    chosen = "".join(f"#w{i}:checked ~ .seen .tok {{ --t: var(--w{i}, 0); }}\n" for i in range(len(said.words) + 1))
    return page(
        f"Attune: {title[0].lower()}{title[1:]}",
        header("explain", title, summary(said)),
        section("The conversation", "", *_turns(said)),
        *([_looking(said), _map(said)] if said.places else []),
        *_mixtures(said),
        footer(f"System: {said.system}. Decoding: {said.decoding}, seed {said.seed}."),
        style=chosen,
    )


def summary(said: ReplyExplanation) -> str:
    """What was found, in one or two sentences."""
    told = f"“{said.text}” is the reply of {said.system}."
    groups = said.groups
    if len(groups) > 1:
        shares = [f"{100 * share:.0f} % {_where(name)}" for name, share in groups.items()]
        told += f" Of its attention went {', '.join(shares[:-1])} and {shares[-1]}."
    return told


def _where(group: str) -> str:
    return "to the words of the context" if group == "context" else f"to {group}"


def _turns(said: ReplyExplanation) -> Iterator[Node]:
    for turn in said.turns:
        yield _turn(turn.role, turn.role, turn.text)
    yield _turn("listener reply", f"reply of {said.system}", said.text)


def _turn(kind: str, who: str, text: str) -> Node:
    return node("div", {"class": f"turn {kind}"}, node("span", {"class": "who"}, who), node("p", {"dir": "auto"}, text))


def _looking(said: ReplyExplanation) -> Node:
    """The words of the reply to choose from, and below them everything that could be looked at, tinted by the choice."""
    strength = tints(said.attention)
    buttons = list(_button(0, "whole reply", "mean", True))
    for i, word in enumerate(said.words):
        place, weight = said.most(i, 1)[0]
        buttons += _button(i + 1, word, f"← {place.text} {_percent(weight)}")
    return section(
        "Where it looked, word by word",
        "Choose a word of the reply (or go through them with the arrow keys): the stronger the tint, the more its choice looked there. "
        "Under each word stands what it looked at most.",
        node(
            "div",
            {"class": "watch", "role": "radiogroup", "aria-label": "words of the reply"},
            *buttons,
            node("div", {"class": "seen"}, *_seen(said, strength)),
        ),
        *(
            []
            if all(place.known for place in said.places)
            else [legend(("unknown-word", "a word that is not in the vocabulary"))]
        ),
    )


def _button(number: int, word: str, below: str, checked: bool = False) -> Iterator[Node]:
    mark = {"checked": "checked"} if checked else {}
    yield node("input", {"type": "radio", "name": "word", "id": f"w{number}", **mark})
    yield node("label", {"for": f"w{number}"}, node("b", {"dir": "auto"}, word), node("small", {"dir": "auto"}, below))


def tints(attention: np.ndarray) -> np.ndarray:
    """[1 + words, places] from 0 to 1: the whole reply first, then each word; small weights stay visible.

    >>> tints(np.array([[0.5, 0.5], [1.0, 0.0]])).round(2).tolist()
    [[0.84, 0.44], [0.66, 0.66], [1.0, 0.0]]
    """
    rows = np.concatenate([attention.mean(0, keepdims=True), attention])
    return np.where(rows < _LEAST, 0.0, rows / rows.max()) ** 0.6


def _seen(said: ReplyExplanation, strength: np.ndarray) -> Iterator[Node]:
    tokens = [_token(said, i, strength[:, i]) for i in range(len(said.places))]
    groups: dict[tuple[str, int | None], list[Node]] = {}
    for place, token in zip(said.places, tokens):
        groups.setdefault((place.group, place.turn), []).append(token)
    for (group, turn), inside in groups.items():
        name = f"{said.turns[turn].role} · turn {turn + 1}" if turn is not None else _GROUPS.get(group, group)
        kind = f"line {said.turns[turn].role}" if turn is not None else "line apart"
        spaced = [part for token in inside for part in (token, " ")]
        yield node("div", {"class": kind}, node("span", {"class": "who"}, name), node("p", {"dir": "auto"}, *spaced))


_GROUPS = {"context": "in front of the context"}


def _token(said: ReplyExplanation, place: int, strength: np.ndarray) -> Node:
    here, weights = said.places[place], said.attention[:, place]
    best = int(weights.argmax())
    style = "".join(f"--w{i}:{value:.2f};" for i, value in enumerate(strength) if value)
    title = (
        f"{here.text}: {_percent(weights.mean())} on average, most for “{said.words[best]}” ({_percent(weights[best])})"
    )
    kind = "tok" if here.known else "tok unknown-word"
    return node("span", {"class": kind, "title": title, **({"style": style} if style else {})}, here.text)


def _percent(weight: float) -> str:
    return f"{100 * weight:.0f} %" if weight >= 0.095 else f"{100 * weight:.1f} %"


def _map(said: ReplyExplanation) -> Node:
    """Words of the reply against what they looked at most."""
    chosen = top_places(said.attention, COLUMNS)
    shares = said.attention[:, chosen].astype(np.float64)
    names = [_label(said.places[i]) for i in chosen]
    left = len(said.places) - len(chosen)
    rest = f" Of {len(said.places)} places the {len(chosen)} that some word looked at most are drawn." if left else ""
    drawn = heat_map(
        shares,
        said.words,
        names,
        name="map",
        title="Attention of each word of the reply",
        about="Rows are the words of the reply from top to bottom, columns what they looked at.",
        tell=lambda i, j: f"{said.words[i]} ← {names[j]}: {_percent(shares[i, j])}",
        cell=_CELL,
    )
    width = str(drawn.get("viewBox")).split()[2]
    return section(
        "The same as a map",
        f"Each row is a word of the reply and shows where it looked; numbers are per cent of its attention, from 10 on.{rest}",
        node("div", {"class": "map", "style": f"--u:{width}"}, drawn),
    )


def _label(place: Place) -> str:
    return place.text if place.group == "context" else f"{place.text} ({place.group.rstrip('s')})"


def top_places(attention: np.ndarray, count: int) -> list[int]:
    """The columns with the highest weights, in their order.

    >>> top_places(np.array([[0.1, 0.2, 0.7], [0.6, 0.3, 0.1]]), 2)
    [0, 2]
    """
    return sorted(np.argsort(-attention.max(0), kind="stable")[:count].tolist())


def _mixtures(said: ReplyExplanation) -> list[Node]:
    """What was heard, and the weights by which the system mixed parts of itself, side by side."""
    lists = [
        _emotions(title, note, weights, kind)
        for title, note, weights, kind in (
            *([("Emotion heard", "The most probable of 32.", said.emotions, "three")] if said.emotions else []),
            *((*mixture, "two") for mixture in said.mixtures),
        )
    ]
    return [node("div", {"class": "side"}, *lists)] if lists else []


def _emotions(title: str, note: str, weights: Mapping[str, float], kind: str) -> Node:
    shown: Sequence[tuple[str, float]] = list(weights.items())[:ROWS]
    rest = sum(weights.values()) - sum(weight for _, weight in shown)
    rows = [(emotion, weight, kind) for emotion, weight in shown]
    rows += [(f"{len(weights) - len(shown)} others", rest, "neutral")] if rest >= 0.005 else []
    cells = (
        (
            node("td", None, name),
            node("td", None, bar((colour, weight))),
            node("td", {"class": "number"}, _percent(weight)),
        )
        for name, weight, colour in rows
    )
    return section(title, note, table(("emotion", "weight", ""), cells))
