from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from attune.errors import AttuneError, SettingsError
from attune.models import RECIPES, SYSTEMS
from attune.train.recipes import load_recipe, merge, variants

EVERY = [(file.stem, variant) for file in sorted(RECIPES.glob("*.yaml")) for variant in variants(file.stem)]


@pytest.mark.parametrize(("system", "variant"), EVERY)
def test_every_variant_of_every_recipe_is_valid_and_says_what_it_is(system: str, variant: str) -> None:
    recipe = load_recipe(system, variant)
    assert (recipe.system, recipe.variant) == (system, variant)
    assert recipe.about
    assert load_recipe_text(recipe.dump()) == recipe.model_dump(mode="json")


@pytest.mark.parametrize(("system", "variant"), EVERY)
def test_every_variant_begins_anew_or_leads_back_to_one_that_does(system: str, variant: str) -> None:
    led: list[str | None] = [variant]
    while (start := load_recipe(system, led[-1]).training.start) is not None:
        assert start in variants(system), "a recipe knows no folder of anybody's machine"
        assert start not in led
        led.append(start)
    assert load_recipe(system, variant).text.perceiver in (None, *variants("perceiver"))


def load_recipe_text(text: str) -> object:
    return yaml.safe_load(text)


def test_a_dumped_recipe_is_a_recipe(tmp_path: Path) -> None:
    recipe = load_recipe("emoprepend", "prepend-3", ["training.lr=0.5"])
    file = tmp_path / "mine.yaml"
    file.write_text(recipe.dump())
    assert load_recipe(str(file)) == recipe
    assert recipe.model["prepend_k"] == 3
    tuned = load_recipe("emoprepend", "tuned").model["dropout"]
    assert recipe.model["dropout"] == tuned > 0, "a variant on another starts from it"
    assert recipe.training.lr == 0.5


@pytest.mark.parametrize(
    ("sets", "expected"),
    [
        (["trainin.lr=1"], "did you mean 'training'"),
        (["training.batchsize=1"], "did you mean 'batch_size'"),
        (["training.batch_size=0"], "training.batch_size"),
        (["training.schedule=cosine"], "training.schedule"),
        (["training.select=accuracy"], "unknown measure 'accuracy'; did you mean 'emotion_accuracy'"),
        (["model.dropuot=0.1"], "did you mean 'dropout'"),
        (["model.heads=7"], "not divisible by 7"),
        (["model.norm=sideways"], "norm"),
        (["decoding.mod=beam"], "did you mean 'mode'"),
        (["decoding.mode=beam"], "beams"),
        (["training"], "section.key=value"),
    ],
)
def test_a_wrong_setting_is_found_when_the_recipe_is_read(sets: list[str], expected: str) -> None:
    with pytest.raises(SettingsError, match=expected):
        load_recipe("emoprepend", None, sets)


def test_unknown_names_get_a_suggestion(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="did you mean 'transformer'"):
        load_recipe("tranformer")
    with pytest.raises(SettingsError, match="did you mean 'tuned'"):
        load_recipe("transformer", "tunde")
    for text in ("- a list", "a: [", "system: nobody"):
        (tmp_path / "bad.yaml").write_text(text)
        with pytest.raises(AttuneError):
            load_recipe(str(tmp_path / "bad.yaml"))
    assert set(SYSTEMS) >= {"transformer", "emoprepend", "ed-generative"}


def test_merging_leaves_its_arguments_alone() -> None:
    base = {"a": {"x": 1}}
    assert merge(base, {"a": {"y": 2}, "b": 3}) == {"a": {"x": 1, "y": 2}, "b": 3}
    assert base == {"a": {"x": 1}}


@pytest.mark.parametrize(("written", "read"), [("1e-4", 1e-4), ("2.5E+1", 25.0), ("-3e2", -300.0), ("0.1", 0.1)])
def test_numbers_may_be_written_with_an_exponent(written: str, read: float) -> None:
    recipe = load_recipe("empdg", sets=[f"model.adversarial_lr={written}"])
    assert recipe.model["adversarial_lr"] == read
