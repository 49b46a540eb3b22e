"""Trials are compared with the base that was trained in the same way, and with nothing else."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from attune.errors import DataError, MissingError
from attune.evaluate.ablations import FOLDER, Trial, read_trials, trial_table
from attune.evaluate.results import render


def trial(results: Path, variant: str, value: float, *, select: str = "ppl", limit: int = 100, **training: Any) -> Path:
    folder = results / FOLDER / f"attune-{variant}-{limit}"
    folder.mkdir(parents=True)
    config = {
        "system": "attune",
        "variant": variant,
        "about": f"about {variant}",
        "training": {"select": select, "limit": limit, **training},
    }
    (folder / "config.yaml").write_text(yaml.safe_dump(config))
    (folder / "summary.json").write_text(json.dumps({f"best_valid_{select}": value, "examples": limit, "seconds": 90}))
    return folder


def test_the_base_comes_first_then_the_best_and_the_best_is_bold(tmp_path: Path) -> None:
    for variant, value in (("bare", 15.5), ("all-turns", 14.75), ("default", 15.0)):
        trial(tmp_path, variant, value)
    (group,) = read_trials(tmp_path)
    assert trial_table(group).rows == [
        ["default", "about default", "15.000", "–", "100", "2"],
        ["all-turns", "about all-turns", "**14.750**", "-0.250", "100", "2"],
        ["bare", "about bare", "15.500", "+0.500", "100", "2"],
    ]


def test_variants_of_a_variant_are_compared_with_that_one(tmp_path: Path) -> None:
    for variant, value in (("bare", 15.5), ("first", 15.0), ("no-ear", 14.5)):
        trial(tmp_path, variant, value)
    (group,) = read_trials(tmp_path)
    assert [(row[0], row[3]) for row in trial_table(group).rows] == [
        ("first", "–"),
        ("no-ear", "-0.500"),
        ("bare", "+0.500"),
    ]


def test_where_more_is_better_the_highest_is_best(tmp_path: Path) -> None:
    for variant, value in (("default", 0.5), ("fast", 0.75), ("other", 0.25)):
        trial(tmp_path, variant, value, select="accuracy")
    (group,) = read_trials(tmp_path)
    assert [row[2] for row in trial_table(group).rows] == ["0.500", "**0.750**", "0.250"]


def test_other_trainings_are_not_compared(tmp_path: Path) -> None:
    trial(tmp_path, "default", 15.0)
    trial(tmp_path, "bare", 15.5, limit=200)
    assert read_trials(tmp_path) == []


def test_what_is_tried_may_be_a_setting_of_training(tmp_path: Path) -> None:
    trial(tmp_path, "default", 15.0)
    trial(tmp_path, "averaged", 14.5, average=0.98)
    trial(tmp_path, "after-daily", 14.0, start="runs/daily", average=0.0)
    (group,) = read_trials(tmp_path)
    assert [row[0] for row in trial_table(group).rows] == ["default", "after-daily", "averaged"]


def test_the_mean_of_the_weights_is_compared_with_the_weights_of_the_same_training(tmp_path: Path) -> None:
    trial(tmp_path, "default", 15.0, precision="bf16")
    folder = trial(tmp_path, "averaged", 14.5, average=0.98, precision="full", checkpoint_every=7)
    steps = [{"step": 3, "ppl": 16.0, "last_ppl": 17.0}, {"step": 6, "ppl": 14.5, "last_ppl": 14.7}]
    summary = json.loads((folder / "summary.json").read_text()) | {"best_step": 6, "validation": steps}
    (folder / "summary.json").write_text(json.dumps(summary))
    (group,) = read_trials(tmp_path)
    assert [(row[0], row[3]) for row in trial_table(group).rows] == [("default", "–"), ("averaged", "-0.200")]


def test_a_group_without_its_base_has_no_differences(tmp_path: Path) -> None:
    for variant in ("bare", "all-turns"):
        trial(tmp_path, variant, 15.0)
    (group,) = read_trials(tmp_path)
    assert {row[3] for row in trial_table(group).rows} == {"–"}


def test_what_has_not_ended_or_is_no_summary_is_named(tmp_path: Path) -> None:
    folder = trial(tmp_path, "default", 15.0)
    (folder / "summary.json").write_text("{}")
    with pytest.raises(DataError, match=r"summary\.json: not the summary of a run \(KeyError: 'best_valid_ppl'\)"):
        Trial.read(folder)
    (folder / "summary.json").unlink()
    with pytest.raises(MissingError, match="has not ended"):
        Trial.read(folder)


def test_the_page_of_results_shows_them(tmp_path: Path) -> None:
    for variant in ("default", "bare"):
        trial(tmp_path, variant, 15.0)
    page = render([], trials=read_trials(tmp_path))
    assert "## What each part is worth" in page
    assert "| bare | about bare |" in page
    assert "What each part is worth" not in render([])
