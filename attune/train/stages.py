"""Training is a list of stages. The default is one: maximum likelihood.

A system that needs more (adversarial training, pre-train then fine-tune) returns its own list from
``model.stages()``; the trainer names no system.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

if TYPE_CHECKING:
    from attune.train.trainer import Trainer


class Stage:
    """One phase of training with one optimiser: minimise the sum of the model's loss terms."""

    name = "maximum-likelihood"

    def parameters(self, model: Any) -> list[torch.nn.Parameter]:
        return [p for p in model.parameters() if p.requires_grad]

    def groups(self, model: Any) -> list[dict[str, Any]]:
        """Parameters by the factor of the learning rate that they are trained with; a model may have groups of its own."""
        if hasattr(model, "parameter_groups"):
            return model.parameter_groups()
        return [{"params": self.parameters(model), "factor": 1.0}]

    def step(self, trainer: Trainer, batch: dict[str, Tensor], tokens: int, examples: int) -> dict[str, float]:
        """One update from one batch (this process's rows of it); returns the terms to record."""
        terms = trainer.model(batch, tokens, examples)
        loss = sum(term for term in terms.values() if term.requires_grad)
        trainer.accelerator.backward(loss * trainer.accelerator.num_processes)  # DDP averages; the terms are shares
        trainer.update()
        return {name: float(term.detach()) for name, term in terms.items()}


def stages_of(model: Any) -> list[Stage]:
    """The stages a model asks for, or the default one."""
    return model.stages() if hasattr(model, "stages") else [Stage()]
