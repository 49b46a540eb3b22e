"""Training is a list of stages. The default is one: maximum likelihood.

A system that needs more (adversarial training, pre-train then fine-tune) names them in ``model.stages()``; the trainer
names no system. Each stage begins with the best weights of the one before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from attune.registry import Registry
from attune.train.recipes import TrainingSettings

if TYPE_CHECKING:
    from attune.train.trainer import Trainer


class Stage:
    """One phase of training with one optimiser: minimise the sum of the model's loss terms."""

    name = "maximum-likelihood"
    validates = True
    """Whether it is measured on validation, where its best weights are kept and it may stop early."""
    slack: float | None = None
    """The weights it begins with are kept unless it finds others whose perplexity is at most so many times that of the stage before."""

    def settings(self, recipe: TrainingSettings, model: Any) -> TrainingSettings:
        """The recipe's training settings, as far as this stage keeps to them."""
        return recipe

    def steps(self, model: Any) -> int | None:
        """At most this many steps; None: as many as the settings have epochs."""
        return None

    def begin(self, trainer: Trainer) -> None:
        """Make what is trained beside the model: modules and optimisers in `trainer.beside` are part of checkpoints."""

    def parameters(self, model: Any) -> list[torch.nn.Parameter]:
        return [p for p in model.parameters() if p.requires_grad]

    def groups(self, model: Any) -> list[dict[str, Any]]:
        """Parameters by the factor of the learning rate that they are trained with; a model may have groups of its own."""
        if hasattr(model, "parameter_groups"):
            return model.parameter_groups()
        return [{"params": self.parameters(model), "factor": 1.0}]

    def step(self, trainer: Trainer, batch: dict[str, Tensor], tokens: int, examples: int) -> dict[str, float]:
        """One update from one batch (this process's rows of it); returns the terms to record."""
        with torch.autocast(
            trainer.accelerator.device.type, torch.bfloat16, enabled=trainer.settings.precision == "bf16"
        ):
            terms = trainer.model(batch, tokens, examples)
        return descend(trainer, terms)


def descend(trainer: Trainer, terms: dict[str, Tensor]) -> dict[str, float]:
    """One update of what the trainer optimises, down the sum of the terms that have a gradient."""
    backward(trainer, terms)
    trainer.update()
    return recorded(terms)


def backward(trainer: Trainer, terms: dict[str, Tensor]) -> None:
    """The gradient of the sum of the terms that have one."""
    loss = sum(term for term in terms.values() if term.requires_grad)
    trainer.accelerator.backward(loss * trainer.accelerator.num_processes)  # DDP averages; the terms are shares


def recorded(terms: dict[str, Tensor]) -> dict[str, float]:
    return {name: float(term.detach()) for name, term in terms.items()}


STAGES: Registry[type[Stage]] = Registry(
    "stage",
    {
        "critics": "attune.train.adversarial:CriticPretraining",
        "adversarial": "attune.train.adversarial:Adversarial",
    },
)
STAGES.register(Stage.name)(Stage)


def stages_of(model: Any) -> list[Stage]:
    """The stages a model asks for, or the default one."""
    return [STAGES[name]() for name in (model.stages() if hasattr(model, "stages") else [Stage.name])]
