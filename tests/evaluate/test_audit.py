"""The leak audit: an honest system passes, and each leak is caught by the check that is there for it."""

from __future__ import annotations

import random
import zlib
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attune.dialogue.types import Context, Dialogue, Example, Turn
from attune.errors import SettingsError
from attune.evaluate.audit import audit, permuted
from tests.systems import EVERY, small_system, variant_id


@pytest.fixture
def examined(asked: list[Example]) -> list[Example]:
    """Examples that have everything that may leak."""
    labels = ["sad", "questioning", "neutral", "joyful"]

    def labelled(turn: Turn, i: int) -> Turn:
        return replace(turn, label=labels[i % 4])

    return [
        replace(
            example,
            context=tuple(labelled(turn, i + j) for j, turn in enumerate(example.context)),
            response=labelled(example.response, i + 1),
            feedback=Turn("speaker", f"Feedback {i}.", labels[i % 3]),
        )
        for i, example in enumerate(asked)
    ]


@pytest.mark.usefixtures("real_cache")  # some systems look words up in a lexicon
@pytest.mark.parametrize("variant", EVERY, ids=variant_id)
def test_every_registered_system_passes(
    variant: tuple[str, dict[str, Any]], dialogues: list[Dialogue], examined: list[Example]
) -> None:
    name, settings = variant
    report = audit(small_system(name, dialogues, **settings), examined)
    assert report.passed, [str(check) for check in report.checks if not check.passed]


def failed(system: Any, examples: Sequence[Example]) -> set[str]:
    return {check.name for check in audit(system, examples).checks if not check.passed}


def leaky(parrot: Any, seen: Any) -> Any:
    """A parrot whose NLL also depends on what `seen` takes from an example."""

    class Leaky(type(parrot)):  # type: ignore[misc]
        def nll(self, examples: Sequence[Example], *, progress: object = None) -> list[Any]:
            found = super().nll(examples)
            return [
                one._replace(nll=one.nll + len(str(seen(e))) * 0.01) for one, e in zip(found, examples, strict=True)
            ]

    return Leaky()


def test_an_honest_system_passes(parrot: Any, examined: list[Example]) -> None:
    report = audit(parrot, examined)
    assert report.passed
    assert len(report.checks) == 13
    assert report.json()["passed"] is True
    assert {"name": "emotions permuted", "passed": True, "offender": None, "detail": ""} in report.json()["checks"]


def test_an_honest_system_passes_where_the_corpus_has_no_labels(parrot: Any, asked: list[Example]) -> None:
    assert audit(parrot, [replace(example, emotion=None, situation=None) for example in asked]).passed
    assert audit(parrot, asked[:1]).passed


@pytest.mark.parametrize(
    ("seen", "caught"),
    [
        (lambda e: e.emotion, {"emotions permuted", "emotions dropped"}),
        (lambda e: "x" if e.emotion is None else "", {"emotions dropped"}),
        (lambda e: e.situation, {"situations permuted", "situations dropped"}),
        (lambda e: "x" if e.situation is None else "", {"situations dropped"}),
        (lambda e: e.feedback and e.feedback.text, {"feedback permuted", "feedback dropped"}),
        (lambda e: "x" if e.feedback is None else "", {"feedback dropped"}),
        (lambda e: e.response.label, {"turn labels permuted", "turn labels dropped"}),
        (lambda e: e.context[0].label, {"turn labels permuted", "turn labels dropped"}),
        (lambda e: "x" if e.context[-1].label is None else "", {"turn labels dropped"}),
        (lambda e: e.id if e.id.startswith("d1") else "", {"ids permuted"}),
    ],
)
def test_a_likelihood_that_sees_too_much_is_caught(
    parrot: Any, examined: list[Example], seen: Any, caught: set[str]
) -> None:
    def in_full(example: Example) -> str:
        return "x" * (zlib.crc32(str(seen(example)).encode()) % 997)

    assert failed(leaky(parrot, in_full), examined) == caught


def test_a_likelihood_that_needs_a_gold_emotion_is_caught_only_by_permuting(
    parrot: Any, examined: list[Example]
) -> None:
    gold = {example.response.text: example.emotion for example in examined}
    system = leaky(parrot, lambda e: "x" if e.emotion not in (None, gold.get(e.response.text)) else "")
    assert failed(system, examined) == {"emotions permuted"}


@pytest.mark.parametrize("what", ["reply", "perceive"])
def test_an_output_that_sees_turn_labels_is_caught(parrot: Any, examined: list[Example], what: str) -> None:
    class Labelled(type(parrot)):  # type: ignore[misc]
        def reply(self, contexts: Sequence[Context], **settings: object) -> list[Any]:
            found = super().reply(contexts)
            if what != "reply":
                return found  # type: ignore[no-any-return]
            return [one._replace(text=f"{one.text} {c[0].label}") for one, c in zip(found, contexts, strict=True)]

        def perceive(self, contexts: Sequence[Context], **settings: object) -> np.ndarray:
            found = super().perceive(contexts)
            if what == "perceive":
                found[:, 0] += [0.01 if c[-1].label is None else 0.0 for c in contexts]
            return found  # type: ignore[no-any-return]

    caught = failed(Labelled(), examined)
    assert caught == (
        {"turn labels dropped"} if what == "perceive" else {"turn labels permuted", "turn labels dropped"}
    )


def test_a_reply_that_remembers_the_reference_is_caught(parrot: Any, examined: list[Example]) -> None:
    """As in a system that keeps the last target it was scored on."""

    class Remembers(type(parrot)):  # type: ignore[misc]
        def nll(self, examples: Sequence[Example], *, progress: object = None) -> list[Any]:
            self.heard = {tuple(t.text for t in e.context): e.response.text for e in examples}
            return super().nll(examples)  # type: ignore[no-any-return]

        def reply(self, contexts: Sequence[Context], **settings: object) -> list[Any]:
            found = super().reply(contexts)
            known = [self.heard[tuple(t.text for t in c)] for c in contexts]
            return [one._replace(prediction=text.lower()) for one, text in zip(found, known, strict=True)]

    assert failed(Remembers(), examined) == {"references permuted"}


def test_a_flag_that_gold_emotions_leave_behind_is_caught(parrot: Any, examined: list[Example]) -> None:
    """As in MoEL's public code: scoring with gold emotions changes what is perceived afterwards."""

    class Flag(type(parrot)):  # type: ignore[misc]
        gold: tuple[str | None, ...] = ()

        def nll(self, examples: Sequence[Example], *, progress: object = None) -> list[Any]:
            self.gold = tuple(example.emotion for example in examples)
            return super().nll(examples)  # type: ignore[no-any-return]

        def perceive(self, contexts: Sequence[Context], **settings: object) -> np.ndarray:
            found = super().perceive(contexts)
            found[:, 0] += [0.1 if emotion is None else len(emotion) / 100 for emotion in self.gold]
            return found  # type: ignore[no-any-return]

    assert failed(Flag(), examined) >= {"emotions permuted", "emotions dropped"}


def test_a_system_that_is_not_repeatable_is_caught(parrot: Any, examined: list[Example]) -> None:
    class Dice(type(parrot)):  # type: ignore[misc]
        thrown = 0

        def reply(self, contexts: Sequence[Context], **settings: object) -> list[Any]:
            self.thrown += 1
            return [one._replace(prediction=f"{self.thrown}") for one in super().reply(contexts)]

    assert "repeated" in failed(Dice(), examined)


def test_a_batch_that_changes_its_items_is_caught(parrot: Any, examined: list[Example]) -> None:
    class Crowd(type(parrot)):  # type: ignore[misc]
        def nll(self, examples: Sequence[Example], *, progress: object = None) -> list[Any]:
            return [one._replace(nll=one.nll + len(examples)) for one in super().nll(examples)]

    class Queue(type(parrot)):  # type: ignore[misc]
        def reply(self, contexts: Sequence[Context], **settings: object) -> list[Any]:
            first = contexts[0][0].text if len(contexts) > 1 else ""
            return [one._replace(text=one.text + first) for one in super().reply(contexts)]

    assert failed(Crowd(), examined) == {"one at a time"}
    assert failed(Queue(), examined) == {"one at a time", "in another order"}


def test_the_first_offender_is_named(parrot: Any, examined: list[Example]) -> None:
    system = leaky(parrot, lambda e: "x" if e.emotion is None and e.id == "d4:2" else "")
    (check,) = (check for check in audit(system, examined).checks if not check.passed)
    assert (check.name, check.offender) == ("emotions dropped", "d4:2")
    assert str(check).startswith("emotions dropped: FAIL at d4:2: nll changed: ")


def test_a_system_is_asked_only_for_what_it_offers(parrot: Any, examined: list[Example]) -> None:
    class Ear:
        name, path, capabilities = "ear", None, frozenset({"perceive"})
        perceive = staticmethod(parrot.perceive)

    assert audit(Ear(), examined).passed
    Ear.capabilities = frozenset({"rank"})
    with pytest.raises(SettingsError, match="nothing can be audited"):
        audit(Ear(), examined)
    with pytest.raises(SettingsError, match="at least one example"):
        audit(parrot, [])


@given(st.lists(st.sampled_from("aabbccdefg"), min_size=1), st.integers(0, 99))
def test_a_permutation_leaves_no_value_in_its_place(values: list[str], seed: int) -> None:
    new = permuted(values, random.Random(seed), str.upper)
    assert all(one != other for one, other in zip(values, new, strict=True))
    if max(map(values.count, values)) <= len(values) / 2:
        assert sorted(new) == sorted(values)
