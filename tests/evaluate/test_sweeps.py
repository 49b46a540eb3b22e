"""Runs that differ in one setting: a table and a drawing of what the setting does."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import pytest
import yaml

from attune.errors import MissingError, SettingsError
from attune.evaluate.compare import compare
from attune.evaluate.figures import against
from attune.evaluate.intervals import Score
from attune.evaluate.results import write_results
from attune.evaluate.scores import Scores
from attune.evaluate.signature import Signature
from attune.evaluate.sweeps import points, settings, sweeps
from attune.train.recipes import load_recipe, variants

KEY = "model.concepts_per_dialogue"


def result(
    folder: Path, variant: str, accuracy: float, *, system: str = "kemp", split: str = "test", seed: int = 0
) -> Path:
    """A results folder as `attune evaluate` leaves it, of a recipe that comes with Attune."""
    signature = Signature("listener-turns-v1", split, 5259, vocabulary="train-100", decoding="greedy")
    metrics = {"emotion_accuracy": Score(accuracy, accuracy - 1, accuracy + 1), "ppl_token": Score(36.0, 35.5, 36.5)}
    place = folder / f"{system}-{variant}-{split}-{seed}"
    Scores(system, signature, metrics, variant=variant).write(place)
    (place / "config.yaml").write_text(load_recipe(system, variant, [f"training.seed={seed}"]).dump())
    return place


@pytest.fixture
def concepts(tmp_path: Path) -> list[Path]:
    shares = {"concepts-20": 38.0, "paper": 39.0, "concepts-0": 36.0, "concepts-5": 38.5}
    return [result(tmp_path / "results", variant, accuracy) for variant, accuracy in shares.items()]


def test_the_runs_of_figure_5_stand_in_the_order_of_their_concepts(concepts: list[Path], tmp_path: Path) -> None:
    assert [value for value, _ in points(concepts, KEY)] == [0, 5, 10, 20]
    table = compare(concepts, tmp_path / "page.html", metrics=["emotion_accuracy"], against=KEY)
    assert table.header == ["run", "concepts_per_dialogue", "accuracy"]
    assert [row[:2] for row in table.rows] == [
        ["kemp-concepts-0", "0"],
        ["kemp-concepts-5", "5"],
        ["kemp", "10"],
        ["kemp-concepts-20", "20"],
    ]
    page = (tmp_path / "page.html").read_text()
    assert "Over the values of the setting" in page
    assert "36.00" in page
    compare(concepts, tmp_path / "page.md", against=KEY)
    assert "| kemp-concepts-5 | 5 |" in (tmp_path / "page.md").read_text()


def test_the_drawing_has_a_point_for_every_run_and_a_panel_for_every_metric(concepts: list[Path]) -> None:
    svg = against(points(concepts, KEY), KEY)
    ElementTree.fromstring(svg)
    for shown in ("36.00", "38.50", "39.00", "38.00", "accuracy", "PPL (token)", "concepts_per_dialogue"):
        assert shown in svg
    assert against(points(concepts, KEY), KEY, ["ses"]) == ""
    assert against(points(concepts[:1], KEY), KEY) == "", "one run is no line"


def test_the_results_page_shows_runs_that_differ_in_nothing_else(concepts: list[Path], tmp_path: Path) -> None:
    folder = tmp_path / "results"
    result(folder, "tuned", 42.0)  # alone with its other settings
    result(folder, "concepts-0", 11.0, split="valid")
    (group,) = sweeps(folder, KEY, "kemp")
    assert [value for value, _ in group] == [0, 5, 10, 20]
    write_results(folder, tmp_path / "RESULTS.md")
    page = (tmp_path / "RESULTS.md").read_text()
    section = page.split("Fig. 5)")[1].split("## ")[0]
    assert "| 10 | kemp | 39.00 [38.00, 40.00] | 36.00 [35.50, 36.50] |" in section
    assert "42.00" not in section
    result(folder, "tuned-concepts-5", 41.0)
    assert len(sweeps(folder, KEY, "kemp")) == 2
    assert sweeps(tmp_path / "nowhere", KEY, "kemp") == []


def test_runs_of_several_seeds_have_a_mean_and_what_they_differ_by(tmp_path: Path) -> None:
    folder = tmp_path / "results"
    for seed, accuracy in enumerate((38.0, 40.0, 42.0)):
        result(folder, "tuned", accuracy, seed=seed)
    result(folder, "tuned-concepts-5", 11.0)  # differs in more than the seed
    write_results(folder, tmp_path / "RESULTS.md")
    section = (tmp_path / "RESULTS.md").read_text().split("## Several seeds")[1].split("## ")[0]
    assert "| kemp-tuned | 0, 1, 2 | 40.00 ± 2.00 | 36.00 ± 0.00 |" in section
    assert "11.00" not in section


def test_a_run_of_before_a_setting_has_its_default(concepts: list[Path], tmp_path: Path) -> None:
    config = concepts[0] / "config.yaml"
    older = yaml.safe_load(config.read_text())
    del older["training"]["average"], older["text"]["word_dropout"]
    older["training"] |= {"checkpoint_every": 7, "precision": "bf16"}
    config.write_text(yaml.safe_dump(older))
    (group,) = sweeps(tmp_path / "results", KEY, "kemp")
    assert len(group) == 4
    older["training"]["average"] = 0.9
    config.write_text(yaml.safe_dump(older))
    (group,) = sweeps(tmp_path / "results", KEY, "kemp")
    assert len(group) == 3


def test_the_ablations_of_both_papers_and_figure_5_are_variants_that_change_one_thing() -> None:
    one_thing = {
        ("kemp", "wo-ece"): ("context_encoder", False),
        ("kemp", "wo-edd"): ("emotional_decoder", False),
        ("kemp", "concepts-0"): ("concepts_per_dialogue", 0),
        ("kemp", "concepts-5"): ("concepts_per_dialogue", 5),
        ("kemp", "concepts-20"): ("concepts_per_dialogue", 20),
        ("empdg", "wo-g"): ("emotion_words", False),
        ("empdg", "wo-d"): ("adversarial", False),
        ("kemp-lm", "paper-bare"): ("graph", False),
    }
    for (system, variant), (key, value) in one_thing.items():
        for base, name in (("paper", variant), ("tuned", f"tuned-{variant}")):
            if name not in variants(system):
                assert base == "tuned"
                assert system == "kemp-lm"
                continue
            before, after = (load_recipe(system, one).model_dump() for one in (base, name))
            assert after["model"] == {**before["model"], key: value}
            assert {**after, "model": 0, "variant": 0, "about": 0} == {**before, "model": 0, "variant": 0, "about": 0}


def test_a_setting_that_cannot_be_drawn_against_is_named(concepts: list[Path], tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"did you mean 'model\.concepts_per_dialogue'"):
        points(concepts, "model.concepts_per_dialog")
    with pytest.raises(SettingsError, match=r"model\.lexicon must be a number to be drawn against, not 'warriner'"):
        points(concepts, "model.lexicon")
    with pytest.raises(MissingError, match="its settings are not known"):
        settings(tmp_path)
    assert (
        settings(concepts[0])["training.batch_size"]
        == yaml.safe_load(load_recipe("kemp").dump())["training"]["batch_size"]
    )
