from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from attune.dialogue.types import Turn
from attune.errors import DataError
from attune.generate.reranking import CommonPhrases, Reranker, Weights, overlap, repeats
from attune.generate.saying import Ask, Candidate, Control, Tone

CONTEXT = (Turn("speaker", "My dog died."), Turn("listener", "I am so sorry to hear that."), Turn("speaker", "Yes."))


class Label(NamedTuple):
    probabilities: dict[str, float]


class Labeller:
    """A text with a question mark is questioning."""

    def label(self, texts: list[str]) -> list[Label]:
        return [Label({"questioning": 0.9 if "?" in text else 0.1}) for text in texts]


class Encoder:
    """Two directions: texts about dogs, and others."""

    def encode(self, texts: list[str]) -> np.ndarray:
        return np.array([[1.0, 0.0] if "dog" in text else [0.0, 1.0] for text in texts], dtype=np.float32)


def order(candidates: list[Candidate], reranker: Reranker, ask: Ask | None = None) -> list[str]:
    return [one.text for one in reranker.rank([(ask or Ask(CONTEXT), candidates)])[0]]


def same(*texts: str) -> list[Candidate]:
    return [Candidate(text, -10.0, 5) for text in texts]


def test_of_equals_the_likelier_per_token_wins() -> None:
    said = [Candidate("Yes it is.", -10.0, 4), Candidate("No it is not.", -10.0, 8)]
    assert order(said, Reranker(encoder=None)) == ["No it is not.", "Yes it is."]


def test_what_is_about_the_context_wins() -> None:
    assert order(same("Was it a cat?", "Was it a dog?"), Reranker(encoder=None))[0] == "Was it a dog?"
    only = Weights(overlap=0)
    assert order(same("Was it a cat?", "Was it a dog?"), Reranker(only, encoder=Encoder()))[0] == "Was it a dog?"
    known = Ask(CONTEXT, Control(concepts=("pet",)))
    assert order(same("A vet?", "A pet?"), Reranker(encoder=None), known)[0] == "A pet?"


def test_the_label_that_is_wanted_wins_and_more_so_when_asked_for() -> None:
    reranker = Reranker(labeller=Labeller(), encoder=None)
    said = same("It was so.", "Was it so?")
    for asked in (False, True):
        ask = Ask(CONTEXT, Control(label="questioning", asked=asked))
        ranked = reranker.rank([(ask, said)])[0]
        assert ranked[0].text == "Was it so?"
        assert ranked[0].scores["label"] == 0.9
        worth = Weights().asked if asked else Weights().label
        assert ranked[0].score - ranked[1].score == pytest.approx(0.8 * worth, abs=0.01)  # type: ignore[operator]
    assert Weights().asked > 2 * Weights().label
    assert "label" not in reranker.rank([(Ask(CONTEXT), said)])[0][0].scores


def test_a_reply_that_repeats_an_earlier_turn_or_is_generic_loses() -> None:
    assert order(same("I am so sorry to hear that.", "That must be hard."), Reranker(encoder=None))[-1].startswith(
        "I am"
    )
    assert order(same("My dog died.", "That must be hard."), Reranker(encoder=None))[-1] == "My dog died."
    learnt = CommonPhrases.learn(["That is great!"] * 9 + ["What a fine walk!"])
    assert order(same("That is great!", "That is odd!"), Reranker(common=learnt, encoder=None))[-1] == "That is great!"


def test_what_the_other_candidates_say_too_can_win() -> None:
    said = same("Oh no, your dog!", "A cat.", "What dog is it?", "Poor dog.")
    asked = Ask((Turn("speaker", "He was old."),))
    (ranked,) = Reranker(Weights(overlap=0, similarity=0, consensus=1.0), encoder=Encoder()).rank([(asked, said)])
    assert ranked[-1].text == "A cat."
    assert [one.scores["consensus"] for one in ranked] == pytest.approx([2 / 3] * 3 + [0.0], abs=1e-3)


def test_brevity_of_the_tone_counts() -> None:
    said = same("It is so.", "It is so, and it was so, and it will be so.")
    brief, wordy = Ask(CONTEXT, tone=Tone(brevity=1.0)), Ask(CONTEXT, tone=Tone(brevity=0.0))
    assert order(said, Reranker(encoder=None), brief)[0] == "It is so."
    assert order(said, Reranker(encoder=None), wordy)[0] != "It is so."


def test_the_same_text_counts_once_and_one_alone_is_not_compared() -> None:
    said = [Candidate("Yes.", -9.0, 2), Candidate("Yes. ", -4.0, 2), Candidate("", -1.0, 1)]
    (ranked,) = Reranker(encoder=Encoder()).rank([(Ask(CONTEXT), said)])
    assert [(one.text, one.score, one.scores["likelihood"]) for one in ranked] == [("Yes.", None, -2.0)]
    assert "similarity" not in ranked[0].scores
    assert Reranker(encoder=None).rank([(Ask(CONTEXT), [])]) == [[]]


def test_a_batch_is_ranked_like_each_alone() -> None:
    reranker = Reranker(labeller=Labeller(), encoder=Encoder())
    batch = [
        (Ask(CONTEXT, Control(label="questioning")), same("A dog?", "A cat.", "I see.")),
        (Ask(CONTEXT[:1]), same("One.")),
        (Ask(CONTEXT[:1]), same("Oh no, your dog!", "I see.")),
    ]
    assert reranker.rank(batch) == [reranker.rank([one])[0] for one in batch]


def test_common_phrases_are_kept_and_damage_is_named(tmp_path: Path) -> None:
    learnt = CommonPhrases.learn(["I am so sorry."] * 3)
    learnt.save(tmp_path / "common.json")
    assert CommonPhrases.load(tmp_path / "common.json") == learnt
    (tmp_path / "common.json").write_text('{"replies": 3}')
    with pytest.raises(DataError, match=r"common\.json: not a file of common phrases"):
        CommonPhrases.load(tmp_path / "common.json")


def test_scores_of_texts_without_words_are_none() -> None:
    assert overlap("?!", CONTEXT) == 0.0
    assert repeats("😀", CONTEXT) == 0.0
    assert CommonPhrases.learn([]).share("Hi.") == 0.0
