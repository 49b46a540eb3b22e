"""A scored set of outputs: what was scored, how, and the numbers. `scores.json` is this and nothing else."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import attune
from attune.dialogue.protocols import PROTOCOLS
from attune.errors import DataError, MissingError
from attune.evaluate.emotions import confusion
from attune.evaluate.intervals import Score
from attune.evaluate.metrics import in_order, measure
from attune.evaluate.outputs import Item, Outputs, join, read_outputs, training_responses
from attune.evaluate.signature import Signature
from attune.files import atomic_write

OUTPUTS = "outputs.jsonl.gz"
SCORES = "scores.json"
CONFIG = "config.yaml"
BASE_VARIANTS = (None, "paper", "default")  # a recipe's base variant goes without saying


@dataclass(frozen=True, slots=True)
class Scores:
    """Everything `scores.json` holds. `confusion` is [32 gold][32 predicted] in the order of EMOTIONS."""

    system: str
    signature: Signature
    metrics: dict[str, Score]
    protocol: str = "listener-turns"
    variant: str | None = None
    oracle: bool = False
    confusion: list[list[int]] | None = None
    notes: list[str] = field(default_factory=list)

    @property
    def title(self) -> str:
        """system[-variant], as people say it."""
        return f"{self.system}-{self.variant}" if self.variant not in BASE_VARIANTS else self.system

    def value(self, metric: str) -> float | None:
        score = self.metrics.get(metric)
        return score.value if score else None

    def json(self) -> str:
        """The text of `scores.json`: one line a metric, so that a change is easy to see."""
        head = {
            "system": self.system,
            "variant": self.variant,
            "protocol": self.protocol,
            "split": self.signature.split,
            "n": self.signature.n,
            "seed": self.signature.seed,
            "oracle": self.oracle,
            "signature": str(self.signature),
        }
        lines = [f"  {json.dumps(key)}: {json.dumps(value, ensure_ascii=False)}" for key, value in head.items()]
        metrics = [
            f"    {json.dumps(name)}: {json.dumps(self.metrics[name].json())}" for name in in_order(self.metrics)
        ]
        lines.append('  "metrics": {\n' + ",\n".join(metrics) + "\n  }")
        if self.confusion is not None:
            rows = ",\n".join(f"    {json.dumps(row, separators=(',', ':'))}" for row in self.confusion)
            lines.append(f'  "confusion": [\n{rows}\n  ]')
        lines.append(f'  "notes": {json.dumps(self.notes, ensure_ascii=False)}')
        return "{\n" + ",\n".join(lines) + "\n}\n"

    def flat(self) -> dict[str, Any]:
        """What `attune score --json` prints: `n`, every metric's value by name, `intervals`, `signature`, `notes`."""
        found = {name: self.metrics[name].json() for name in in_order(self.metrics)}
        return {
            "n": self.signature.n,
            **{name: score["value"] for name, score in found.items()},
            "signature": str(self.signature),
            "intervals": {name: [s["low"], s["high"]] for name, s in found.items() if s["low"] is not None},
            "library_signatures": {name: s["signature"] for name, s in found.items() if "signature" in s},
            "notes": self.notes,
        }

    def write(self, folder: Path) -> None:
        with atomic_write(folder / SCORES) as file:
            file.write(self.json())

    @classmethod
    def read(cls, folder: str | Path) -> Scores:
        """The scores in a run or results folder."""
        path = Path(folder) / SCORES
        try:
            found = json.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise MissingError(f"no scores at {path}; make them first: attune evaluate {folder}") from None
        except (OSError, ValueError) as error:
            raise DataError(f"{path}: cannot be read as scores ({error})") from None
        try:
            return cls(
                system=found["system"],
                signature=Signature.parse(found["signature"]),
                metrics={name: _score(score) for name, score in found["metrics"].items()},
                protocol=found["protocol"],
                variant=found["variant"],
                oracle=found["oracle"],
                confusion=found.get("confusion"),
                notes=found.get("notes", []),
            )
        except (KeyError, TypeError, AttributeError) as error:
            raise DataError(f"{path}: is not a scores file (bad or missing {error})") from None


def score_items(
    items: Sequence[Item],
    signature: Signature,
    *,
    system: str = "given",
    variant: str | None = None,
    protocol: str = "listener-turns",
    oracle: bool = False,
    training: frozenset[str] | None = None,
) -> Scores:
    """Measure items by every metric; the signature's item count, and a split it does not know, are filled in."""
    outputs = Outputs(items, text_form=signature.text, training=training)
    metrics, notes = measure(outputs)
    counted = not outputs.lacks("emotion") and not outputs.lacks("predicted_emotion")
    return Scores(
        system=system,
        signature=replace(signature, n=len(items), attune=attune.__version__),
        metrics=metrics,
        protocol=protocol,
        variant=variant,
        oracle=oracle,
        confusion=confusion(outputs).tolist() if counted else None,
        notes=notes,
    )


def score_file(path: str | Path, *, data: str | Path | None = None, train: str | Path | None = None) -> Scores:
    """Score a file of outputs, ours or other people's.

    `data`, a corpus folder, gives references and emotions by `id`, and the training responses that replies may be
    copied from; `train` names another corpus for the latter. A file that stands in a results folder keeps the
    signature that its `scores.json` tells.
    """
    path = Path(path)
    items = read_outputs(path)
    split, protocol = "given", None
    if data is not None:
        items, split, protocol = join(items, data)
    known = train if train is not None else data
    training = training_responses(known) if known is not None else None
    if path.name == OUTPUTS and (path.parent / SCORES).is_file():
        told = Scores.read(path.parent)
        return score_items(
            items,
            told.signature,
            system=told.system,
            variant=told.variant,
            protocol=told.protocol,
            oracle=told.oracle,
            training=training,
        )
    signature = Signature(str(PROTOCOLS[protocol]) if protocol else "given", split, len(items))
    return score_items(items, signature, system=path.name, protocol=protocol or "given", training=training)


def _score(found: Any) -> Score:
    if isinstance(found, dict):
        return Score(found["value"], found.get("low"), found.get("high"), found.get("signature"))
    return Score(found)
