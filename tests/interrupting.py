"""A training that is killed on its way, as when a machine goes down."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from attune.train.trainer import Trainer


@contextmanager
def killed_after(step: int) -> Iterator[None]:
    """What is trained within this must be interrupted after that step."""
    take = Trainer._train_step

    def killed(self: Any, *args: Any) -> None:
        if self.progress.step == step:
            raise KeyboardInterrupt
        take(self, *args)

    with pytest.MonkeyPatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(Trainer, "_train_step", killed)
        yield
