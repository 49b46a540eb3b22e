"""Preparing a system on pretrained parts: its bases' weights and tokenizers, and what is known about its corpus."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from filelock import FileLock
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from attune.dialogue.types import Dialogue
from attune.files import cache_dir
from attune.knowledge.annotate import AnnotateSettings, Annotations, annotate
from attune.models import SYSTEMS
from attune.models.codec import Codec
from attune.models.pretrained.concepts import ConceptText
from attune.train.recipes import Recipe


def prepare_pretrained(
    recipe: Recipe, data: str | Path, train: Sequence[Dialogue], run: Path | None = None
) -> tuple[Any, Codec, dict[str, Any]]:
    """A model on its bases, as the recipe says."""
    kind = SYSTEMS[recipe.system]
    model, codec = kind.fresh(kind.config_class(**recipe.model))
    knowledge = getattr(codec, "knowledge", None)
    if isinstance(knowledge, ConceptText):
        knowledge.annotations = corpus_annotations(recipe, data)
    if getattr(model.config, "words_share", 0.0):
        from attune.train.wording import fit_wording

        codec.wording = fit_wording(train)
    trained = sum(parameter.numel() for parameter in model.parameters() if parameter.requires_grad)
    return model, codec, {"bases": dict(model.config.roles), "trained_parameters": trained}


def corpus_annotations(recipe: Recipe, data: str | Path) -> Annotations:
    """The concepts of the training and validation contexts: the recipe's, or made now unless they were made before."""
    if recipe.text.annotations:
        return Annotations(recipe.text.annotations)
    protocol = recipe.training.protocol
    place = hashlib.sha256(f"{Path(data).resolve()} {protocol}".encode()).hexdigest()[:16]
    folder = cache_dir() / "annotations" / place
    folder.parent.mkdir(parents=True, exist_ok=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with (
        FileLock(f"{folder}.lock"),
        Progress(*columns, console=Console(stderr=True), disable=not sys.stderr.isatty()) as bars,
    ):
        bar = bars.add_task("concepts", total=None)
        annotate(
            data,
            folder,
            AnnotateSettings(protocol=protocol),
            splits=("train", "valid"),
            report=lambda state: bars.update(bar, completed=state.done, total=state.total),
        )
    return Annotations(folder)
