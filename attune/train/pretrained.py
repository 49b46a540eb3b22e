"""Preparing a system on pretrained parts: its bases' weights and tokenizers."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from attune.dialogue.types import Dialogue
from attune.models import SYSTEMS
from attune.models.codec import Codec
from attune.train.recipes import Recipe


def prepare_pretrained(
    recipe: Recipe, data: str | Path, train: Sequence[Dialogue]
) -> tuple[Any, Codec, dict[str, Any]]:
    """A model on its bases, as the recipe says."""
    kind = SYSTEMS[recipe.system]
    model, codec = kind.start(kind.config_class(**recipe.model))
    trained = sum(parameter.numel() for parameter in model.parameters() if parameter.requires_grad)
    return model, codec, {"bases": dict(model.config.roles), "trained_parameters": trained}
