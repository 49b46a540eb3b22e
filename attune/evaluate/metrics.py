"""The registry of metrics, and how a set of outputs is measured by all of them at once.

A metric is one object in one file plus one line in the table below. It says what it needs of every item, which way is
better, how it is put together from replies, and which fields of a signature two scores must share to stand in one column.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import numpy as np

from attune.errors import AttuneError, MissingError
from attune.evaluate.intervals import RESAMPLES, Combine, Score, bootstrap
from attune.evaluate.outputs import Outputs
from attune.parts import locate
from attune.registry import Registry

SAME_ITEMS = frozenset({"protocol", "split", "n"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """What every metric says of itself."""

    name: str
    title: str
    about: str
    needs: frozenset[str]
    better: Literal["higher", "lower", "neither"] = "higher"
    agree: frozenset[str] = SAME_ITEMS
    digits: int = 2
    aggregation: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Summed(Metric):
    """A function of sums over replies (accuracy, perplexity, corpus BLEU); its interval is a bootstrap's.

    `statistics` makes a table [replies, k]; `combine` makes a value of the sums of its columns.
    """

    statistics: Callable[[Outputs], np.ndarray]
    combine: Combine
    signature: Callable[[Outputs], str] | None = None  # of the library or model that computes it
    aggregation: str = "function of sums over replies"


@dataclass(frozen=True, slots=True, kw_only=True)
class Whole(Metric):
    """A metric of all replies together that brings its own interval (dist-n); it also gets the seed."""

    measure: Callable[[Outputs, int], Score]
    aggregation: str = "all replies together"


METRICS: Registry[Metric] = Registry(
    "metric",
    {
        "accuracy": "attune.evaluate.labels:ACCURACY",
        "emotion_accuracy": "attune.evaluate.emotions:ACCURACY",
        "emotion_precision": "attune.evaluate.emotions:PRECISION",
        "emotion_recall": "attune.evaluate.emotions:RECALL",
        "emotion_f1": "attune.evaluate.emotions:F1",
        "ppl_token": "attune.evaluate.likelihood:PPL_TOKEN",
        "ppl_reply_macro": "attune.evaluate.likelihood:PPL_REPLY_MACRO",
        "ppl_word": "attune.evaluate.likelihood:PPL_WORD",
        "bits_per_byte": "attune.evaluate.likelihood:BITS_PER_BYTE",
        "ppl_gpt2_token": "attune.evaluate.likelihood:PPL_GPT2_TOKEN",
        "dist_1": "attune.evaluate.diversity:DIST_1",
        "dist_2": "attune.evaluate.diversity:DIST_2",
        "dist_1_at_1000": "attune.evaluate.diversity:DIST_1_AT_1000",
        "dist_2_at_1000": "attune.evaluate.diversity:DIST_2_AT_1000",
        "distinct_replies": "attune.evaluate.diversity:DISTINCT_REPLIES",
        "copied_replies": "attune.evaluate.diversity:COPIED_REPLIES",
        "mean_length": "attune.evaluate.diversity:MEAN_LENGTH",
        "avg_bleu": "attune.evaluate.overlap:AVG_BLEU",
        "sacrebleu": "attune.evaluate.overlap:SACREBLEU",
        "ses": "attune.evaluate.overlap:SES",
    },
)
# The order of tables; metrics that are added elsewhere follow by name.
ORDER = (
    "accuracy", "emotion_accuracy", "emotion_precision", "emotion_recall", "emotion_f1",
    "ppl_token", "ppl_reply_macro", "ppl_word", "bits_per_byte", "ppl_gpt2_token",
    "dist_1", "dist_2", "dist_1_at_1000", "dist_2_at_1000", "distinct_replies", "copied_replies", "mean_length",
    "avg_bleu", "sacrebleu", "ses",
)  # fmt: skip


def part_at_hand(name: str) -> Path:
    """A part that is there already: a metric never downloads (`attune setup` and `attune evaluate` do)."""
    try:
        return locate(name, fetch=False)
    except MissingError:
        raise MissingError(f"needs the part '{name}' (attune setup {name})") from None


def in_order(names: Iterable[str]) -> list[str]:
    """Metric names as tables show them."""
    place = {name: i for i, name in enumerate(ORDER)}
    return sorted(names, key=lambda name: (place.get(name, len(place)), name))


def measure(
    outputs: Outputs, names: Iterable[str] | None = None, *, resamples: int = RESAMPLES, seed: int = 0
) -> tuple[dict[str, Score], list[str]]:
    """Scores of all metrics (or of those named), and notes on those that could not be computed.

    >>> from attune.evaluate.outputs import Item
    >>> scores, notes = measure(Outputs([Item(prediction="oh no !"), Item(prediction="oh !")]), ["dist_1", "ppl_token"])
    >>> scores["dist_1"].value, scores["ppl_token"].value, notes
    (60.0, None, ["ppl_token: 2 of 2 items have no 'nll'"])
    """
    scores: dict[str, Score] = {}
    absent: dict[str, list[str]] = {}  # why → the metrics that it concerns
    summed: list[tuple[Summed, np.ndarray]] = []
    for name in in_order(METRICS if names is None else names):
        metric = METRICS[name]
        scores[name] = Score(None)
        why = next(filter(None, map(outputs.lacks, sorted(metric.needs))), None)
        if why is None:
            try:
                if isinstance(metric, Summed):
                    summed.append((metric, metric.statistics(outputs)))
                elif isinstance(metric, Whole):
                    scores[name] = metric.measure(outputs, seed)
            except AttuneError as error:  # a part or package that is not there
                why = str(error)
        if why:
            absent.setdefault(why, []).append(name)
    if summed:
        found = bootstrap([table for _, table in summed], [metric.combine for metric, _ in summed], resamples, seed)
        for (metric, _), score in zip(summed, found, strict=True):
            scores[metric.name] = replace(score, signature=metric.signature(outputs) if metric.signature else None)
    return scores, [f"{', '.join(concerned)}: {why}" for why, concerned in absent.items()]
