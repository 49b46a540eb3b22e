"""A training that begins with the weights of a variant of its system, which is trained first."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml

from attune.errors import SettingsError
from attune.train.recipes import load_recipe
from attune.train.trainer import train
from tests.interrupting import killed_after

SMALL: dict[str, Any] = {
    "system": "transformer",
    "variant": "paper",
    "model": {"d_model": 16, "heads": 2, "ffn": 16},
    "training": {"batch_size": 8, "warmup": 10, "lr": 0.3, "validate_every": 6, "checkpoint_every": 3, "epochs": 1},
    "variants": {"more": {"training": {"start": "paper"}}, "most": {"training": {"start": "more", "seed": 1}}},
}


@pytest.fixture(autouse=True)
def recipes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "recipes").mkdir()
    (tmp_path / "recipes" / "transformer.yaml").write_text(yaml.safe_dump(SMALL))
    monkeypatch.setattr("attune.train.recipes.RECIPES", tmp_path / "recipes")


def weights(run: Path) -> bytes:
    return (run / "model.safetensors").read_bytes()


def test_variants_are_trained_first_beside_the_run_and_left_as_they_are(
    corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    one = tmp_path / "one"
    summary = train(load_recipe("transformer", "most"), corpus, one / "mine")
    assert {run.name for run in one.iterdir()} == {"mine", "transformer-more", "transformer-paper"}
    for before, run in (("before", "transformer-more"), ("before/before", "transformer-paper")):
        assert (one / "mine" / before / "summary.json").read_bytes() == (one / run / "summary.json").read_bytes()
    assert f"{one / 'transformer-paper'}: trained first" in capsys.readouterr().err
    other = tmp_path / "other"
    train(load_recipe("transformer"), corpus, other / "transformer-paper")
    train(load_recipe("transformer", "more"), corpus, other / "transformer-more")
    written = (other / "transformer-more" / "model.safetensors").stat().st_mtime_ns
    train(load_recipe("transformer", "most"), corpus, other / "transformer-most")
    assert (other / "transformer-more" / "model.safetensors").stat().st_mtime_ns == written
    assert "trained first" not in capsys.readouterr().err
    assert weights(other / "transformer-most") == weights(one / "mine")
    shutil.rmtree(one / "transformer-more")
    assert train(load_recipe("transformer", "most"), corpus, one / "mine") == summary
    assert not (one / "transformer-more").exists(), "a finished run does not need what it began with"


def test_a_variant_that_was_interrupted_is_gone_on_with(corpus: Path, tmp_path: Path) -> None:
    train(load_recipe("transformer", "more"), corpus, tmp_path / "whole" / "run")
    with killed_after(4):
        train(load_recipe("transformer", "more"), corpus, tmp_path / "killed" / "run")
    assert not (tmp_path / "killed" / "run").exists()
    progress = json.loads((tmp_path / "killed" / "transformer-paper" / "checkpoint" / "progress.json").read_text())
    assert progress["step"] == 3
    train(load_recipe("transformer", "more"), corpus, tmp_path / "killed" / "run")
    assert weights(tmp_path / "killed" / "run") == weights(tmp_path / "whole" / "run")


def test_a_run_beside_with_other_settings_is_not_taken_for_the_variant(corpus: Path, tmp_path: Path) -> None:
    place = tmp_path / "transformer-paper"
    train(load_recipe("transformer", None, ["training.seed=3"]), corpus, place)
    with pytest.raises(SettingsError, match="not the variant paper as its recipe has it"):
        train(load_recipe("transformer", "more"), corpus, tmp_path / "run")
    train(load_recipe("transformer", "more", [f"training.start={place}"]), corpus, tmp_path / "run")
    assert (tmp_path / "run" / "before" / "config.yaml").read_bytes() == (place / "config.yaml").read_bytes()


def test_a_run_that_began_with_a_folder_is_the_same_variant(corpus: Path, tmp_path: Path) -> None:
    train(load_recipe("transformer"), corpus, tmp_path / "first")
    begun = load_recipe("transformer", "more", [f"training.start={tmp_path / 'first'}"])
    train(begun, corpus, tmp_path / "transformer-more")
    train(load_recipe("transformer", "most"), corpus, tmp_path / "run")
    assert not (tmp_path / "transformer-paper").exists()


def test_the_place_of_the_variant_is_no_place_for_the_run(corpus: Path, tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="choose another --out"):
        train(load_recipe("transformer", "more"), corpus, tmp_path / "transformer-paper")
    assert not (tmp_path / "transformer-paper").exists()
