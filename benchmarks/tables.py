"""Train and score every row of docs/RESULTS.md that `results/` lacks, several side by side; then write the page.

Each row is `attune train` and `attune evaluate`, as its commands stand on the page. A row that is there is left alone, and a training
that was interrupted goes on, so this may be called until all are there. A row whose recipe has other settings by now is trained anew.
Where the tables stand is `docs/RESULTS.md`; what each run printed is `runs/NAME.log`.

    python benchmarks/tables.py [--rows kemp,empdg-tuned-seed-1,…] [--jobs 2] [--set key=value] [--list]

With `--jobs 2` on two cores each run has one: slower for one row, but faster for two. A `--set` is for all rows: `--set training.precision=bf16`
on processors that multiply in 16 bits.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from attune.evaluate.results import write_results
from attune.evaluate.scores import BASE_VARIANTS, CONFIG, SCORES
from attune.train.recipes import load_recipe


@dataclass(frozen=True, slots=True)
class Row:
    """One training, scored on test."""

    system: str
    variant: str
    seed: int = 0
    protocols: tuple[str, ...] = ("listener-turns",)

    @property
    def title(self) -> str:
        """What the run is called among the others: another seed is named."""
        return f"{self.variant}-seed-{self.seed}" if self.seed else self.variant

    @property
    def name(self) -> str:
        return self.system if self.title in BASE_VARIANTS else f"{self.system}-{self.title}"

    def folder(self, protocol: str) -> str:
        """Its results folder for a protocol."""
        return self.name if protocol == "listener-turns" else f"{self.name}-{protocol}"

    def sets(self, others: Sequence[str] = ()) -> list[str]:
        """The settings on top of the recipe."""
        return [*others, *([f"training.seed={self.seed}"] if self.seed else [])]

    def missing(self, results: Path, sets: Sequence[str] = ()) -> list[str]:
        """The protocols by which it has not been scored, or only by a recipe of before."""
        return [one for one in self.protocols if self.state(results / self.folder(one), sets) != "there"]

    def state(self, folder: Path, sets: Sequence[str] = ()) -> str:
        """What its results folder holds; the precision of a training does not part recipes."""
        if not (folder / SCORES).is_file():
            return "missing"
        any_precision = "training.precision=full"
        now = load_recipe(self.system, self.variant, [*self.sets(sets), any_precision])
        kept = load_recipe(str(folder / CONFIG), None, [any_precision])
        return "there" if kept.settled() == now.settled() else "of an earlier recipe"


BOTH = ("listener-turns", "feedback")  # EmpDG's own test set too
ROWS = (
    *(Row(system, "paper") for system in ("transformer", "emoprepend", "moel", "mime")),
    Row("empdg", "paper", protocols=BOTH),
    Row("kemp", "paper"),
    *(Row(system, "tuned") for system in ("emoprepend", "ed-generative", "moel", "mime")),
    Row("empdg", "tuned", protocols=BOTH),
    Row("kemp", "tuned"),
    *(Row("kemp", f"tuned-{without}") for without in ("wo-ece", "wo-edd")),  # seed 001, Table 3
    *(Row("empdg", f"tuned-{without}", protocols=BOTH) for without in ("wo-g", "wo-d")),  # seed 004, Table 2
    *(Row("kemp-lm", variant) for variant in ("packaged", "bare")),  # seed 001, Table 5
    *(Row("kemp", f"tuned-concepts-{count}") for count in (0, 5, 20)),  # seed 001, Figure 5
    *(Row(system, "tuned", seed) for seed in (1, 2) for system in ("kemp", "empdg")),
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--rows", help="names of results folders; by default all that are missing, in the tables' order"
    )
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--runs", type=Path, default=Path("runs"))
    parser.add_argument("--results", type=Path, default=Path("results"))
    parser.add_argument("--set", action="append", default=[], help="a setting of every training: section.key=value")
    parser.add_argument("--list", action="store_true", help="say what is there and what is missing, and train nothing")
    given = parser.parse_args()
    if given.list:
        for row in ROWS:
            for protocol in row.protocols:
                print(f"{row.folder(protocol):32}{row.state(given.results / row.folder(protocol), given.set)}")
        return
    wanted = chosen(given.rows.split(",") if given.rows else None, given.results, given.set)
    if not wanted:
        sys.exit("every row is there")
    if "ATTUNE_DATA" not in os.environ:
        sys.exit("set ATTUNE_DATA to the folder that holds the corpora")
    with ThreadPoolExecutor(given.jobs) as pool:
        ended = list(pool.map(lambda row: made(row, given.runs, given.results, given.jobs, given.set), wanted))
    write_results(given.results, readme="README.md")
    if not all(ended):
        sys.exit(1)


def chosen(names: list[str] | None, results: Path, sets: Sequence[str] = ()) -> list[Row]:
    """The rows of these names, in their order; without names, all that are missing."""
    if names is None:
        return [row for row in ROWS if row.missing(results, sets)]
    known = {row.name: row for row in ROWS}
    unknown = [name for name in names if name not in known]
    if unknown:
        sys.exit(f"no such row: {', '.join(unknown)}; there are {', '.join(known)}")
    return [known[name] for name in names if known[name].missing(results, sets)]


def made(row: Row, runs: Path, results: Path, jobs: int, sets: Sequence[str] = ()) -> bool:
    """Train a row's run unless it has ended, and score it by the protocols that are missing. Whether all went well."""
    run, attune = str(runs / row.name), [sys.executable, "-m", "attune.cli.main"]
    given = [part for one in row.sets(sets) for part in ("--set", one)]
    commands = [[*attune, "train", row.system, "--variant", row.variant, *given, "--out", run]]
    for protocol in row.missing(results, sets):
        asked = ["--protocol", protocol, "--variant", row.title, "--results", str(results)]
        commands.append([*attune, "evaluate", run, *asked])
    threads = str(max(1, (os.cpu_count() or 1) // jobs))
    runs.mkdir(parents=True, exist_ok=True)
    with (runs / f"{row.name}.log").open("a") as log:
        for command in commands:
            print(row.name, *command[3:], flush=True)
            environment = os.environ | {"OMP_NUM_THREADS": threads, "OMP_WAIT_POLICY": "PASSIVE"}
            if subprocess.run(command, env=environment, stdout=log, stderr=log).returncode:
                print(f"{row.name}: failed; see {log.name}", flush=True)
                return False
    return True


if __name__ == "__main__":
    main()
