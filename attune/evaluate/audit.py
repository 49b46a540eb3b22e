"""The leak audit: at test time a system sees the earlier turns and nothing else (DESIGN 3.2).

Each check changes what a system must not see and asks for everything again: its NLL, its replies, what it perceives. The NLL is asked for
first, with the changed examples, so that a system that keeps something of them for its next reply is caught as well. A system that can
answer all at once, as evaluations ask it to, must then say the same.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from attune.dialogue.types import Example, Turn
from attune.emotion.taxonomy import EMOTIONS, LABELS
from attune.errors import SettingsError
from attune.evaluate.evaluation import at_once

if TYPE_CHECKING:
    from attune.generate.systems import Answer, Said, System

ALONE = 8  # items that are also asked for one at a time
OFFERS = ("nll", "reply", "perceive", "decide")  # what is looked at
SAME = 1e-5  # relative difference of numbers that count as the same: identical batches
NEAR = 1e-3  # … in another batch, where padding changes the last digits
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Check:
    """One check: passed, or the first example that gave it away and what changed there."""

    name: str
    passed: bool
    offender: str | None = None
    detail: str = ""

    def __str__(self) -> str:
        return f"{self.name}: {'pass' if self.passed else f'FAIL at {self.offender}: {self.detail}'}"


@dataclass(frozen=True, slots=True)
class AuditReport:
    """All checks of one system."""

    system: str
    n: int
    seed: int
    checks: tuple[Check, ...]

    @property
    def passed(self) -> bool:
        return all(check.passed for check in self.checks)

    def json(self) -> dict[str, Any]:
        return {"system": self.system, "n": self.n, "seed": self.seed, "passed": self.passed} | {
            "checks": [asdict(check) for check in self.checks]
        }


def audit(system: System, examples: Sequence[Example], seed: int = 0) -> AuditReport:
    """Check that nothing but the context reaches a system's outputs, and nothing but context and reference its NLL."""
    examples = list(examples)
    if not examples:
        raise SettingsError("an audit needs at least one example")
    if not system.capabilities & set(OFFERS):
        raise SettingsError(f"'{system.name}' offers none of {', '.join(OFFERS)}: nothing can be audited")
    first = _observe(system, examples, seed)
    ids = [example.id for example in examples]
    checks = [_check("repeated", ids, first, _observe(system, examples, seed), SAME)]
    for name, change in _CHANGES.items():
        changed = _observe(system, change(examples, random.Random(seed)), seed)
        if name == "references permuted":
            changed = replace(changed, nll=first.nll)  # the NLL is of the reference; everything else is not
        checks.append(_check(name, ids, first, changed, SAME))
    few = examples[:ALONE]
    alone = [_observe(system, [example], seed) for example in few]
    checks.append(_check("one at a time", ids[: len(few)], first.take(range(len(few))), _Observed.merge(alone), NEAR))
    turned = list(reversed(range(len(examples))))
    checks.append(
        _check("in another order", ids, first, _observe(system, examples[::-1], seed).take(turned), NEAR),
    )
    if (answers := at_once(system, examples, seed)) is not None:  # the way that evaluations ask
        checks.append(_check("all at once", ids, replace(first, decide=None), _told(answers), NEAR))
    return AuditReport(system.name, len(examples), seed, tuple(checks))


@dataclass(frozen=True, slots=True)
class _Observed:
    """All that a system puts out for some examples; None for what it does not offer."""

    nll: np.ndarray | None = None  # [n, 3]: nll, tokens, unk_bytes
    reply: list[str] | None = None
    perceive: np.ndarray | None = None  # [n, 32]
    decide: np.ndarray | None = None  # [n, 41]

    def take(self, places: Sequence[int]) -> _Observed:
        taken: dict[str, Any] = {
            what: [found[i] for i in places] if isinstance(found, list) else found[list(places)]
            for what, found in self._there()
        }
        return _Observed(**taken)

    @staticmethod
    def merge(parts: Sequence[_Observed]) -> _Observed:
        together: dict[str, Any] = {
            what: [said for part in parts for said in getattr(part, what)]
            if isinstance(found, list)
            else np.concatenate([getattr(part, what) for part in parts])
            for what, found in parts[0]._there()
        }
        return _Observed(**together)

    def _there(self) -> Iterator[tuple[str, Any]]:
        """What the system offers, by name."""
        for what in OFFERS:
            if (found := getattr(self, what)) is not None:
                yield what, found


def _observe(system: System, examples: Sequence[Example], seed: int) -> _Observed:
    contexts = [example.context for example in examples]
    look: dict[str, Callable[[], Any]] = {
        "nll": lambda: np.array([tuple(found) for found in system.nll(examples)], dtype=float),
        "reply": lambda: [_whole(said) for said in system.reply(contexts, seed=seed)],
        "perceive": lambda: np.asarray(system.perceive(contexts), dtype=float),
        "decide": lambda: np.asarray(system.decide(contexts), dtype=float),
    }
    return _Observed(**{what: look[what]() for what in OFFERS if what in system.capabilities})


def _told(answers: Sequence[Answer]) -> _Observed:
    """The same of answers that were given all at once; they tell no decisions."""
    return _Observed(
        nll=np.array([one.nll for one in answers], dtype=float),
        reply=[_whole(one.said) for one in answers if one.said],
        perceive=None if answers[0].felt is None else np.array([one.felt for one in answers], dtype=float),
    )


def _whole(said: Said) -> str:
    return f"{said.prediction}\n{said.text}"


def _check(name: str, ids: Sequence[str], first: _Observed, other: _Observed, tolerance: float) -> Check:
    for what in OFFERS:
        before, after = getattr(first, what), getattr(other, what)
        if before is None:
            continue
        if len(before) != len(after):
            return Check(name, False, ids[0], f"{what}: {len(after)} answers to {len(before)} examples")
        for i, (old, new) in enumerate(zip(before, after, strict=True)):
            if isinstance(old, str):
                if old != new:
                    return Check(name, False, ids[i], f"reply changed: {_first_line(old)!r} → {_first_line(new)!r}")
            elif not np.allclose(old, new, rtol=tolerance, atol=tolerance):
                worst = int(np.argmax(np.abs(old - new)))
                return Check(name, False, ids[i], f"{what} changed: {old[worst]:.6g} → {new[worst]:.6g}")
    return Check(name, True)


def _first_line(reply: str) -> str:
    return reply.partition("\n")[0][:60]


def permuted(values: Sequence[T], rng: random.Random, invent: Callable[[T], T]) -> list[T]:
    """The values in another order, so that each place gets another value; what cannot be exchanged is invented.

    >>> permuted(["a", "a", "b", "b"], random.Random(0), str.upper)
    ['b', 'b', 'a', 'a']
    >>> permuted(["a", "a", "a", "b"], random.Random(0), str.upper)
    ['b', 'A', 'A', 'a']
    """
    counts = Counter(values)
    kinds = sorted(counts, key=repr)
    rng.shuffle(kinds)
    rank = {kind: i for i, kind in enumerate(kinds)}
    order = sorted(range(len(values)), key=lambda i: rank[values[i]])
    shift = max(counts.values())
    found = list(values)
    for place, source in zip(order, order[shift:] + order[:shift], strict=True):
        found[place] = values[source] if values[source] != values[place] else invent(values[place])
    return found


def _with(field: str, invent: Callable[[Any], Any]) -> Callable[[Sequence[Example], random.Random], list[Example]]:
    """A change that permutes one field of the examples."""

    def change(examples: Sequence[Example], rng: random.Random) -> list[Example]:
        new = permuted([getattr(example, field) for example in examples], rng, invent)
        return [replace(example, **{field: value}) for example, value in zip(examples, new, strict=True)]

    return change


def _without(field: str) -> Callable[[Sequence[Example], random.Random], list[Example]]:
    gone: dict[str, Any] = {field: None}
    return lambda examples, rng: [replace(example, **gone) for example in examples]


def _relabelled(
    change: Callable[[list[str | None], random.Random], list[str | None]],
) -> Callable[[Sequence[Example], random.Random], list[Example]]:
    """A change of the labels of all turns: contexts, responses and feedback."""

    def relabel(examples: Sequence[Example], rng: random.Random) -> list[Example]:
        labels = iter(change([turn.label for example in examples for turn in _turns(example)], rng))
        found = []
        for example in examples:
            new = [replace(turn, label=next(labels)) for turn in _turns(example)]
            size = len(example.context)
            found.append(
                replace(
                    example,
                    context=tuple(new[:size]),
                    response=new[size],
                    feedback=new[size + 1] if example.feedback else None,
                )
            )
        return found

    return relabel


def _turns(example: Example) -> list[Turn]:
    return [*example.context, example.response, *([example.feedback] if example.feedback else [])]


def _other_labels(labels: list[str | None], rng: random.Random) -> list[str | None]:
    return permuted(labels, rng, lambda old: rng.choice([label for label in LABELS if label != old]))


def _other_emotion(emotion: str | None) -> str:
    return EMOTIONS[(EMOTIONS.index(emotion) + 1) % len(EMOTIONS) if emotion in EMOTIONS else 0]


_CHANGES: dict[str, Callable[[Sequence[Example], random.Random], list[Example]]] = {
    "emotions permuted": _with("emotion", _other_emotion),
    "emotions dropped": _without("emotion"),
    "situations permuted": _with("situation", lambda old: "Something else happened to me."),
    "situations dropped": _without("situation"),
    "feedback permuted": _with("feedback", lambda old: Turn("speaker", "Well, that is not what I meant.")),
    "feedback dropped": _without("feedback"),
    "turn labels permuted": _relabelled(_other_labels),
    "turn labels dropped": _relabelled(lambda labels, rng: [None] * len(labels)),
    "ids permuted": _with("id", lambda old: f"audit:{old}"),
    "references permuted": _with("response", lambda old: Turn("listener", "That is another answer.")),
}
