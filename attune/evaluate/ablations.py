"""Trials: short trainings that differ in one thing, measured on validation. What each part of a system is worth.

A trial is a folder with the `config.yaml` and the `summary.json` of its run. `benchmarks/ablations.py` makes them.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from attune.errors import DataError, MissingError
from attune.evaluate.scores import BASE_VARIANTS
from attune.evaluate.sweeps import ASIDE, settings
from attune.evaluate.tables import Table
from attune.models import RECIPES

FOLDER = "ablations"  # in the results folder
SUMMARY = "summary.json"
# Settings of training that are tried like parts of a system.
TRIED = {"training.average", "training.start", "training.corpus"}


@dataclass(frozen=True, slots=True)
class Trial:
    """One short training: what it was, and its best validation figure."""

    system: str
    variant: str
    about: str
    metric: str
    value: float
    examples: int
    seconds: float
    training: tuple[tuple[str, Any], ...]
    """How it was trained: the same for all trials that may be compared."""
    plain: float | None = None
    """What the same training has without the mean of its weights, where that is what is tried: its own base."""

    @classmethod
    def read(cls, folder: str | Path) -> Trial:
        known, path = settings(folder), Path(folder) / SUMMARY
        try:
            summary = json.loads(path.read_text(encoding="utf-8"))
            metric = known["training.select"]
            return cls(
                known["system"],
                known["variant"],
                known["about"],
                metric,
                float(summary[f"best_valid_{metric}"]),
                int(summary["examples"]),
                float(summary["seconds"]),
                tuple(
                    sorted(
                        (name, str(value))
                        for name, value in known.items()
                        if name.startswith("training.") and name not in TRIED | ASIDE
                    )
                ),
                _plain(summary, metric),
            )
        except FileNotFoundError:
            raise MissingError(f"no {path}: the trial has not ended") from None
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise DataError(f"{path}: not the summary of a run ({type(error).__name__}: {error})") from None


def read_trials(results: str | Path) -> list[list[Trial]]:
    """The trials that may be compared, one group after another; in each, the base comes first, then the best."""
    groups: dict[tuple[Any, ...], list[Trial]] = {}
    for path in sorted(Path(results).glob(f"{FOLDER}/*/{SUMMARY}")):
        trial = Trial.read(path.parent)
        groups.setdefault((trial.system, trial.training), []).append(trial)
    return [
        sorted(group, key=lambda trial: (trial is not base, _loss(trial)))
        for group, base in ((group, base_of(group)) for group in groups.values() if len(group) > 1)
    ]


def base_of(group: Sequence[Trial]) -> Trial | None:
    """The trial that the others vary: of the base variant, or of the one that they name with `from` in the recipe."""
    known = yaml.safe_load((RECIPES / f"{group[0].system}.yaml").read_text(encoding="utf-8")).get("variants") or {}
    varied = {known.get(trial.variant, {}).get("from") for trial in group}
    return next((trial for trial in group if trial.variant in {*BASE_VARIANTS, *varied}), None)


def trial_table(group: Sequence[Trial]) -> Table:
    """One row a trial, with what it differs by from the base."""
    base, best = base_of(group), min(group, key=_loss)
    rows = []
    for trial in group:
        value = f"{trial.value:.3f}"
        before = trial.plain if trial.plain is not None else None if base in (None, trial) else base.value
        difference = "–" if before is None else f"{trial.value - before:+.3f}"
        shown = f"**{value}**" if trial is best else value
        rows.append([trial.variant, trial.about, shown, difference, f"{trial.examples:,}", f"{trial.seconds / 60:.0f}"])
    head = ["variant", "what it is", f"validation {group[0].metric}", "difference", "examples", "minutes"]
    return Table(head, rows)


def _plain(summary: dict[str, Any], metric: str) -> float | None:
    """The metric of the weights of the best step themselves, in a training that kept their mean."""
    rows = [row for row in summary.get("validation", []) if row["step"] == summary["best_step"]]
    return rows[-1].get(f"last_{metric}") if rows else None


def _loss(trial: Trial) -> float:
    return -trial.value if trial.metric.endswith("accuracy") else trial.value
