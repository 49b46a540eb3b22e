"""How most replies go on: what a reply that says something of its own is taught not to say there."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np

from attune.models.pretrained.speaking import IGNORE

LONGEST = 8  # tokens of a beginning


class CommonWays:
    """Of every beginning that many replies share, the token that most of them have next.

    >>> ways = CommonWays([[1, 2, 3], [1, 2, 3], [1, 2, 4]], least=3)
    >>> ways.instead([1, 2, 5]).tolist()  # after 1, 2 most go on with 3; how a reply begins is left to it
    [-100, -100, 3]
    """

    def __init__(self, replies: Iterable[Sequence[int]], least: int = 20) -> None:
        counts: dict[tuple[int, ...], Counter[int]] = {}
        for ids in replies:
            for place in range(1, min(len(ids), LONGEST + 1)):
                counts.setdefault(tuple(ids[:place]), Counter())[ids[place]] += 1
        self.next = {
            beginning: following.most_common(1)[0][0]
            for beginning, following in counts.items()
            if following.total() >= least
        }

    def instead(self, ids: Sequence[int]) -> np.ndarray:
        """At each place the common token, where the reply has another; IGNORE elsewhere."""
        found = np.full(len(ids), IGNORE, dtype=np.int32)
        for place in range(1, min(len(ids), LONGEST + 1)):
            common = self.next.get(tuple(ids[:place]))
            if common is None:
                break  # a longer beginning is rarer still
            if common != ids[place]:
                found[place] = common
        return found
