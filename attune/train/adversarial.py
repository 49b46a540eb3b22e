"""Adversarial training: critics learn to tell generated replies from real ones, and the generator learns from them.

A model that is trained so offers `critics(codec)`, `critic_loss(critics, batch, said)`, `critic_signal(critics, batch, said)` and the settings
`critic_steps`, `critic_lr`, `generator_steps`, `adversarial_steps`, `adversarial_lr`. Only examples with feedback meet the critics.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from attune.generate.decoding import decode
from attune.generate.settings import Decoding
from attune.models.codec import pad
from attune.train.recipes import TrainingSettings
from attune.train.stages import Stage, backward, recorded
from attune.train.trainer import Trainer

BETAS = (0.5, 0.9)  # of the critics' optimiser
VALIDATE_EVERY = 250
WARMUP = 50  # of the generator against the critics
CANDIDATES = 100  # words that a reply's next one is drawn from


class CriticPretraining(Stage):
    """The critics learn alone; the model stays as it is."""

    name = "critics"
    validates = False

    def settings(self, recipe: TrainingSettings, model: Any) -> TrainingSettings:
        return recipe.model_copy(
            update={
                "schedule": "constant",
                "warmup": 1,
                "lr": model.config.critic_lr,
                "betas": BETAS,
                "optimizer": "adam",
            }
        )

    def steps(self, model: Any) -> int:
        return int(model.config.critic_steps)

    def begin(self, trainer: Trainer) -> None:
        self.critics = critics_of(trainer)

    def groups(self, model: Any) -> list[dict[str, Any]]:
        return [{"params": list(self.critics.parameters()), "factor": 1.0}]

    def step(self, trainer: Trainer, batch: dict[str, Tensor], tokens: int, examples: int) -> dict[str, float]:
        rows = with_feedback(batch)
        loss = teach(trainer, self.critics, rows, replies(trainer, rows))
        trainer.update()
        return {"critics": loss}


class Adversarial(Stage):
    """One update of the critics to `generator_steps` of the generator, which keeps its other losses."""

    name = "adversarial"
    slack = 1.03

    def settings(self, recipe: TrainingSettings, model: Any) -> TrainingSettings:
        """Like public code, the alternation is stopped by emotion accuracy; here not at the cost of the perplexity."""
        return recipe.model_copy(
            update={
                "schedule": "linear",
                "warmup": WARMUP,
                "lr": model.config.adversarial_lr,
                "validate_every": min(recipe.validate_every, VALIDATE_EVERY),
                "min_steps": 0,
                "select": "emotion_accuracy",
            }
        )

    def steps(self, model: Any) -> int:
        return int(model.config.adversarial_steps)

    def begin(self, trainer: Trainer) -> None:
        self.critics = critics_of(trainer)
        lr = trainer.bare.config.critic_lr
        self.optimizer = torch.optim.Adam(self.critics.parameters(), lr=lr, betas=BETAS, fused=True)
        trainer.beside["critics_optimizer"] = self.optimizer

    def step(self, trainer: Trainer, batch: dict[str, Tensor], tokens: int, examples: int) -> dict[str, float]:
        rows, every = with_feedback(batch), trainer.bare.config.generator_steps
        said = replies(trainer, rows)
        judged = {}
        if (trainer.progress.step - trainer.progress.begun - 1) % every == 0:
            loss = teach(trainer, self.critics, rows, said)
            if trainer.settings.clip:
                torch.nn.utils.clip_grad_norm_(self.critics.parameters(), trainer.settings.clip)
            self.optimizer.step()
            self.optimizer.zero_grad(set_to_none=True)
            judged["critics"] = torch.tensor(loss * every)  # the record is a mean over all steps
        terms = trainer.model(batch, tokens, examples)
        pulled = None
        if len(said):
            judged["adversarial"] = trainer.bare.critic_signal(self.critics, rows, said) / examples
            if "critics" in judged and trainer.accelerator.num_processes == 1:
                pulled = torch.autograd.grad(
                    judged["adversarial"], trainer.trained, retain_graph=True, allow_unused=True
                )
        backward(trainer, terms | judged)
        if pulled is not None:
            judged["pull"] = every * pull(pulled, trainer.trained)
        trainer.update()
        return recorded(terms | judged)


def pull(signal: Sequence[Tensor | None], parameters: Sequence[torch.nn.Parameter]) -> Tensor:
    """The norm of the critics' gradient over that of the other losses, whose sum with it the parameters hold."""
    pairs = [(part, held.grad) for part, held in zip(signal, parameters, strict=True)]
    others = [whole if part is None else whole - part for part, whole in pairs if whole is not None]
    norms = (torch.stack([one.norm() for one in some if one is not None]).norm() for some in (signal, others))
    return next(norms) / next(norms)


def teach(trainer: Trainer, critics: torch.nn.Module, rows: dict[str, Tensor], said: Tensor) -> float:
    """The gradient of the critics' loss, for an update of them; nothing where no example has feedback.

    Returns the loss, or with several processes this one's share of it.
    """
    value = 0.0
    if len(said):
        loss = trainer.bare.critic_loss(critics, rows, said)
        loss.backward()
        value = loss.item()
    if trainer.accelerator.num_processes > 1:  # the critics have no wrapper that averages their gradients
        for parameter in critics.parameters():
            grad = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
            parameter.grad = trainer.accelerator.reduce(grad, "mean")
    return value / trainer.accelerator.num_processes


def critics_of(trainer: Trainer) -> torch.nn.Module:
    """The critics that an earlier stage trained, or fresh ones."""
    if "critics" not in trainer.beside:
        torch.manual_seed(trainer.settings.seed)
        critics = trainer.bare.critics(trainer.codec)
        trainer.beside["critics"] = critics.to(trainer.accelerator.device)
    critics = trainer.beside["critics"]
    assert isinstance(critics, torch.nn.Module)
    return critics


def with_feedback(batch: dict[str, Tensor]) -> dict[str, Tensor]:
    """The rows of a batch that have feedback; there may be none."""
    has = (batch["feedback"] != 0).any(1) if "feedback" in batch else batch["responder"] < 0
    return {name: value[has] for name, value in batch.items()}


def replies(trainer: Trainer, batch: dict[str, Tensor]) -> Tensor:
    """What the model says now, drawn at random, as ids [B, L]: EOS behind each reply, then padding."""
    model, codec = trainer.bare, trainer.codec
    if not len(batch["responder"]):
        return torch.empty(0, 0, dtype=torch.long)
    model.eval()
    with torch.inference_mode():
        decoding = Decoding("top-k", max_steps=trainer.recipe.decode().max_steps, top_k=CANDIDATES)
        seeds = torch.randint(2**62, (len(batch["responder"]),)).tolist()
        said = decode(
            model,
            model.encode(batch),
            decoding,
            bos=codec.bos,
            eos=codec.eos,
            forbidden=codec.forbidden,
            seeds=seeds,
        )
    model.train()
    return pad([np.array([*words, codec.eos]) for words in said]).to(trainer.accelerator.device)
