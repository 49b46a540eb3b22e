"""The run whose weights a training begins with: one that is there, or a variant of the same system that is trained first."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from attune.errors import MissingError, SettingsError
from attune.train.recipes import Recipe, load_recipe, variants
from attune.train.report import tell


def start_place(recipe: Recipe, run: Path) -> Path | None:
    """Where that run is; a variant's is beside `run`, named as `attune train` names it."""
    named = recipe.training.start
    if named is None or named not in variants(recipe.system):
        return None if named is None else Path(named)
    return run.with_name(f"{recipe.system}-{named}")


def ready_start(recipe: Recipe, data: str | Path, run: Path) -> Path | None:
    """That run, finished. A variant is trained now, or gone on with, unless it is finished; then it is left as it is."""
    from attune.train.trainer import train

    named, place = recipe.training.start, start_place(recipe, run)
    if named is None or place is None:
        return None
    finished = (place / "summary.json").is_file()
    if named in (known := variants(recipe.system)):
        if place.resolve() == run.resolve():
            raise SettingsError(
                f"--out {run} is where the variant {named} is trained first (training.start); choose another --out"
            )
        given = [f"text.perceiver={recipe.text.perceiver}"] if recipe.text.perceiver else []
        first = load_recipe(recipe.system, named, given)
        if not finished:
            tell(f"{place}: trained first, since {run} begins with its weights")
            train(first, None if first.training.corpus else data, place)
        elif _what_counts(load_recipe(str(place / "config.yaml"))) != _what_counts(first):
            raise SettingsError(
                f"{place} is not the variant {named} as its recipe has it (see {place / 'config.yaml'}); choose another "
                f"--out, or --set training.start={place} to begin with it all the same"
            )
    elif not finished:
        raise MissingError(
            f"training.start: no finished run at {place}; a variant is trained first: {', '.join(known)}"
        )
    tell(f"{run} begins with the weights of {place}")
    return place


def _what_counts(recipe: Recipe) -> dict[str, Any]:
    """What a run's weights depend on: not its words, nor where the runs before it lie."""
    return recipe.model_dump(exclude={"about": True, "decoding": True, "text": {"perceiver"}, "training": {"start"}})
