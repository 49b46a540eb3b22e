"""The rules: what is said so plainly that no classifier is asked, in a person's words and in a reply.

>>> rules = load_rules()
>>> rules.risk("i just want to die .")
Found(kind='self-harm', rule='says they want to be dead', words='i just want to die')
>>> rules.risk("i do not want to die ."), rules.risk("i want to die , says the villain in that film .")
(None, None)
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from importlib import resources
from typing import Any, NamedTuple

import yaml

_NEGATION = re.compile(r"\b(?:not|never|nobody|without|neither|nor|hardly|no|nothing|none)\b")
_SENTENCE = re.compile(r"[^.!?]+")


class Found(NamedTuple):
    """A rule that speaks: the kind it stands for, its name, and the words that it found."""

    kind: str
    rule: str
    words: str


class Rules:
    """Rules as read from `rules.yaml`. All of them read text as :class:`~attune.respond.guard.words.Reader` writes it."""

    def __init__(self, data: Mapping[str, Any]) -> None:
        classes = {name: f"(?:{'|'.join(words.split())})" for name, words in data["classes"].items()}

        def compiled(lines: str) -> re.Pattern[str]:
            source = "|".join(f"(?:{line.strip()})" for line in lines.strip().splitlines())
            return re.compile(rf"(?<!\w)(?:{re.sub('<([a-z]+)>', lambda name: classes[name[1]], source)})(?!\w)")

        self._risks = [
            (kind, name, compiled(lines)) for kind, rules in data["risks"].items() for name, lines in rules.items()
        ]
        self._idioms = compiled(data["idioms"])
        self._frames = {name: compiled(lines) for name, lines in data["frames"].items()}
        self._takes_back = compiled(data["takes back"])
        self._yes = compiled(data["says yes"])
        self._questions = {kind: compiled(lines) for kind, lines in data["questions about"].items()}
        self._asks = {name: compiled(lines) for name, lines in data["asks"].items()}
        self._replies = {
            when: [(kind, compiled(lines)) for kind, lines in data[when].items()]
            for when in data
            if when.startswith("replies")
        }

    def risk(self, text: str) -> Found | None:
        """The first plain statement of a risk. Negated, in an idiom, a story, a joke or the past, nothing is plain."""
        hits = [
            (kind, rule, match)
            for sentence in _SENTENCE.finditer(text)
            for kind, rule, pattern in self._risks
            if (match := pattern.search(sentence[0])) and not _NEGATION.search(sentence[0][: match.start()])
        ]
        if not hits or self._idioms.search(text) or any(frame.search(text) for frame in self._frames.values()):
            return None
        kind, rule, match = hits[0]
        return Found(kind, rule, match[0].strip())

    def takes_back(self, text: str) -> bool:
        """Whether a person says that something was a joke, a game, a song."""
        return bool(self._takes_back.search(text))

    def confirmed(self, text: str, before: str) -> str | None:
        """The risk that a person says yes to when they were asked about it."""
        if "?" not in before or not self._yes.fullmatch(text):
            return None
        return next((kind for kind, pattern in self._questions.items() if pattern.search(before)), None)

    def asks(self, text: str) -> str | None:
        """What a person asks to be speaking with: "machine" or "human", if they ask at all."""
        return next((name for name, pattern in self._asks.items() if pattern.search(text)), None)

    def refused(self, reply: str, *, in_danger: bool, asked: str | None) -> Found | None:
        """What a reply says that it may not say."""
        when = ["replies"] + ["replies in danger"] * in_danger + [f"replies when asked for a {asked}"] * bool(asked)
        for kind, match in self._found(reply, when):
            before = re.split("[.!?]", reply[: match.start()])[-1]
            if kind == "claims-human" or not _NEGATION.search(before):
                return Found(kind, f"no reply is {kind}", match[0].strip())
        return None

    def _found(self, reply: str, when: list[str]) -> Iterator[tuple[str, re.Match[str]]]:
        for name in when:
            for kind, pattern in self._replies[name]:
                for match in pattern.finditer(reply):
                    yield kind, match


def read_data(name: str) -> Any:
    """A YAML file of this package."""
    text = resources.files("attune.respond.guard").joinpath("data", name).read_text(encoding="utf-8")
    return yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))


@lru_cache(maxsize=1)
def load_rules() -> Rules:
    """The rules of this package, read once."""
    return Rules(read_data("rules.yaml"))
