"""Preparing the system `attune`: its perceiver, and what is known before each listener turn of the corpus.

The controls of the training dialogues must be as good, and as bad, as those of unseen ones. So they are not the perceiver's,
which has learnt these very labels by heart, but those of linear heads on the untouched sentence encoder, each fitted on the
other folds of the dialogues; what the corpus does not tell is left out of them. Validation and later use have the perceiver's.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from filelock import FileLock
from safetensors.numpy import load_file, save

from attune.dialogue.protocols import examples as make_examples
from attune.dialogue.types import Dialogue, Example
from attune.emotion.taxonomy import EMOTION_ID, EMOTIONS, LABEL_ID, LABELS
from attune.emotion.wording import WORDING
from attune.errors import DataError, MissingError, SettingsError
from attune.files import atomic_write, cache_dir
from attune.generate.attune import PERCEIVER
from attune.generate.controls import ContextControls, as_words
from attune.generate.systems import open_system
from attune.knowledge.annotate import Annotations
from attune.knowledge.sentences import load_encoder
from attune.models import SYSTEMS
from attune.models.pretrained.conversations import ConversationCodec
from attune.models.prompt import Control
from attune.train.data import corpus
from attune.train.pretrained import corpus_annotations
from attune.train.recipes import Recipe, load_recipe, variants
from attune.train.report import tell
from attune.train.starts import start_place

Told = tuple[str | None, str | None]  # emotion, label
FOLDS = 5
_KEPT = (
    "config.json",
    "config.yaml",
    "model.safetensors",
    "summary.json",
    "encoder",
    WORDING,
)  # of the perceiver's run


def prepare_attune(
    recipe: Recipe, data: str | Path, train: Sequence[Dialogue], run: Path | None
) -> tuple[Any, ConversationCodec, dict[str, Any]]:
    """The decoder with its adapters, and a codec that knows the controls of the corpus."""
    kind = SYSTEMS[recipe.system]
    config = kind.config_class(**recipe.model)
    if config.lora_fixed and not recipe.training.start:
        raise SettingsError("lora_fixed keeps what a run begins with; training.start must name it")
    if config.lora_fixed and recipe.training.weight_decay:
        raise SettingsError("with lora_fixed, training.weight_decay must be 0: it would change what is to stay")
    examples = list(make_examples(train, "listener-turns"))
    place = found_perceiver(recipe, run)
    if (config.label or config.asked) and not any(example.response.label in LABEL_ID for example in examples):
        lack = f"{data}: no turn has a label; EmpatheticDialogues' are in its JSONL (train.jsonl, valid.jsonl beside the CSV)"
        if config.label and place is None:
            raise DataError(f"{lack}. The variant no-label does without")
        tell(f"{lack}. So the decoder learns without labels")
    place = place or trained_perceiver(recipe, corpus(None, kind.corpus) if recipe.training.corpus else data, run)
    torch.manual_seed(recipe.training.seed)
    model, codec = kind.fresh(config)
    codec.beside = {f"{PERCEIVER}/{name}": place / name for name in _KEPT if (place / name).exists()}
    annotations = corpus_annotations(recipe, data) if model.config.concepts else None
    codec.controls = CorpusControls(
        _told(config, examples, recipe.training.seed),
        ContextControls(open_system(place), None),
        annotations,
    )
    trained = sum(parameter.numel() for parameter in model.parameters() if parameter.requires_grad)
    return model, codec, {"bases": dict(model.config.roles), "trained_parameters": trained}


def _told(config: Any, examples: Sequence[Example], seed: int) -> dict[str, Told]:
    """What controls in training tell; nothing, if they show none of it."""
    if not (config.emotion or config.label):
        return {example.id: (None, None) for example in examples}
    return crossfit(examples, cache_dir() / "crossfit", seed)


def found_perceiver(recipe: Recipe, run: Path | None) -> Path | None:
    """The perceiver that need not be trained: the run that the recipe names, or the one in the run that training starts with."""
    named = recipe.text.perceiver
    if named is None:
        start = start_place(recipe, run) if run else None
        return start / PERCEIVER if start and (start / PERCEIVER / "config.json").is_file() else None
    if named in (known := variants("perceiver")):
        return None
    if not (Path(named) / "config.json").is_file():
        raise MissingError(
            f"no run of a perceiver at {named} (text.perceiver); a variant trains one: {', '.join(known)}"
        )
    return Path(named)


def trained_perceiver(recipe: Recipe, data: str | Path, run: Path | None) -> Path:
    """A run of the variant of the perceiver that the recipe names: trained beside the run, or found there."""
    from attune.train.trainer import train

    if run is None:
        raise SettingsError("text.perceiver must be a run here: there is no run to train a perceiver beside")
    place = run.with_name(f"{run.name}-perceiver")
    if not (place / "summary.json").is_file():
        tell(f"{place}: trained first, the perceiver of {run}")
    train(load_recipe("perceiver", recipe.text.perceiver), data, place)
    return place


class CorpusControls:
    """Controls of a corpus's examples: the training ones out of `folds`, others by the perceiver; concepts out of the annotations."""

    def __init__(self, folds: dict[str, Told], others: ContextControls, annotations: Annotations | None) -> None:
        self.folds, self.others, self.annotations = folds, others, annotations

    def __call__(self, examples: Sequence[Example]) -> list[Control]:
        new = [example for example in examples if example.id not in self.folds]
        found = dict(zip((example.id for example in new), self.others(new), strict=True))
        return [self._control(example, found) for example in examples]

    def _control(self, example: Example, others: dict[str, Control]) -> Control:
        if example.id in self.folds:
            emotion, label = self.folds[example.id]
        else:
            emotion, label = others[example.id].emotion, others[example.id].label
        known = self.annotations.of(example).concepts if self.annotations is not None else []
        return Control(emotion, label, False, as_words(known))


def crossfit(examples: Sequence[Example], folder: Path, seed: int = 0) -> dict[str, Told]:
    """Emotion and label of each example, as told by heads that never saw its dialogue; kept in `folder`.

    What no other dialogue tells, no head can: it is None.
    """
    stamp = hashlib.sha256(str(seed).encode())
    for e in examples:
        stamp.update(repr((e.id, e.emotion, e.response.label, [turn.text for turn in e.context])).encode())
    file = folder / f"{stamp.hexdigest()[:16]}.safetensors"
    folder.mkdir(parents=True, exist_ok=True)
    with FileLock(f"{file}.lock"):
        if not file.is_file():
            tell(f"cross-fitting the controls of {len(examples):,} training examples; kept in {folder}")
            with atomic_write(file, "wb") as out:
                out.write(save({"told": _cross_fitted(examples, seed)}))
        emotions, labels = load_file(file)["told"].tolist()
    return {
        example.id: (EMOTIONS[emotion] if emotion >= 0 else None, LABELS[label] if label >= 0 else None)
        for example, emotion, label in zip(examples, emotions, labels, strict=True)
    }


def _cross_fitted(examples: Sequence[Example], seed: int) -> np.ndarray:
    """[2, n]: the numbers of emotion and label; -1 where there was nothing to learn from."""
    features = context_features(examples)
    folds = np.array([int(hashlib.sha256(_dialogue(e).encode()).hexdigest(), 16) % FOLDS for e in examples])
    gold = np.array(
        [[EMOTION_ID.get(e.emotion or "", -1), LABEL_ID.get(e.response.label or "", -1)] for e in examples]
    ).T
    told = np.full(gold.shape, -1, np.int16)
    for fold in range(FOLDS):
        here = folds == fold
        for row, known, width in zip(told, gold, (len(EMOTIONS), len(LABELS)), strict=True):
            learn = ~here & (known >= 0)
            if here.any() and learn.any():
                row[here] = fit_linear(features[learn], known[learn], features[here], width, seed)
    return told


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
