"""What ranking several candidates brings, on held-out turns: diversity, closeness to the reference, length.

    one            the first candidate, as a stream says it
    best of N      the best of the first N candidates, by the weights of attune.generate.reranking.Weights
    without X      the best of all with one weight at zero: what that score is worth
    X doubled      the same with it twice as heavy

All rows choose among the same candidates, which are sampled once by the run's own decoding. What is generic is learnt from the
candidates to one half of the turns, and the other half is scored; --common keeps it for the run. The test split is not read.

    python benchmarks/reranking.py [RUN] [--count 8] [--turns 800] [--common FILE] [--json]
"""

from __future__ import annotations

import argparse
import json
import os
import random
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from attune.dialogue.protocols import examples
from attune.dialogue.readers import read
from attune.dialogue.text import normal_form
from attune.dialogue.types import Example
from attune.evaluate.metrics import measure
from attune.evaluate.outputs import Item, Outputs
from attune.generate.reranking import CommonPhrases, Reranker, Weights
from attune.generate.saying import Ask, Candidate
from attune.respond.agent import load

METRICS = ("dist_1", "dist_2", "avg_bleu", "ses", "mean_length")
WEIGHED = ("likelihood", "overlap", "similarity", "label", "generic", "repeats")
BATCH = 16


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", nargs="?", default="default")
    parser.add_argument("--count", type=int, default=8)
    parser.add_argument("--turns", type=int, default=800)
    parser.add_argument("--common", type=Path)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    if "ATTUNE_DATA" not in os.environ:
        sys.exit("set ATTUNE_DATA to the folder that holds empathetic_dialogues")
    agent = load(given.run, guard=False)
    if agent.speaker is None:
        sys.exit(f"{given.run} gives one reply only; there is nothing to rank")
    corpus = Path(os.environ["ATTUNE_DATA"]) / "empathetic_dialogues"
    held_out = list(examples(read(corpus, split="valid")))
    chosen = random.Random(0).sample(held_out, min(given.turns, len(held_out)))
    asks = [Ask(example.context, agent.system.controls.of([example.context])[0], given.count) for example in chosen]
    sampled: list[tuple[Ask, list[Candidate]]] = []
    for start in range(0, len(asks), BATCH):
        part = asks[start : start + BATCH]
        sampled += zip(part, agent.speaker.candidates(part), strict=True)
        print(f"\r{len(sampled)} of {len(asks)} turns", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    half = len(sampled) // 2
    common = CommonPhrases.learn(said.text for _, found in sampled[:half] for said in found)
    if given.common:
        common.save(given.common)
    labeller = agent.reranker.labeller
    rows = {
        name: scored([best(asked, Reranker(weights, labeller=labeller, common=common), count) for asked in sampled[half:]], chosen[half:])
        for name, weights, count in settings(given.count)
    }  # fmt: skip
    print(json.dumps(rows) if given.json else table(rows))


def settings(count: int) -> Iterator[tuple[str, Weights, int]]:
    """The rows: a name, the weights, how many candidates."""
    weights = Weights()
    yield "one", weights, 1
    for some in (2, 4, 8, 16):
        if some <= count:
            yield f"best of {some}", weights, some
    for name in WEIGHED:
        yield f"without {name}", replace(weights, **{name: 0.0}), count
        yield f"{name} doubled", replace(weights, **{name: 2 * asdict(weights)[name]}), count


def best(asked: tuple[Ask, Sequence[Candidate]], reranker: Reranker, count: int) -> str:
    """What is said."""
    ask, found = asked
    ranked = reranker.rank([(ask, found[:count])])[0]
    return ranked[0].text if ranked else ""


def scored(said: Sequence[str], meant: Sequence[Example]) -> dict[str, Any]:
    """The metrics of one row."""
    items = [
        Item(prediction=normal_form(text), text=text, reference=normal_form(example.response.text))
        for text, example in zip(said, meant, strict=True)
    ]
    scores, _ = measure(Outputs(items), METRICS, resamples=200)
    return {name: score.value for name, score in scores.items()}


def table(rows: dict[str, dict[str, Any]]) -> str:
    head = f"| {'choice':22} | " + " | ".join(f"{name:>9}" for name in METRICS) + " |"
    lines = [head, f"|{'-' * 24}|" + "|".join("-" * 11 for _ in METRICS) + "|"]
    for name, values in rows.items():
        cells = ("–" if values[key] is None else f"{values[key]:.3f}" for key in METRICS)
        lines.append(f"| {name:22} | " + " | ".join(f"{cell:>9}" for cell in cells) + " |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
