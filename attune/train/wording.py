"""Fit what the words of a context tell by themselves to the training dialogues (`attune/emotion/wording.py`)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
from scipy.sparse import csr_matrix
from sklearn.linear_model import LogisticRegression

from attune.dialogue.types import Dialogue
from attune.emotion.taxonomy import EMOTION_ID, EMOTIONS
from attune.emotion.wording import Wording, as_text, terms
from attune.errors import DataError

SEEN = 4  # texts that a term has to stand in
STRENGTH = 2.0  # the inverse of the penalty on weights


def fit_wording(dialogues: Sequence[Dialogue]) -> Wording:
    """Fit to every situation, and to what was said before each listener turn."""
    texts, labels = [], []
    for dialogue in dialogues:
        if dialogue.emotion not in EMOTION_ID:
            continue
        said = [dialogue.situation] if dialogue.situation else []
        said += [as_text(dialogue.turns[:i]) for i, turn in enumerate(dialogue.turns) if turn.role == "listener"]
        texts += said
        labels += [EMOTION_ID[dialogue.emotion]] * len(said)
    if len(set(labels)) < 2:
        raise DataError("words_share: the training dialogues have fewer than two emotions to tell apart")
    counted = [terms(text) for text in texts]
    stands_in = Counter(term for one in counted for term in one)
    known = sorted(term for term, count in stands_in.items() if count >= min(SEEN, len(texts)))
    rarity = 1 + np.log((1 + len(texts)) / (1 + np.array([stands_in[term] for term in known], dtype=float)))
    wording = Wording(known, rarity, np.zeros((len(known), len(EMOTIONS))), np.zeros(len(EMOTIONS)))
    rows = [wording.values(text) for text in texts]
    ends = np.cumsum([0, *(len(places) for places, _ in rows)])
    found = csr_matrix(
        (np.concatenate([values for _, values in rows]), np.concatenate([places for places, _ in rows]), ends),
        shape=(len(rows), len(known)),
    )
    model = LogisticRegression(C=STRENGTH, solver="saga", max_iter=60, tol=1e-2, random_state=0).fit(found, labels)
    weights, bias = model.coef_, model.intercept_
    if len(model.classes_) == 2:  # one row tells both apart
        weights, bias = np.concatenate([-weights, weights]) / 2, np.concatenate([-bias, bias]) / 2
    wording.weights[:, model.classes_] = weights.T
    wording.bias[:] = -1e3  # nobody can tell an emotion that nobody had
    wording.bias[model.classes_] = bias
    return wording
