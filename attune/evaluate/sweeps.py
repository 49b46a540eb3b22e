"""Runs that differ in one setting of their recipes: what a metric does when the setting grows (seed 001, Figure 5)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from statistics import mean, stdev
from typing import Any

import yaml

from attune.errors import DataError, MissingError, SettingsError, did_you_mean
from attune.evaluate.metrics import METRICS
from attune.evaluate.scores import CONFIG, SCORES, Scores
from attune.evaluate.tables import Table, cell, clash
from attune.train.recipes import load_recipe

Point = tuple[float, Scores]  # a value of the setting, and the scores of the run that has it
# Settings that do not decide what is learnt. Nor, as far as can be seen, do products in 16 bits: attune's `first` has 18.024 on validation
# with them, and the weights of `averaged` themselves 18.026 without. The same run is so often trained in full on one machine, and in bf16 on another.
ASIDE = {"training.checkpoint_every", "training.tensorboard", "training.precision"}
SEED = "training.seed"


def settings(folder: str | Path) -> dict[str, Any]:
    """The recipe that a run or results folder was made by, with `section.key` for keys.

    >>> from attune.files import atomic_write
    >>> import tempfile
    >>> folder = tempfile.mkdtemp()
    >>> with atomic_write(Path(folder) / "config.yaml") as file:
    ...     _ = file.write("system: kemp\\nmodel: {heads: 2, copy: false}\\n")
    >>> settings(folder)
    {'system': 'kemp', 'model.heads': 2, 'model.copy': False}
    """
    path = Path(folder) / CONFIG
    try:
        found = yaml.safe_load(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise MissingError(f"no {path}: its settings are not known") from None
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise DataError(f"{path}: cannot be read as settings ({' '.join(str(error).split())})") from None
    if not isinstance(found, dict):
        raise DataError(f"{path}: expected keys and values, found {type(found).__name__}")
    flat: dict[str, Any] = {}
    for key, value in found.items():
        flat |= {f"{key}.{name}": one for name, one in value.items()} if isinstance(value, dict) else {key: value}
    return flat


def points(folders: Sequence[str | Path], key: str) -> list[Point]:
    """The runs by the value that each has for `key`, lowest first."""
    found = []
    for folder in folders:
        known = settings(folder)
        if key not in known:
            raise SettingsError(f"{Path(folder) / CONFIG}: {did_you_mean(key, known, 'setting')}")
        value = known[key]
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise SettingsError(f"{Path(folder) / CONFIG}: {key} must be a number to be drawn against, not {value!r}")
        found.append((float(value), Scores.read(folder)))
    return sorted(found, key=lambda point: point[0])


def sweeps(results: str | Path, key: str, system: str | None = None) -> list[list[Point]]:
    """The results on the test split that differ in `key` and in nothing else: each group of two or more values.

    Of one system, or of all. A run that was written before the program gained a setting has that setting's default.
    """
    groups: dict[str, list[Path]] = {}
    for path in sorted(Path(results).glob(f"*/{SCORES}")):
        config, scores = path.parent / CONFIG, Scores.read(path.parent)
        if not config.is_file() or system not in (None, scores.system) or scores.signature.split != "test":
            continue
        known = load_recipe(str(config)).settled()
        if key in known:
            rest = {name: value for name, value in known.items() if name != key and name not in ASIDE}
            groups.setdefault(repr((scores.protocol, sorted(rest.items()))), []).append(path.parent)
    found = (points(group, key) for group in groups.values() if len(group) > 1)
    return [group for group in found if len({value for value, _ in group}) > 1]


def sweep_table(found: Sequence[Point], key: str, metrics: Sequence[str]) -> Table:
    """One row a value; metrics that the runs have, and that were taken alike."""
    scores = [one for _, one in found]
    shown = [
        name for name in metrics if any(one.value(name) is not None for one in scores) and clash(scores, name) is None
    ]
    rows = [
        [f"{value:g}", one.title, *(cell(one.metrics.get(name), METRICS[name].digits) for name in shown)]
        for value, one in found
    ]
    return Table([key.rpartition(".")[2], "run", *(METRICS[name].title for name in shown)], rows)


def seed_table(groups: Sequence[Sequence[Point]], metrics: Sequence[str]) -> Table:
    """One row a group of runs that differ in the seed: the mean of each metric ± its standard deviation."""
    shown = [name for name in metrics if any(one.value(name) is not None for group in groups for _, one in group)]
    rows = []
    for group in groups:
        values = {name: [value for _, one in group if (value := one.value(name)) is not None] for name in shown}
        cells = [
            f"{mean(values[name]):.{METRICS[name].digits}f} ± {stdev(values[name]):.{METRICS[name].digits}f}"
            if len(values[name]) == len(group)
            else "–"
            for name in shown
        ]
        rows.append([group[0][1].title, ", ".join(f"{seed:g}" for seed, _ in group), *cells])
    return Table(["run", "seeds", *(METRICS[name].title for name in shown)], rows)
