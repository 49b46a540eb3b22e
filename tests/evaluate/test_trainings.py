"""What a results folder tells of its training."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from attune.errors import DataError
from attune.evaluate.trainings import BEFORE, WENT_ON, earlier_commands, how_trained


def trained(folder: Path, curve: dict[int, float], *, select: str = "ppl", patience: int = 2, **settings: Any) -> None:
    best = (max if select.endswith("accuracy") else min)(curve, key=lambda step: curve[step])
    folder.mkdir(parents=True)
    (folder / "config.yaml").write_text(json.dumps({"training": {"select": select, "patience": patience, **settings}}))
    validation = [{"step": step, select: value} for step, value in curve.items()]
    (folder / "summary.json").write_text(json.dumps({"steps": max(curve), "best_step": best, "validation": validation}))


def test_a_training_that_ended_early_and_one_that_did_not(tmp_path: Path) -> None:
    trained(tmp_path / "a", {1000: 50.44, 2000: 40.0, 3000: 41.0, 4000: 42.0})
    assert how_trained(tmp_path / "a") == (
        "Training: 4,000 steps, the best at 2,000; `ppl` on validation 50.4 (1,000), 40.0 (2,000), 41.0 (3,000), "
        "42.0 (4,000); ended by early stopping: 2 validations without a better one."
    )
    trained(tmp_path / "b", {1000: 0.4, 2000: 0.505}, select="emotion_accuracy")
    assert "40.0 (1,000), 50.5 (2,000); ended by the end of its schedule." in how_trained(tmp_path / "b")
    trained(tmp_path / "c", {1000: 40.0, 2000: 41.0, 3000: 42.0}, min_steps=2000)
    assert how_trained(tmp_path / "c").endswith("ended by the end of its schedule.")
    assert how_trained(tmp_path) == ""
    summary = json.loads((tmp_path / "c" / "summary.json").read_text())
    (tmp_path / "c" / "summary.json").write_text(json.dumps(summary | {"ended": "a power cut"}))
    assert how_trained(tmp_path / "c").endswith("ended by a power cut.")


def test_a_training_that_was_taken_up_again(tmp_path: Path) -> None:
    trained(tmp_path / "a", {1000: 50.0, 2000: 40.0})
    trained(tmp_path / "a" / WENT_ON, {0: 40.0, 1000: 40.5, 2000: 41.0})
    told = how_trained(tmp_path / "a")
    assert "ended by the end of its schedule. Taken up again from these weights: 2,000 steps, the best at 0;" in told
    assert told.endswith("ended by early stopping: 2 validations without a better one.")
    trained(tmp_path / "b", {1000: 50.0})
    trained(tmp_path / "b" / WENT_ON, {0: 50.0, 1000: 49.0})
    with pytest.raises(DataError, match="not the ones that were scored"):
        how_trained(tmp_path / "b")


def test_a_training_that_began_with_anothers_weights(tmp_path: Path) -> None:
    trained(tmp_path / "a", {0: 40.0, 1000: 39.0})
    trained(tmp_path / "a" / BEFORE, {1000: 50.0, 2000: 40.0})
    told = how_trained(tmp_path / "a")
    assert told.startswith("Training: 2,000 steps, the best at 2,000; `ppl` on validation 50.0 (1,000), 40.0 (2,000);")
    assert "Gone on with from there, with other settings: 1,000 steps, the best at 1,000;" in told
    trained(tmp_path / "a" / BEFORE / BEFORE, {500: 60.0})
    told = how_trained(tmp_path / "a")
    assert told.startswith("Training: 500 steps, the best at 500;")
    assert told.count("Gone on with from there") == 2


def test_each_training_before_has_a_command_that_puts_it_where_the_next_looks(tmp_path: Path) -> None:
    last = tmp_path / "attune-deeper"
    for folder, variant, start in (
        (last, "deeper", "deep"),
        (last / BEFORE, "deep", "elsewhere/first"),
        (last / BEFORE / BEFORE, "default", None),
    ):
        trained(folder, {1000: 40.0})
        config = {"system": "attune", "variant": variant, "training": {"start": start}}
        (folder / "config.yaml").write_text(json.dumps(config))
    assert earlier_commands(last, last.name) == [
        "attune train results/attune-deeper/before/before/config.yaml --data DIR --out elsewhere/first",
        "attune train results/attune-deeper/before/config.yaml --data DIR --out runs/attune-deep",
    ]
    assert earlier_commands(last / BEFORE / BEFORE, "attune") == []


def test_what_cannot_be_read_is_named(tmp_path: Path) -> None:
    trained(tmp_path / "a", {1000: 50.0})
    (tmp_path / "a" / "summary.json").write_text("{}")
    with pytest.raises(DataError, match=r"summary\.json: not the summary of a run \(KeyError\('steps'\)\)"):
        how_trained(tmp_path / "a")
