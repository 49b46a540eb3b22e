"""What ranking several candidates brings, on held-out turns: diversity, closeness to the reference, length.

    one            the first candidate, as a stream says it
    best of N      the best of the first N candidates, by the weights of attune.generate.reranking.Weights
    without X      the best of all with one weight at zero: what that score is worth
    X doubled      the same with it twice as heavy
    fitted         by weights that were fitted: to how close a candidate is to what a person said
    reaction w     the best of all with a further score, of weight w: how warmly the speaker would react (--reaction)

All rows choose among the same candidates, which are sampled once by the run's own decoding (--keep leaves them in a file, or takes
them from it). What is generic, and the fitted weights, are learnt from one half of the turns, and the other half is scored;
--common keeps the former for the run. How a speaker reacts is learnt from so many training turns as --reaction says: the valence of
what was said next, from the vectors of context and reply. The test split is not read.

    python benchmarks/reranking.py [RUN] [--count 8] [--turns 800] [--temperature 1.0] [--keep FILE] [--common FILE] [--reaction N] [--json]
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

import numpy as np

from attune.dialogue.protocols import examples
from attune.dialogue.readers import read
from attune.dialogue.text import normal_form, normalise
from attune.dialogue.types import Context, Example
from attune.emotion.lexicons import load_vad
from attune.evaluate.metrics import measure
from attune.evaluate.outputs import Item, Outputs
from attune.generate.reranking import CommonPhrases, Encoding, Ranked, Reranker, Weights
from attune.generate.saying import Ask, Candidate
from attune.knowledge.stopwords import STOP_WORDS
from attune.respond.agent import Agent, load

METRICS = ("dist_1", "dist_2", "avg_bleu", "ses", "mean_length")
WEIGHED = ("likelihood", "overlap", "similarity", "consensus", "label", "generic", "repeats")
BATCH = 16
RIDGE = 1e-3  # of a fitted weight, per candidate
REACTIONS = (0.25, 0.5, 1.0)  # weights of the foretold reaction
REACTION_RIDGE = 3e-3
MIDDLE = 0.5  # of valence

Sampled = list[tuple[Ask, list[Candidate]]]
Scored = list[list[Ranked]]  # of each turn, its candidates


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", nargs="?", default="default")
    parser.add_argument("--count", type=int, default=8)
    parser.add_argument("--turns", type=int, default=800)
    parser.add_argument(
        "--temperature", type=float, default=1.0, help="of sampling; the rest of the run's decoding stays"
    )
    parser.add_argument("--keep", type=Path)
    parser.add_argument("--common", type=Path)
    parser.add_argument("--reaction", type=int, default=0, help="turns of training to learn reactions from; 0: none")
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
    decoding = replace(agent.system.decoding, temperature=given.temperature)
    asks = [
        Ask(example.context, agent.system.controls.of([example.context])[0], given.count, decoding=decoding)
        for example in chosen
    ]
    sampled = sample(agent, asks, given.keep)
    half = len(sampled) // 2
    common = CommonPhrases.learn(said.text for _, found in sampled[:half] for said in found)
    if given.common:
        common.save(given.common)
    reranker = Reranker(labeller=agent.reranker.labeller, common=common)
    fitted = fit(reranker.rank(sampled[:half]), chosen[:half], reranker.encoder)
    by_count = {
        count: reranker.rank([(ask, found[:count]) for ask, found in sampled[half:]])
        for count in (1, 2, 4, 8, 16)
        if count <= given.count
    }
    rows = {
        name: scored([best(found, weights) for found in by_count[count]], chosen[half:])
        for name, weights, count in settings(max(by_count), fitted)
    }
    weighed = {name: round(value, 2) for name, value in asdict(fitted).items() if name in WEIGHED}
    known: dict[str, Any] = {"fitted": weighed}
    if given.reaction:
        reaction = Reaction.fit(list(examples(read(corpus, split="train")))[: given.reaction], needed(reranker.encoder))
        known["reaction: correlation with the valence of what validation's speakers said next"] = round(
            reaction.checked(held_out), 3
        )
        reacted = reaction.added(by_count[max(by_count)], chosen[half:])
        for weight in REACTIONS:
            replies = [best(found, Weights(), reaction=weight) for found in reacted]
            rows[f"reaction {weight:g}"] = scored(replies, chosen[half:])
    told = "\n".join(f"{name}: {value}" for name, value in known.items())
    print(json.dumps({**known, "rows": rows}) if given.json else f"{told}\n\n{table(rows)}")


class Reaction:
    """How warmly a speaker would react to a reply, foretold by ridge regression; 1 is a standard deviation of what it foretells."""

    def __init__(self, encoder: Encoding, weights: np.ndarray, scale: float) -> None:
        self.encoder, self.weights, self.scale = encoder, weights, scale

    @classmethod
    def fit(cls, seen: Sequence[Example], encoder: Encoding) -> Reaction:
        """From turns whose feedback is known."""
        seen, warmth = reacted(seen)
        found = cls(encoder, np.zeros(0), 1.0)
        x = found._features([example.context for example in seen], [example.response.text for example in seen])
        found.weights = np.linalg.solve(x.T @ x + REACTION_RIDGE * len(x) * np.eye(x.shape[1]), x.T @ (warmth - MIDDLE))
        found.scale = float((x @ found.weights).std()) or 1.0
        return found

    def foretold(self, contexts: Sequence[Context], replies: Sequence[str]) -> np.ndarray:
        """One number a reply."""
        return self._features(contexts, replies) @ self.weights / self.scale

    def checked(self, seen: Sequence[Example]) -> float:
        """The correlation of what it foretells with how people reacted."""
        seen, warmth = reacted(seen)
        told = self.foretold([example.context for example in seen], [example.response.text for example in seen])
        return float(np.corrcoef(told, warmth)[0, 1])

    def added(self, ranked: Scored, meant: Sequence[Example]) -> Scored:
        """The candidates with this score too."""
        contexts = [example.context for found, example in zip(ranked, meant, strict=True) for _ in found]
        told = iter(self.foretold(contexts, [one.text for found in ranked for one in found]).tolist())
        return [[one._replace(scores={**one.scores, "reaction": next(told)}) for one in found] for found in ranked]

    def _features(self, contexts: Sequence[Context], replies: Sequence[str]) -> np.ndarray:
        """[n, 3 d + 1]: the vectors of what the speaker said and of the reply, their product by components, and 1."""
        said = [" ".join(turn.text for turn in context if turn.role == "speaker") for context in contexts]
        distinct = list(dict.fromkeys([*said, *replies]))
        row = dict(zip(distinct, self.encoder.encode(distinct), strict=True))
        a, b = (np.array([row[text] for text in texts], dtype=np.float64) for texts in (said, replies))
        return np.concatenate([a, b, a * b * a.shape[1] ** 0.5, np.ones((len(a), 1))], axis=1)


def reacted(seen: Sequence[Example]) -> tuple[list[Example], np.ndarray]:
    """The examples whose feedback has words of known valence, and its mean."""
    lexicon, kept, warmth = load_vad(), [], []
    for example in seen:
        words = normalise(example.feedback.text) if example.feedback else []
        if known := [lexicon[word][0] for word in words if word in lexicon and word not in STOP_WORDS]:
            kept.append(example)
            warmth.append(float(np.mean(known)))
    return kept, np.array(warmth)


def needed(encoder: Encoding | None) -> Encoding:
    if encoder is None:
        sys.exit("the sentence encoder is not here: attune setup")
    return encoder


def sample(agent: Agent, asks: list[Ask], keep: Path | None) -> Sampled:
    """Candidates for each, out of the file if it has them."""
    if keep and keep.is_file():
        kept = [[Candidate(*one) for one in found] for found in json.loads(keep.read_text(encoding="utf-8"))]
        return list(zip(asks, kept, strict=True))
    assert agent.speaker is not None
    sampled: Sampled = []
    for start in range(0, len(asks), BATCH):
        part = asks[start : start + BATCH]
        sampled += zip(part, agent.speaker.candidates(part), strict=True)
        print(f"\r{len(sampled)} of {len(asks)} turns", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    if keep:
        keep.write_text(json.dumps([found for _, found in sampled]), encoding="utf-8")
    return sampled


def fit(ranked: Scored, meant: Sequence[Example], encoder: Encoding | None) -> Weights:
    """The weights by which a candidate's scores, against the others', best tell its cosine with what a person said there."""
    encoder = needed(encoder)
    rows, targets = [], []
    for found, example in zip(ranked, meant, strict=True):
        if len(found) < 2:
            continue
        reference, *vectors = encoder.encode([example.response.text, *(one.text for one in found)])
        close = np.array([float(vector @ reference) for vector in vectors])
        values = np.array([[one.scores.get(name, 0.0) for name in WEIGHED] for one in found])
        rows.append(values - values.mean(axis=0))
        targets.append(close - close.mean())
    x, y = np.concatenate(rows), np.concatenate(targets)
    weights = np.linalg.solve(x.T @ x + RIDGE * len(x) * np.eye(len(WEIGHED)), x.T @ y)
    return replace(Weights(), **dict(zip(WEIGHED, (weights / np.abs(weights).max()).tolist(), strict=True)))


def settings(count: int, fitted: Weights) -> Iterator[tuple[str, Weights, int]]:
    """The rows: a name, the weights, how many candidates."""
    weights = Weights()
    yield "one", weights, 1
    for some in (2, 4, 8, 16):
        if some <= count:
            yield f"best of {some}", weights, some
    for name in WEIGHED:
        if value := asdict(weights)[name]:
            yield f"without {name}", replace(weights, **{name: 0.0}), count
            yield f"{name} doubled", replace(weights, **{name: 2 * value}), count
        else:
            yield f"with {name}", replace(weights, **{name: 1.0}), count
    for some in (4, 8, 16):
        if some <= count:
            yield f"fitted, best of {some}", fitted, some


def best(found: Sequence[Ranked], weights: Weights, **more: float) -> str:
    """What is said, by these weights and those of further scores."""
    worth = asdict(weights) | more
    values = [sum(worth[name] * value for name, value in one.scores.items()) for one in found]
    return found[int(np.argmax(values))].text if found else ""


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
