"""What each part of a system is worth: its variants, each trained for one epoch on the same part of the corpus, on validation.

Variants that begin with the weights of another run are left out unless they are named, since they have learnt more than the others. A variant that was
trained already is not trained again, and one that was interrupted goes on; so this may be called until all are there.
`attune results` puts them into docs/RESULTS.md. The test split is not read.

    python benchmarks/ablations.py [attune] [--variants first,bare,…] [--examples 10063] [--set key=value]

A `--set` is for all variants: `--set text.perceiver=runs/attune-first-perceiver` gives them all the perceiver of that run,
while without it each trains one of its own first.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
from pathlib import Path

from attune.evaluate.ablations import FOLDER, SUMMARY, read_trials, trial_table
from attune.evaluate.scores import CONFIG
from attune.train.recipes import load_recipe, variants
from attune.train.trainer import train


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("system", nargs="?", default="attune")
    parser.add_argument("--variants", help="by default those of the recipe that begin with no other run's weights")
    parser.add_argument("--examples", type=int, default=10_063, help="by default a quarter of EmpatheticDialogues")
    parser.add_argument("--runs", type=Path, default=Path("runs") / FOLDER)
    parser.add_argument("--results", type=Path, default=Path("results"))
    parser.add_argument("--set", action="append", default=[])
    given = parser.parse_args()
    if "ATTUNE_DATA" not in os.environ:
        sys.exit("set ATTUNE_DATA to the folder that holds the corpora")
    named = given.variants.split(",") if given.variants else comparable(given.system)
    for variant in named:
        name = f"{given.system}-{variant}"
        kept = given.results / FOLDER / name
        if (kept / SUMMARY).is_file():
            continue
        run = given.runs / name
        train(load_recipe(given.system, variant, [*short(given.examples), *given.set]), None, run)
        kept.mkdir(parents=True, exist_ok=True)
        for file in (CONFIG, SUMMARY):
            shutil.copyfile(run / file, kept / file)
    for group in read_trials(given.results):
        print(trial_table(group).markdown())


def comparable(system: str) -> list[str]:
    """The variants that begin with fresh weights and learn from the same corpus."""
    recipes = {variant: load_recipe(system, variant) for variant in variants(system)}
    return [name for name, one in recipes.items() if not one.training.start and not one.training.corpus]


def short(examples: int) -> list[str]:
    """What makes a recipe a trial: few examples, one epoch, one validation at its end."""
    return [f"training.limit={examples}", "training.epochs=1", "training.warmup=25", "training.validate_every=1000000"]


if __name__ == "__main__":
    main()
