"""How much each opinion should count in what `attune` perceives: emotion accuracy on validation, share by share.

A row is a share of the decoder in all, a column a share of the words by themselves in the perceiver's part. All opinions are
taken once; what was perceived in earlier turns is read as it is with the run's own shares. The test split is not read.

    python benchmarks/perceiving.py RUN [--turns 1500]
"""

from __future__ import annotations

import argparse
import os
import random
import sys
from pathlib import Path

import numpy as np

from attune.dialogue.protocols import examples
from attune.dialogue.readers import read
from attune.emotion.opinions import together
from attune.emotion.taxonomy import EMOTION_ID
from attune.generate.systems import open_system

BATCH = 250


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run")
    parser.add_argument("--turns", type=int, default=1500)
    given = parser.parse_args()
    if "ATTUNE_DATA" not in os.environ:
        sys.exit("set ATTUNE_DATA to the folder that holds empathetic_dialogues")
    controls = getattr(open_system(given.run), "controls", None)
    if controls is None or controls.ear is None:
        sys.exit(f"{given.run} has one opinion only")
    held_out = [
        example
        for example in examples(read(Path(os.environ["ATTUNE_DATA"]) / "empathetic_dialogues", split="valid"))
        if example.emotion in EMOTION_ID
    ]
    chosen = random.Random(0).sample(held_out, min(given.turns, len(held_out)))
    contexts = [example.context for example in chosen]
    gold = np.array([EMOTION_ID[str(example.emotion)] for example in chosen])
    seen, wording = controls.perceiver.seen(contexts), controls.perceiver.wording
    words = np.arange(0, 0.71, 0.1) if wording else np.zeros(1)
    told = wording.perceive(contexts) if wording else seen
    heard = []
    for start in range(0, len(contexts), BATCH):
        heard.append(controls.ear(contexts[start : start + BATCH], controls))
        print(f"\r{min(start + BATCH, len(contexts))} of {len(contexts)} turns", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    said = np.concatenate(heard)
    print(f"{len(gold)} turns; words: " + "".join(f"{part:8.1f}" for part in words))
    for share in np.arange(0, 1.01, 0.1):
        found = [together(together(seen, told, part), said, share).argmax(-1) == gold for part in words]
        print(f"{'decoder':>14} {share:3.1f}: " + "".join(f"{100 * right.mean():8.2f}" for right in found))


if __name__ == "__main__":
    main()
