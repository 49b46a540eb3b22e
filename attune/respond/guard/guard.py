"""The guard: it hears danger in a person's words and answers it with care, and lets no harmful reply out."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from attune.dialogue.types import Turn
from attune.respond.guard.answers import Answers
from attune.respond.guard.classifier import HEARD, JUDGED, Classifiers, load_classifier
from attune.respond.guard.repeats import repeated
from attune.respond.guard.rules import load_rules
from attune.respond.guard.words import load_reader

RISK_FROM = 0.45  # from this share on the classifier's word counts: recall against false alarms
RISK_IN_DOUBT_FROM = 0.8  # of what the person says has not happened for long, or of being "killed" for something
REFUSED_FROM = 0.06
REMEMBERED = 3  # of the person's turns before the last: a risk in them still counts
_FEW_WORDS = 4  # so short a turn only goes on with what was said before
_LONG = 35  # words; a longer text is heard piece by piece
_WHOLE_QUOTE = re.compile(r"\W*[«“\"](.*)[»”\"]\W*", re.DOTALL)
_LONG_OVER = re.compile(r"\b(have|has) (not|never)\b.{0,40}\b(for|in) (\w+ ){1,2}(years|months)\b")
_KILLED_FOR = re.compile(r"\b(will|would|is gonna|is going to|gonna|ll) kill me (when|if|for)\b")
_CLOSING = re.compile(r"\b(thanks?|thank you|thx|bye|good ?night)\b")


@dataclass(frozen=True, slots=True)
class Heard:
    """What was heard in a conversation.

    `risk` is "self-harm", "harm-to-others", "abuse", "emergency" or nothing. When there is an `answer`, say it and nothing
    else; a risk without one was said, and answered, a few turns earlier. `machine_asked` is whether the person wants to know
    if they talk to a machine.
    """

    risk: str | None
    why: str
    answer: str | None
    machine_asked: bool


@dataclass(frozen=True, slots=True)
class Checked:
    """Whether a reply may go out; if not, what `kind` of reply it is."""

    ok: bool
    kind: str | None
    why: str


class _Sign(NamedTuple):
    """What one turn says: a label of :data:`HEARD`, or nothing."""

    label: str | None
    why: str


class _Talk(NamedTuple):
    """The turns of a conversation, by who said them; `answered` is the agent's turn before the person's last."""

    person: list[str]
    agent: list[str]
    answered: str


class Guard:
    """Rules and a classifier for both directions.

    >>> guard = load_guard("GB")
    >>> heard = guard.listen(["I want to kill myself."])
    >>> heard.risk, "116 123" in heard.answer
    ('self-harm', True)
    >>> guard.listen(["This exam is killing me!"]).risk
    >>> guard.check("You are such an idiot.", ["I lost my keys."])
    Checked(ok=False, kind='insult', why='rule: no reply is insult (“you are such an idiot”)')
    """

    def __init__(self, hears: Classifiers, judges: Classifiers, answers: Answers) -> None:
        self._hears, self._judges, self._answers = hears, judges, answers
        self._rules, self._reader = load_rules(), load_reader()
        self._sign = lru_cache(maxsize=4096)(self._sign_of)

    def listen(self, turns: Sequence[Turn | str]) -> Heard:
        """What the person's last turn says, in the light of those before it."""
        talk = _talk(turns)
        if not talk.person:
            return Heard(None, "nobody has said anything", None, False)
        text = self._reader.read(talk.person[-1])
        asked = self._rules.asks(text) is not None
        sign = self._sign(talk.person[-1])
        if not sign.label and (kind := self._rules.confirmed(text, self._reader.read(talk.answered))):
            sign = _Sign(kind, f"rule: says yes when asked about {kind}")
        if sign.label:
            return self._heard(sign, self._answers.to_risk(sign.label, talk.agent), asked)
        earlier = self._earlier(talk)
        if earlier.label:
            goes_on = len(re.findall(r"\w+", text)) <= _FEW_WORDS and not _CLOSING.search(text)
            to_say = goes_on or not self._answers.said_whole(earlier.label, talk.agent)
            return self._heard(earlier, self._answers.to_risk(earlier.label, talk.agent) if to_say else None, asked)
        if asked:
            why = "the person asks who they are talking to; " + sign.why
            return Heard(None, why, self._answers.to_machine_asked(talk.agent), True)
        return Heard(None, earlier.why or sign.why, None, False)

    def check(self, reply: str, turns: Sequence[Turn | str]) -> Checked:
        """Whether a reply, or the beginning of one, may go out in this conversation."""
        if not reply.strip():
            return Checked(False, "empty", "there is nothing in it")
        talk = _talk(turns)
        if again := repeated(reply, talk.person, talk.agent):
            return Checked(False, "repeats", again)
        if self._answers.own(reply):
            return Checked(True, None, "a message of the guard itself")
        last = talk.person[-1] if talk.person else ""
        danger = "" if self._sign(last).label else next(self._risky(talk), "")
        text, said = self._reader.read(reply), self._reader.read(f"{danger} {last}")
        in_danger = bool(danger or self._sign(last).label)
        if found := self._rules.refused(text, in_danger=in_danger, asked=self._rules.asks(self._reader.read(last))):
            return Checked(False, found.kind, f"rule: {found.rule} (“{found.words}”)")
        shares = self._judges([(said, text)])[0]
        worst = 1 + int(shares[1:].argmax())
        if 1 - shares[0] >= REFUSED_FROM:
            return Checked(
                False, JUDGED[worst], f"classifier: not ok with {1 - shares[0]:.2f}, most likely {JUDGED[worst]}"
            )
        return Checked(True, None, f"nothing found; classifier: ok with {shares[0]:.2f}")

    def fallback(self, turns: Sequence[Turn | str], seed: int = 0) -> str:
        """A harmless reply that was not said yet, for when no candidate may go out."""
        talk = _talk(turns)
        if talk.person and self._rules.asks(self._reader.read(talk.person[-1])):
            return self._answers.to_machine_asked(talk.agent)
        return self._answers.instead(talk.agent, seed, in_danger=any(self._risky(talk)))

    def _heard(self, sign: _Sign, answer: str | None, asked: bool) -> Heard:
        if answer and asked and "computer program" not in answer:
            answer = f"I'm a computer program, not a person. {answer}"
        return Heard(str(sign.label).split(",")[0], sign.why, answer, asked)

    def _risky(self, talk: _Talk) -> Iterator[str]:
        """The person's latest turns that say a risk, the last first, until they take it back."""
        for said in reversed(talk.person[-1 - REMEMBERED :]):
            if self._rules.takes_back(self._reader.read(said)):
                return
            if self._sign(said).label:
                yield said

    def _earlier(self, talk: _Talk) -> _Sign:
        if self._rules.takes_back(self._reader.read(talk.person[-1])):
            return _Sign(None, "the person says that it was not meant")
        said = next(self._risky(talk), None)
        return self._sign(said)._replace(why=f"said earlier: {self._sign(said).why}") if said else _Sign(None, "")

    def _sign_of(self, said: str) -> _Sign:
        """What one turn says by itself."""
        quoted = _WHOLE_QUOTE.fullmatch(said)  # nobody else is quoted in it
        text = self._reader.read(quoted[1] if quoted else said)
        if not re.search(r"\w", text):
            return _Sign(None, "there are no words in it")
        pieces = list(_pieces(text))
        shares = self._hears(pieces)
        at = int(shares[:, 0].argmin())
        likeliest = HEARD[1 + int(shares[at, 1:].argmax())]
        if found := self._rules.risk(text):
            label = likeliest if likeliest.startswith(found.kind) else found.kind
            return _Sign(label, f"rule: {found.rule} (“{found.words}”)")
        sure = 1 - shares[at, 0]
        where = f", most of all in “{pieces[at][:80]}”" if len(pieces) > 1 else ""
        in_doubt = _LONG_OVER.search(text) or _KILLED_FOR.search(text)
        if sure >= (RISK_IN_DOUBT_FROM if in_doubt else RISK_FROM):
            return _Sign(likeliest, f"classifier: a risk with {sure:.2f}, most likely {likeliest}{where}")
        return _Sign(None, f"nothing found; classifier: a risk with {sure:.2f}")


def load_guard(country: str | None = None, name: str = "") -> Guard:
    """The guard, with the helplines of a country (two letters; by default `ATTUNE_COUNTRY`, else international words).

    `name` is what the listener calls itself.
    """
    return Guard(load_classifier("hear"), load_classifier("judge"), Answers(country, name))


def _talk(turns: Sequence[Turn | str]) -> _Talk:
    """Who said what. Texts alternate, and the last one is the person's."""
    spoken = [
        (turn.role == "speaker", turn.text) if isinstance(turn, Turn) else ((len(turns) - i) % 2 == 1, turn)
        for i, turn in enumerate(turns)
    ]
    last = max((i for i, (person, _) in enumerate(spoken) if person), default=0)
    return _Talk(
        [text for person, text in spoken if person],
        [text for person, text in spoken if not person],
        next((text for person, text in reversed(spoken[:last]) if not person), ""),
    )


def _pieces(text: str) -> Iterator[str]:
    """A text, or what is long in pieces of whole sentences; a risk does not drown in many words."""
    piece: list[str] = []
    for sentence in re.findall(r"[^.!?]+[.!?]*", text):
        words = sentence.split()
        for start in range(0, len(words), _LONG):
            if piece and len(piece) + len(words[start : start + _LONG]) > _LONG:
                yield " ".join(piece)
                piece = []
            piece += words[start : start + _LONG]
    if piece:
        yield " ".join(piece)
