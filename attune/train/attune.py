"""Preparing the system `attune`: its perceiver, and what is known before each listener turn of the corpus.

The controls of the training dialogues must be as good, and as bad, as those of unseen ones. So they are not the perceiver's,
which has learnt these very labels by heart, but those of linear heads on the untouched sentence encoder, each fitted on the
other folds of the dialogues. Validation and later use have the perceiver's.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.numpy import load_file, save

from attune.dialogue.protocols import examples as make_examples
from attune.dialogue.types import Dialogue, Example
from attune.emotion.taxonomy import EMOTION_ID, EMOTIONS, LABEL_ID, LABELS
from attune.errors import MissingError, SettingsError
from attune.files import atomic_write
from attune.generate.attune import PERCEIVER
from attune.generate.controls import ContextControls, as_words
from attune.generate.systems import open_system
from attune.knowledge.annotate import Annotations
from attune.knowledge.sentences import load_encoder
from attune.models import SYSTEMS
from attune.models.pretrained.conversations import ConversationCodec
from attune.models.prompt import Control
from attune.train.pretrained import corpus_annotations
from attune.train.recipes import Recipe, load_recipe, variants

FOLDS = 5
_KEPT = ("config.json", "config.yaml", "model.safetensors", "summary.json", "encoder")  # of the perceiver's run


def prepare_attune(
    recipe: Recipe, data: str | Path, train: Sequence[Dialogue], run: Path | None
) -> tuple[Any, ConversationCodec, dict[str, Any]]:
    """The decoder with its adapters, and a codec that knows the controls of the corpus."""
    place = perceiver_run(recipe, data, run)
    kind = SYSTEMS[recipe.system]
    torch.manual_seed(recipe.training.seed)
    model, codec = kind.fresh(kind.config_class(**recipe.model))
    codec.beside = {f"{PERCEIVER}/{name}": place / name for name in _KEPT if (place / name).exists()}
    annotations = corpus_annotations(recipe, data) if model.config.concepts else None
    examples = list(make_examples(train, "listener-turns"))
    codec.controls = CorpusControls(
        crossfit(examples, place / "crossfit.safetensors", recipe.training.seed),
        ContextControls(open_system(place), None),
        annotations,
    )
    trained = sum(parameter.numel() for parameter in model.parameters() if parameter.requires_grad)
    return model, codec, {"bases": dict(model.config.roles), "trained_parameters": trained}


def perceiver_run(recipe: Recipe, data: str | Path, run: Path | None) -> Path:
    """The run of the perceiver that the recipe names; a variant of it is trained beside the run, or found there."""
    from attune.train.trainer import train

    named = recipe.text.perceiver
    if named and named not in (known := variants("perceiver")):
        if not (Path(named) / "config.json").is_file():
            raise MissingError(
                f"no run of a perceiver at {named} (text.perceiver); a variant trains one: {', '.join(known)}"
            )
        return Path(named)
    if run is None:
        raise SettingsError("text.perceiver must be a run here: there is no run to train a perceiver beside")
    place = run.with_name(f"{run.name}-perceiver")
    train(load_recipe("perceiver", named), data, place)
    return place


class CorpusControls:
    """Controls of a corpus's examples: the training ones out of `folds`, others by the perceiver; concepts out of the annotations."""

    def __init__(
        self, folds: dict[str, tuple[str, str]], others: ContextControls, annotations: Annotations | None
    ) -> None:
        self.folds, self.others, self.annotations = folds, others, annotations

    def __call__(self, examples: Sequence[Example]) -> list[Control]:
        new = [example for example in examples if example.id not in self.folds]
        found = dict(zip((example.id for example in new), self.others(new), strict=True))
        return [self._control(example, found) for example in examples]

    def _control(self, example: Example, others: dict[str, Control]) -> Control:
        if example.id in self.folds:
            emotion, label = self.folds[example.id]
        else:
            emotion, label = str(others[example.id].emotion), str(others[example.id].label)
        known = self.annotations.of(example).concepts if self.annotations is not None else []
        return Control(emotion, label, False, as_words(known))


def crossfit(examples: Sequence[Example], file: Path, seed: int = 0) -> dict[str, tuple[str, str]]:
    """Emotion and label of each example, as told by heads that never saw its dialogue; kept in `file`."""
    stamp = hashlib.sha256("\n".join(f"{e.id} {len(e.context)}" for e in examples).encode()).hexdigest()
    found = load_file(file) if file.is_file() else {}
    if stamp not in found:
        features = context_features(examples)
        folds = np.array([int(hashlib.sha256(_dialogue(e).encode()).hexdigest(), 16) % FOLDS for e in examples])
        gold = {
            "emotion": np.array([EMOTION_ID.get(e.emotion or "", -1) for e in examples]),
            "label": np.array([LABEL_ID.get(e.response.label or "", -1) for e in examples]),
        }
        told = {name: np.full(len(examples), -1, np.int16) for name in gold}
        for fold in range(FOLDS):
            here = folds == fold
            for name, width in (("emotion", len(EMOTIONS)), ("label", len(LABELS))):
                learn = ~here & (gold[name] >= 0)
                if here.any() and learn.any():
                    told[name][here] = fit_linear(features[learn], gold[name][learn], features[here], width, seed)
        found = {stamp: np.stack([told["emotion"], told["label"]])}
        with atomic_write(file, "wb") as out:
            out.write(save(found))
    return {
        example.id: (EMOTIONS[emotion], LABELS[label])
        for example, emotion, label in zip(examples, *found[stamp].tolist(), strict=True)
        if emotion >= 0 and label >= 0
    }


def _dialogue(example: Example) -> str:
    return example.id.rsplit(":", 1)[0]


def context_features(examples: Sequence[Example]) -> np.ndarray:
    """[n, 3 d]: the sentence vectors of the first turn, of the last, and the mean of all."""
    texts = list(dict.fromkeys(turn.text for example in examples for turn in example.context))
    place = {text: i for i, text in enumerate(texts)}
    vectors = load_encoder().encode(texts)
    rows = []
    for example in examples:
        turns = vectors[[place[turn.text] for turn in example.context]]
        rows.append(np.concatenate([turns[0], turns[-1], turns.mean(0)]))
    return np.array(rows, dtype=np.float32)


def fit_linear(x: np.ndarray, y: np.ndarray, asked: np.ndarray, width: int, seed: int, epochs: int = 12) -> np.ndarray:
    """The class of each row of `asked`, told by a softmax regression on `x` and `y`."""
    generator = torch.Generator().manual_seed(seed)
    head = torch.nn.Linear(x.shape[1], width)
    torch.nn.init.zeros_(head.weight)
    torch.nn.init.zeros_(head.bias)
    optimizer = torch.optim.AdamW(head.parameters(), lr=1e-2, weight_decay=1e-2)
    rows, gold = torch.from_numpy(x), torch.from_numpy(y.astype(np.int64))
    steps = epochs * -(-len(rows) // 512)
    schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.02, steps)
    for _ in range(epochs):
        for part in torch.randperm(len(rows), generator=generator).split(512):
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(head(rows[part]), gold[part]).backward()
            optimizer.step()
            schedule.step()
    with torch.no_grad():
        return head(torch.from_numpy(asked)).argmax(-1).numpy().astype(np.int16)
