"""What the guard says itself: written by people, with the helplines of a country."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import yaml

from attune.errors import DataError, SettingsError
from attune.respond.guard.rules import read_data

OWN_FILE = "ATTUNE_HELPLINES"
COUNTRY = "ATTUNE_COUNTRY"
_LINES = ("emergency", "crisis", "abuse")


class Answers:
    """The messages for a country.

    >>> "Samaritans, 116 123" in Answers("gb").to_risk("self-harm", said=[])
    True
    """

    def __init__(self, country: str | None = None, name: str = "") -> None:
        """`name` is what the listener calls itself when it is asked who it is."""
        lines = helplines(country or os.environ.get(COUNTRY))
        self._texts = read_data("answers.yaml")
        who = {"who": f"{name}, " if name else ""}
        self._machine = [_filled(self._texts[text], who) for text in ("machine", "machine, again")]
        self._risks = {
            label: [_filled(text, lines) for text in (texts["first"], *texts["again"])]
            for label, texts in self._texts.items()
            if isinstance(texts, dict)
        }

    def own(self, text: str) -> bool:
        """Whether a text is one of these messages, or the beginning of one: nobody has to judge them."""
        plain = " ".join(text.split())
        said = [*(one for texts in self._risks.values() for one in texts)]
        said += [*self._texts["fallback"], *self._texts["fallback in danger"]]
        said += self._machine
        return any(one.startswith(plain) for one in said)

    def to_risk(self, label: str, said: Sequence[str]) -> str:
        """The message for a risk: the whole one, and shorter ones once that was `said`."""
        first, *again = self._risks[label]
        return _least_said(again, said) if self.said_whole(label, said) else first

    def said_whole(self, label: str, said: Sequence[str]) -> bool:
        """Whether the whole message for a risk was said before."""
        return any(self._risks[label][0] in " ".join(text.split()) for text in said)

    def to_machine_asked(self, said: Sequence[str]) -> str:
        first, again = self._machine
        return again if first in said else first

    def instead(self, said: Sequence[str], seed: int, *, in_danger: bool) -> str:
        """A harmless reply for when no other may go out."""
        texts = self._texts["fallback in danger" if in_danger else "fallback"]
        start = seed % len(texts)
        return _least_said(texts[start:] + texts[:start], said)


def helplines(country: str | None) -> dict[str, str]:
    """Where help is to be found in a country; without one, words that fit everywhere.

    >>> helplines("us")["emergency"]
    '911'
    """
    known = _read()
    code = (country or "").strip().upper()
    if code and code not in known:
        near = get_close_matches(code, known, n=1, cutoff=0.5)
        raise SettingsError(
            f"no helplines for the country '{country}'; known are {', '.join(sorted(set(known) - {'default'}))}"
            + (f" (did you mean {near[0]}?)" if near else "")
            + f"; name a file of your own with {OWN_FILE}"
        )
    return known["default"] | known.get(code, {})


def _read() -> dict[str, dict[str, str]]:
    known = _checked(read_data("helplines.yaml"), "helplines.yaml")
    if own := os.environ.get(OWN_FILE):
        try:
            data = yaml.safe_load(Path(own).read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
            raise DataError(f"{own} ({OWN_FILE}) cannot be read: {' '.join(str(error).split())}") from None
        for country, lines in _checked(data, own).items():
            known[country] = known.get(country, {}) | lines
    return known


def _checked(data: Any, file: str) -> dict[str, dict[str, str]]:
    if not isinstance(data, dict):
        raise DataError(f"{file}: expected countries, found {type(data).__name__}")
    for country, lines in data.items():
        if not isinstance(country, str) or not isinstance(lines, dict):
            raise DataError(
                f'{file}: {country!r}: expected two letters ("NO" in quotation marks) and a mapping of lines'
            )
        for name, text in lines.items():
            if name not in _LINES or not isinstance(text, str):
                raise DataError(f"{file}: {country}: {name}: {text!r}: expected a text for {', '.join(_LINES)}")
    return {country if country == "default" else country.upper(): dict(lines) for country, lines in data.items()}


def _filled(text: str, lines: dict[str, str]) -> str:
    return " ".join(text.split()).format(**lines)


def _least_said(texts: Iterable[str], said: Sequence[str]) -> str:
    return min(texts, key=said.count)
