"""Probabilities that two sides tell, as one."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def together(one: NDArray[Any], other: NDArray[Any], share: float) -> NDArray[Any]:
    """The geometric mean of two opinions [n, k], of which the other counts `share`.

    >>> together(np.array([[0.5, 0.5]]), np.array([[0.8, 0.2]]), 0.5).round(3).tolist()
    [[0.667, 0.333]]
    """
    return normalised((1 - share) * np.log(np.maximum(one, 1e-9)) + share * np.log(np.maximum(other, 1e-9)))


def normalised(logarithms: NDArray[Any]) -> NDArray[Any]:
    """Probabilities along the last axis."""
    powers = np.exp(logarithms - logarithms.max(-1, keepdims=True)) if logarithms.size else logarithms
    return np.asarray(powers / powers.sum(-1, keepdims=True), dtype=logarithms.dtype)
