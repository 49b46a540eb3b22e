"""What a classifier keeps of its accuracy when it is exported in less and less space, on held-out utterances.

The first row is the run itself in torch. `agrees` is the share of utterances that get the label that the run gives, `calibration` how
far probabilities are from being right as often as they say (the expected error over ten bins). The test file is not read.

    python benchmarks/labelling.py RUN [--megabytes 1 2 4.7] [--texts 2000]
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from attune.dialogue.protocols import examples
from attune.dialogue.readers import read
from attune.generate.labeller import Label, Labeller
from attune.train.export import LABELLER_BYTES, export_labeller

BINS = 10


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("--megabytes", type=float, nargs="*", default=[LABELLER_BYTES / 1e6, 3, 2, 1])
    parser.add_argument("--texts", type=int, default=2000)
    given = parser.parse_args()
    if "ATTUNE_DATA" not in os.environ:
        sys.exit("set ATTUNE_DATA to the folder that holds empathetic_intents")
    corpus = Path(os.environ["ATTUNE_DATA"]) / "empathetic_intents" / "train_data"
    held_out = list(examples(read(corpus, split="valid"), "labelled-turns"))
    chosen = random.Random(0).sample(held_out, min(given.texts, len(held_out)))
    texts, gold = [example.response.text for example in chosen], [str(example.response.label) for example in chosen]
    print(f"{'':10}{'MB':>8}{'accuracy':>10}{'agrees':>8}{'calibration':>13}{'ms a text':>11}   ({len(texts)} texts)")
    reference = row("the run", Labeller.open(given.run), given.run / "model.safetensors", texts, gold)
    with tempfile.TemporaryDirectory() as folder:
        for size in given.megabytes:
            out = Path(folder) / str(size)
            export_labeller(given.run, out, int(size * 1e6))
            row("exported", Labeller.open(out), out / "model.safetensors", texts, gold, reference)


def row(
    name: str,
    labeller: Labeller,
    weights: Path,
    texts: Sequence[str],
    gold: Sequence[str],
    reference: Sequence[Label] | None = None,
) -> list[Label]:
    started = time.perf_counter()
    found = labeller.label(texts)
    took = 1000 * (time.perf_counter() - started) / len(texts)
    same = np.mean([one.label == other.label for one, other in zip(found, reference or found, strict=True)])
    right = np.array([one.label == label for one, label in zip(found, gold, strict=True)])
    error = calibration(np.array([one.probability for one in found]), right)
    size = weights.stat().st_size / 1e6
    print(f"{name:10}{size:8.2f}{100 * right.mean():10.2f}{100 * same:8.2f}{error:13.3f}{took:11.1f}", flush=True)
    return found


def calibration(probabilities: np.ndarray, right: np.ndarray) -> float:
    """How far the mean probability of a bin is from the share that is right in it, over all bins.

    >>> calibration(np.array([0.9, 0.9, 0.1, 0.1]), np.array([True, True, False, False]))
    0.1
    """
    bins = np.minimum((probabilities * BINS).astype(int), BINS - 1)
    gaps = [abs((probabilities - right)[bins == one].sum()) for one in range(BINS)]
    return round(float(sum(gaps)) / len(right), 4)


if __name__ == "__main__":
    main()
