"""How dialogues become tensors for the word-level systems, and tokens become replies again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch
from tokenizers import Tokenizer
from torch import Tensor

from attune.dialogue.text import as_written, normalise
from attune.dialogue.types import Context, Example
from attune.dialogue.vocabulary import SPECIALS
from attune.emotion.taxonomy import EMOTION_ID

PAD, UNK, BOS, EOS, CLS, LAB, SEP = range(len(SPECIALS))
ROLE_ID = {"cls": 0, "speaker": 1, "listener": 2, "label": 3}
NO_EMOTION = -100  # torch's "ignore" index: an example without a label trains no emotion head

Batch = dict[str, Tensor]


@dataclass(frozen=True, slots=True)
class Encoded:
    """One example as ids. `response` ends with EOS and is empty for a context alone; `hidden` are the bytes behind its UNKs."""

    context: np.ndarray  # [S] int32, begins with CLS
    roles: np.ndarray  # [S] int8
    response: np.ndarray  # [T] int32
    responder: int = ROLE_ID["listener"]
    emotion: int = NO_EMOTION
    hidden: int = 0
    feedback: np.ndarray = field(
        default_factory=lambda: np.empty(0, np.int32)
    )  # [F] int32, training only; may be empty
    features: dict[str, np.ndarray] = field(default_factory=dict)

    @property
    def size(self) -> int:
        """By which items are put together in batches."""
        return len(self.context) * 1000 + len(self.response)

    @property
    def inner_size(self) -> int:
        """By which those that are of like size are put together."""
        return len(self.response)


class Place(NamedTuple):
    """Something that a decoder looks at: a word of the context, or what a system reads beside them."""

    text: str
    group: str
    turn: int | None = None
    """Of the context, counted from 0; None for what nobody said."""
    known: bool = True
    """Whether the word is in the vocabulary."""


class Codec(Protocol):
    """Text ↔ tensors for one model: what a trainer, and a system that is asked, need of it.

    Items have `size`, by which like ones are put together, and `response`, whose length is the number of target tokens.
    """

    bos: int
    eos: int
    pad: int  # where `target` has it there is nothing to say
    forbidden: Sequence[int]  # ids that are never said

    def encode(self, examples: Sequence[Example]) -> Sequence[Any]: ...
    def encode_contexts(self, contexts: Sequence[Context]) -> Sequence[Any]: ...
    def collate(self, items: Sequence[Any]) -> Batch: ...
    def training_batch(self, items: Sequence[Any], rng: np.random.Generator) -> Batch: ...
    def said(self, ids: Sequence[int]) -> tuple[str, str]: ...
    def save(self, folder: Path) -> None: ...


class Features(Protocol):
    """What a system reads beside the words: worked out once for each example, from its context alone."""

    read: tuple[str, ...]
    """What of the batch are ids of words."""

    def compute(self, turns: Sequence[Sequence[str]]) -> dict[str, np.ndarray]:
        """Of the words of each turn, as far back as the system is let see."""

    def collate(self, rows: Sequence[dict[str, np.ndarray]], batch: Batch) -> Batch:
        """What comes into the batch; `batch` has the padded context already."""


Labels = Callable[[Sequence[np.ndarray]], list[list[int]]]  # contexts' word ids → label token ids to prepend


class WordCodec:
    """Text ↔ ids for word-level systems.

    `turns` and `tokens` limit the context to its last turns and last tokens (seed 003); `labels` is
    Prepend-k: it maps contexts to label tokens that go in front; `features` is what the system reads beside the words.
    In training, `hide` is how often a word that it has once becomes UNK, and `drop` how often any word that is read does.
    """

    bos, eos, pad = BOS, EOS, PAD
    forbidden: Sequence[int] = tuple(i for i in range(len(SPECIALS)) if i != EOS)
    hide = drop = 0.0

    def __init__(
        self,
        tokenizer: Tokenizer,
        turns: int | None = None,
        tokens: int | None = None,
        singletons: Sequence[int] = (),
        labels: Labels | None = None,
        features: Features | None = None,
    ) -> None:
        self.tokenizer, self.turns, self.tokens, self.labels = tokenizer, turns, tokens, labels
        self.features = features
        self.rare = np.zeros(tokenizer.get_vocab_size(), dtype=bool)
        self.rare[list(singletons)] = True
        self._ids = lru_cache(maxsize=500_000)(self._ids_of)

    def _ids_of(self, text: str) -> tuple[np.ndarray, int]:
        words = normalise(text)
        ids = [self.tokenizer.token_to_id(word) for word in words]
        hidden = sum(len(word.encode()) for word, i in zip(words, ids, strict=True) if i is None)
        return np.array([UNK if i is None else i for i in ids], dtype=np.int32), hidden

    def encode(self, examples: Sequence[Example], targets: bool = True) -> list[Encoded]:
        """Examples as ids. Without `targets` only the context is read: what a system may see at test time."""
        contexts = [self._context(example.context) for example in examples]
        fronts = self.labels([ids for ids, _ in contexts]) if self.labels else [[] for _ in contexts]
        encoded = []
        for example, (ids, roles), front in zip(examples, contexts, fronts, strict=True):
            response, hidden = self._ids(example.response.text) if targets else (np.empty(0, np.int32), 0)
            feedback = self._ids(example.feedback.text)[0] if targets and example.feedback else np.empty(0, np.int32)
            encoded.append(
                Encoded(
                    context=np.concatenate([[CLS], front, ids]).astype(np.int32),
                    roles=np.concatenate([[ROLE_ID["cls"]], [ROLE_ID["label"]] * len(front), roles]).astype(np.int8),
                    response=np.append(response, np.int32(EOS)) if targets else response,
                    responder=ROLE_ID[example.response.role] if targets else ROLE_ID["listener"],
                    emotion=EMOTION_ID.get(example.emotion or "", NO_EMOTION) if targets else NO_EMOTION,
                    hidden=hidden,
                    feedback=feedback,
                    features=self.features.compute(self.turn_words(example.context)) if self.features else {},
                )
            )
        return encoded

    def encode_contexts(self, contexts: Sequence[Context]) -> list[Encoded]:
        """Contexts alone, for perceiving and replying."""
        return self.encode([Example("", context, context[-1]) for context in contexts], targets=False)

    def _context(self, context: Context) -> tuple[np.ndarray, np.ndarray]:
        turns = context[-self.turns :] if self.turns else context
        pieces = [self._ids(turn.text)[0] for turn in turns]
        roles = [np.full(len(ids), ROLE_ID[turn.role]) for turn, ids in zip(turns, pieces, strict=True)]
        ids, role_ids = (np.concatenate(x) if x else np.empty(0, np.int32) for x in (pieces, roles))
        return (ids[-self.tokens :], role_ids[-self.tokens :]) if self.tokens else (ids, role_ids)

    def turn_words(self, context: Context) -> list[list[str]]:
        """The words that :meth:`_context` gives the ids of, turn by turn."""
        turns = [list(normalise(turn.text)) for turn in (context[-self.turns :] if self.turns else context)]
        excess = sum(map(len, turns)) - self.tokens if self.tokens else 0
        for turn in turns:
            cut = max(0, min(excess, len(turn)))
            del turn[:cut]
            excess -= cut
        return turns

    def collate(self, items: Sequence[Encoded], rng: np.random.Generator | None = None) -> Batch:
        """Pad to tensors. With a generator, as in training: words are hidden."""
        batch = {"context": pad([item.context for item in items]), "roles": pad([item.roles for item in items])}
        batch["real"] = torch.arange(batch["context"].shape[1])[None] < torch.tensor(
            [[len(item.context)] for item in items]
        )
        batch["responder"] = torch.tensor([item.responder for item in items])
        if len(items[0].response):
            batch["target"] = pad([item.response for item in items])
            batch["response"] = pad([np.append(np.int32(BOS), item.response[:-1]) for item in items])
            batch["emotion"] = torch.tensor([item.emotion for item in items])
        if any(len(item.feedback) for item in items):
            batch["feedback"] = pad([item.feedback for item in items])
        if self.features:
            batch |= self.features.collate([item.features for item in items], batch)
        if rng is not None:
            for name in ("context", "target"):
                ids = batch[name].numpy()
                ids[self.rare[ids] & (rng.random(ids.shape) < self.hide)] = UNK
            batch["response"][:, 1:] = batch["target"][:, :-1].where(batch["response"][:, 1:] != PAD, PAD)
            for name in ("context", *(self.features.read if self.features else ())) if self.drop else ():
                ids = batch[name].numpy()
                ids[(ids >= len(SPECIALS)) & (rng.random(ids.shape) < self.drop)] = UNK
        return batch

    def training_batch(self, items: Sequence[Encoded], rng: np.random.Generator) -> Batch:
        return self.collate(items, rng)

    def said(self, ids: Sequence[int]) -> tuple[str, str]:
        """A reply in normal form, and as a person sees it."""
        words = self.words(ids)
        return " ".join(words), as_written(words)

    def words(self, ids: Sequence[int]) -> list[str]:
        """Ids of a reply as normal-form tokens, without the specials."""
        return [str(self.tokenizer.id_to_token(i)) for i in ids if i >= len(SPECIALS)]

    def places(self, context: Context, looked_at: dict[str, Tensor]) -> list[Place]:
        """Groups of ids [1, n] as people see them. Words of the context are given as they were said, known or not."""
        turns = self.turn_words(context)
        first = len(context) - len(turns)  # only the last turns may be read
        said = [(word, first + turn) for turn, words in enumerate(turns) for word in words]
        found: list[Place] = []
        for group, ids in looked_at.items():
            words = said if group == "context" else []
            front = ids.shape[1] - len(words)  # CLS and prepended labels; whatever is not of the context
            for i in ids[0, :front].tolist():
                token = str(self.tokenizer.id_to_token(i))
                found.append(Place(token.strip("[]") if i < len(SPECIALS) else token, group))
            for i, (word, turn) in zip(ids[0, front:].tolist(), words, strict=True):
                found.append(Place(word, group, turn, i != UNK))
        return found

    def save(self, folder: Path) -> None:
        self.tokenizer.save(str(folder / "tokenizer.json"))


def pad(rows: Sequence[np.ndarray]) -> Tensor:
    """Ids of different lengths as one tensor [rows, longest], PAD behind their ends."""
    out = np.zeros((len(rows), max(len(row) for row in rows)), dtype=np.int64)
    for i, row in enumerate(rows):
        out[i, : len(row)] = row
    return torch.from_numpy(out)
