"""What is recalled for a system: nothing that a listener would not bring up, and no silent gap where scores are taken."""

from __future__ import annotations

import pytest

from attune.dialogue.types import Turn
from attune.errors import MissingError
from attune.knowledge import recall
from attune.knowledge.recall import ConceptRecall
from attune.knowledge.unfit import fit

SAID = (Turn("speaker", "I could not sleep. My body and my bed are a mess after the fight."),)


def test_what_a_listener_does_not_bring_up_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    recalled = ConceptRecall()
    shown = {concept.concept for concept in recalled([SAID])[0]}
    assert shown
    assert all(map(fit, shown))
    monkeypatch.setattr(recall, "fit", lambda concept: True)
    assert {concept.concept for concept in recalled([SAID])[0]} > shown, "the words were to call up something unfit"


def test_a_part_that_is_missing_is_an_error_unless_nothing_may_be_recalled(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing() -> None:
        raise MissingError("part 'minilm' is missing; run: attune setup minilm")

    monkeypatch.setattr(recall, "Ckece", missing)
    with pytest.raises(MissingError, match="attune setup minilm"):
        ConceptRecall()([SAID])
    lenient = ConceptRecall(lenient=True)
    assert lenient([SAID, SAID]) == [[], []]
    assert lenient.trouble == "nothing is recalled: part 'minilm' is missing; run: attune setup minilm"
