"""How often the emotion is recognised: accuracy, and precision, recall and F1 weighted by how often a label is right.

One vote per example, in percent, over the 32 emotions. Weighted recall is accuracy by definition; it stands
beside the others because papers print all three.
"""

from __future__ import annotations

import numpy as np

from attune.emotion.taxonomy import EMOTION_ID, EMOTIONS
from attune.evaluate.metrics import Summed
from attune.evaluate.outputs import Outputs

_NEEDS = frozenset({"emotion", "predicted_emotion"})
_K = len(EMOTIONS)


def confusion(outputs: Outputs) -> np.ndarray:
    """Counts [32 gold, 32 predicted]."""
    gold, predicted = _ids(outputs)
    return np.bincount(gold * _K + predicted, minlength=_K * _K).reshape(_K, _K)


def _ids(outputs: Outputs) -> tuple[np.ndarray, np.ndarray]:
    pairs = [(EMOTION_ID[item.emotion or ""], EMOTION_ID[item.predicted_emotion or ""]) for item in outputs.items]
    gold, predicted = np.array(pairs, dtype=np.int64).reshape(-1, 2).T
    return gold, predicted


def _correct(outputs: Outputs) -> np.ndarray:
    gold, predicted = _ids(outputs)
    return np.stack([gold == predicted, np.ones(len(gold))], 1).astype(float)


def _per_class(outputs: Outputs) -> np.ndarray:
    """[n, 96]: for each class whether this item was found right, was predicted, is gold."""
    gold, predicted = _ids(outputs)
    one = np.eye(_K)
    return np.concatenate([one[gold] * (gold == predicted)[:, None], one[predicted], one[gold]], axis=1)


def _weighted(sums: np.ndarray, which: str) -> np.ndarray:
    right, predicted, gold = np.split(sums, 3, axis=-1)
    precision = np.divide(right, predicted, out=np.zeros_like(right), where=predicted > 0)
    recall = np.divide(right, gold, out=np.zeros_like(right), where=gold > 0)
    both = precision + recall
    f1 = np.divide(2 * precision * recall, both, out=np.zeros_like(right), where=both > 0)
    chosen = {"precision": precision, "recall": recall, "f1": f1}[which]
    return np.asarray(100 * (chosen * gold).sum(-1) / gold.sum(-1))


ACCURACY = Summed(
    name="emotion_accuracy",
    title="accuracy",
    about="share of examples whose most probable emotion is the dialogue's label, in percent",
    needs=_NEEDS,
    statistics=_correct,
    combine=lambda sums: 100 * sums[..., 0] / sums[..., 1],
)
PRECISION = Summed(
    name="emotion_precision",
    title="precision",
    about="precision per emotion, weighted by its gold count, in percent",
    needs=_NEEDS,
    statistics=_per_class,
    combine=lambda sums: _weighted(sums, "precision"),
)
RECALL = Summed(
    name="emotion_recall",
    title="recall",
    about="recall per emotion, weighted by its gold count, in percent (equals accuracy)",
    needs=_NEEDS,
    statistics=_per_class,
    combine=lambda sums: _weighted(sums, "recall"),
)
F1 = Summed(
    name="emotion_f1",
    title="F1",
    about="F1 per emotion, weighted by its gold count, in percent",
    needs=_NEEDS,
    statistics=_per_class,
    combine=lambda sums: _weighted(sums, "f1"),
)
