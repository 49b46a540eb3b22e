from __future__ import annotations

import json

import numpy as np
import pytest

from attune.respond.guard import train
from attune.respond.guard.classifier import (
    FITTED,
    HEARD,
    JUDGED,
    Classifier,
    Classifiers,
    load_classifier,
    open_classifier,
    weights_of,
)
from attune.respond.guard.train import Model, Tuning, fit, held_out, label_of, read_lines, write_known
from attune.respond.guard.words import KNOWN, load_reader


def test_the_tuning_data_is_whole() -> None:
    messages, replies = read_lines("messages.jsonl"), read_lines("replies.jsonl")
    assert all(row["text"].strip() and row["kind"] for row in messages)
    assert {label_of(row) for row in messages} == set(range(len(HEARD)))
    assert {row["kind"] for row in replies} == set(JUDGED)
    assert all(row["reply"].strip() and ("to" in row) != ("context" in row) for row in replies)
    assert all(len(row["context"]) % 2 == 1 for row in replies if "context" in row)


def test_no_message_is_there_twice() -> None:
    texts = [row["text"].casefold() for row in read_lines("messages.jsonl")]
    assert len(texts) == len(set(texts))


def test_one_line_in_ten_is_held_out_and_groups_stay_together() -> None:
    rows = read_lines("messages.jsonl")
    assert 0.07 < np.mean([held_out(row) for row in rows]) < 0.13
    groups: dict[str, set[bool]] = {}
    for row in rows:
        if "group" in row:
            groups.setdefault(row["group"], set()).add(held_out(row))
    assert all(len(found) == 1 for found in groups.values())


def test_variations_are_the_same_for_the_same_seed_and_others_for_another() -> None:
    one, same, other = Tuning(seed=1), Tuning(seed=1), Tuning(seed=2)
    assert one.heard() == same.heard()
    assert one.judged() == same.judged()
    assert one.heard() != other.heard()


def test_a_reply_to_any_risk_is_paired_with_one() -> None:
    tuning = Tuning()
    risky = {row["text"] for row in tuning.messages if row["risk"]}
    tuning.replies = [{"to": "any", "reply": "How exciting!", "kind": "belittles-danger"}] * 20
    assert sum(said in risky for (said, _), _ in tuning.judged()) > 10  # of 20; some follow other words


def test_the_known_words_are_those_of_the_messages() -> None:
    before = (train.DATA / KNOWN).read_text(encoding="utf-8")
    write_known()
    assert (train.DATA / KNOWN).read_text(encoding="utf-8") == before
    assert "suicide" in before.split()
    assert "sucide" not in before.split()


def test_the_weights_are_small() -> None:
    assert sum((train.DATA / weights_of(name)).stat().st_size for name in FITTED) < 10_000_000
    assert FITTED.keys() == train.FITTINGS.keys()


def test_probabilities_are_probabilities() -> None:
    hears, judges = map(load_classifier, ("hear", "judge"))
    heard = hears(["i had a long day", "", "i want to die"])
    judged = judges([("i had a long day", "oh no"), ("", "")])
    assert heard.shape == (3, len(HEARD))
    assert judged.shape == (2, len(JUDGED))
    for shares in (heard, judged):
        assert np.isfinite(shares).all()
        assert shares.sum(axis=1) == pytest.approx(np.ones(len(shares)), abs=1e-5)
    assert hears([]).shape == (0, len(HEARD))


def test_two_opinions_count_alike() -> None:
    one, other = np.array([[0.8, 0.2]], dtype=np.float32), np.array([[0.2, 0.8]], dtype=np.float32)
    both = Classifiers([lambda texts: one, lambda texts: other])  # type: ignore[list-item]
    assert both(["hi"]) == pytest.approx(np.array([[0.5, 0.5]]))
    assert len(load_classifier("judge").members) == 2


@pytest.mark.parametrize("name", FITTED)
def test_what_is_measured_is_told_by_the_share_from_which_it_counts(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(train, "read_lines", lambda file: read_lines(file)[::40])
    told = train.measure(name, open_classifier(name), load_reader(), [("My dog died.", "Oh no, poor thing!")])
    assert "harmless): from " in told
    assert "ordinary talk (1), not let pass: from " in told
    assert told.count("from ") == 2 * len(train.LEVELS[FITTED[name]])


@pytest.mark.slow
@pytest.mark.parametrize(("task", "texts"), [("hear", ["i want to die", "what a lovely day in the park"]),
                                             ("judge", [("my dog died", "it was only a dog"), ("i won", "well done")])])  # fmt: skip
def test_fitting_twice_gives_the_same_weights_and_what_torch_says_onnx_says(task: str, texts: list[train.Text]) -> None:
    import torch

    fitted = []
    for _ in range(2):
        tuning = Tuning()
        tuning.messages, tuning.replies = tuning.messages[:48], tuning.replies[:24]
        model = Model(task)
        fit(model, tuning, load_reader(), epochs=1, rate=2e-3)
        fitted.append(model.weights())
        again = Model(task, seed=3)
        again.load(fitted[-1])
        assert all((again.weights()[name] == value).all() for name, value in fitted[-1].items())
    assert json.dumps(sorted(fitted[0])) == json.dumps(sorted(fitted[1]))
    assert all((fitted[0][name] == fitted[1][name]).all() for name in fitted[0])
    with torch.no_grad():
        scores = model.scores([code.ids for code in model.tokenizer.encode_batch(texts)])
    classifier = Classifier({name: value.astype(np.float32) for name, value in fitted[1].items()})
    assert classifier(texts) == pytest.approx(torch.softmax(scores, dim=-1).numpy(), abs=0.01)
