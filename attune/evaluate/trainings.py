"""How the training of a scored run went: from the `config.yaml` and `summary.json` that lie beside its scores."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from attune.errors import DataError
from attune.evaluate.ablations import SUMMARY
from attune.evaluate.sweeps import settings

WENT_ON = "went-on"
"""A training that began with the run's weights and found none better: its own config and summary."""
BEFORE = "before"
"""The training whose weights this one began with."""


def how_trained(folder: Path) -> str:
    """Sentences on a results folder: steps, the curve on validation, and what ended it. Nothing, if no summary is there."""
    if not (folder / SUMMARY).is_file():
        return ""
    text = "Training: " + " Gone on with from there, with other settings: ".join(map(_told, trainings(folder)))
    if (folder / WENT_ON / SUMMARY).is_file():
        if _summary(folder / WENT_ON)["best_step"]:
            raise DataError(f"{folder / WENT_ON}: it found better weights, so they are not the ones that were scored")
        text += f" Taken up again from these weights: {_told(folder / WENT_ON)}"
    return text


def trainings(folder: Path) -> list[Path]:
    """The folders that tell of the trainings that led to a run's weights, the first one first; the last is the run's own."""
    earlier = folder / BEFORE
    return [*trainings(earlier), folder] if (earlier / SUMMARY).is_file() else [folder]


def earlier_commands(folder: Path, name: str) -> list[str]:
    """The commands of the trainings before a results folder's own, the first one first, each to where the next one looks for it."""
    found: list[str] = []
    for this in reversed(trainings(folder)[1:]):
        start, before = settings(this).get("training.start"), settings(this / BEFORE)
        variant = before.get("variant")
        out = f"runs/{before.get('system')}-{variant}" if start in (None, variant) else start
        place = Path("results", name, (this / BEFORE).relative_to(folder)).as_posix()
        found.insert(0, f"attune train {place}/config.yaml --data DIR --out {out}")
    return found


def _told(folder: Path) -> str:
    known, summary = settings(folder), _summary(folder)
    measure = known.get("training.select", "ppl")
    curve = [(point["step"], point[measure]) for point in summary["validation"] if measure in point]
    after = [step for step, _ in curve if step > summary["best_step"] and step > known.get("training.min_steps", 0)]
    ended = summary["ended"] or (
        f"early stopping: {len(after)} validations without a better one"
        if len(after) >= known.get("training.patience", 3)
        else "the end of its schedule"
    )
    return (
        f"{summary['steps']:,} steps, the best at {summary['best_step']:,}; `{measure}` on validation "
        f"{_figures(curve, measure)}; ended by {ended}."
    )


def _summary(folder: Path) -> dict[str, Any]:
    try:
        summary = json.loads((folder / SUMMARY).read_text(encoding="utf-8"))
        found = {key: summary[key] for key in ("steps", "best_step", "validation")}
        return found | {"ended": summary.get("ended")}  # by what, if it is none of the usual
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DataError(f"{folder / SUMMARY}: not the summary of a run ({error!r})") from None


def _figures(curve: Sequence[tuple[int, float]], measure: str) -> str:
    """The curve with its steps: `50.4 (2,516), 41.8 (5,032)`."""
    percent = measure.endswith("accuracy")
    return ", ".join(f"{100 * value if percent else value:.1f} ({step:,})" for step, value in curve)
