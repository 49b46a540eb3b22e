"""How often the label of an utterance is recognised, over all 41: emotions, intents and neutral."""

from __future__ import annotations

import numpy as np

from attune.evaluate.metrics import Summed
from attune.evaluate.outputs import Outputs


def _correct(outputs: Outputs) -> np.ndarray:
    right = [item.label == item.predicted_label for item in outputs.items]
    return np.stack([right, np.ones(len(right))], 1).astype(float)


ACCURACY = Summed(
    name="accuracy",
    title="label accuracy",
    about="share of utterances whose most probable of the 41 labels is theirs, in percent",
    needs=frozenset({"label", "predicted_label"}),
    statistics=_correct,
    combine=lambda sums: 100 * sums[..., 0] / sums[..., 1],
)
