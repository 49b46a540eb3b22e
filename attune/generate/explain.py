"""What a system looked at when it replied, as far as it offers to be looked into.

A model with the capability `attention` tells, for each word that it says, where its decoder looks: in the words of the context, and in
what else it reads (concepts, emotion words). One with `gates` tells by which weights over emotions it mixed parts of itself.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import torch

from attune.dialogue.types import Context
from attune.emotion.taxonomy import EMOTIONS
from attune.errors import DataError, SettingsError
from attune.generate.decoding import decode
from attune.models.codec import Place

VERSION = 1  # of the JSON; a change of its shape is a new version
LOOKED_INTO = frozenset({"attention", "gates"})


class Mixture(NamedTuple):
    """Weights over emotions, highest first; what has no weight is left out."""

    title: str
    note: str
    weights: dict[str, float]


@dataclass(frozen=True)
class ReplyExplanation:
    """One reply, word by word."""

    system: str
    decoding: str
    seed: int
    turns: Context
    text: str
    words: tuple[str, ...]
    emotions: dict[str, float] = field(default_factory=dict)
    """What was heard, most probable first; empty if the system does not perceive."""
    places: tuple[Place, ...] = ()
    attention: np.ndarray = field(default_factory=lambda: np.zeros((0, 0)))
    """[words, places]: each row sums to one."""
    mixtures: tuple[Mixture, ...] = ()

    @property
    def groups(self) -> dict[str, float]:
        """The share of the attention that each group gets over the whole reply."""
        mean = self.attention.mean(0) if self.places else ()
        names = dict.fromkeys(place.group for place in self.places)
        return {name: float(sum(w for w, p in zip(mean, self.places) if p.group == name)) for name in names}

    def most(self, word: int, count: int = 3) -> list[tuple[Place, float]]:
        """Where the attention of one word went above all."""
        weights = self.attention[word]
        return [(self.places[i], float(weights[i])) for i in np.argsort(-weights, kind="stable")[:count]]

    def as_json(self) -> dict[str, Any]:
        """The whole as plain values; docs/guide/knowledge.md describes it."""
        return {
            "version": VERSION,
            "system": self.system,
            "decoding": self.decoding,
            "seed": self.seed,
            "turns": [{"role": turn.role, "text": turn.text} for turn in self.turns],
            "reply": self.text,
            "words": list(self.words),
            "emotions": _rounded(self.emotions),
            "places": [place._asdict() for place in self.places],
            "attention": [[round(float(weight), 4) for weight in row] for row in self.attention],
            "gates": [{"title": one.title, "weights": _rounded(one.weights)} for one in self.mixtures],
        }


def explain_reply(system: Any, turns: Context, *, seed: int = 0) -> ReplyExplanation:
    """Let a system reply, and tell what it looked at. The reply is the one that `reply` gives with this seed."""
    if not system.capabilities & LOOKED_INTO:
        offers = ", ".join(sorted(system.capabilities))
        raise SettingsError(f"'{system.name}' does not show what it looks at; it offers {offers}")
    if not turns or not any(turn.text.strip() for turn in turns):
        raise DataError("there is no text to reply to: give at least one word")
    model, codec = system.model, system.codec
    (item,) = codec.encode_contexts([turns])
    batch = codec.collate([item])
    with torch.inference_mode():
        read = model.encode(batch)
        (ids,) = decode(
            model,
            read,
            system.decoding,
            bos=codec.bos,
            eos=codec.eos,
            forbidden=codec.forbidden,
            seeds=[zlib.crc32(item.context.tobytes(), seed)],
        )
        found: dict[str, Any] = {}
        if "attention" in system.capabilities:
            found["places"] = tuple(codec.places(turns, model.looked_at(batch)))
            found["attention"] = model.attention(torch.tensor([[codec.bos, *ids[:-1]]]), read)[0].numpy()
        if "gates" in system.capabilities:
            found["mixtures"] = tuple(
                Mixture(title, note, _named(weights[0].numpy())) for title, note, weights in model.gates(read)
            )
    if "perceive" in system.capabilities:
        found["emotions"] = _named(system.perceive([turns])[0])
    words = tuple(codec.words(ids))
    return ReplyExplanation(system.name, str(system.decoding), seed, turns, codec.said(ids)[1], words, **found)


def _named(weights: np.ndarray) -> dict[str, float]:
    order = np.argsort(-weights, kind="stable")
    return {EMOTIONS[i]: float(weights[i]) for i in order if weights[i] > 0}


def _rounded(shares: dict[str, float]) -> dict[str, float]:
    return {name: round(share, 4) for name, share in shares.items()}


def to_answer(turns: Context) -> Context:
    """The turns of a dialogue up to the last of the speaker: what a listener would answer now.

    >>> from attune.dialogue.types import Turn
    >>> [turn.text for turn in to_answer((Turn("speaker", "I won!"), Turn("listener", "Great!")))]
    ['I won!']
    """
    last = max((i for i, turn in enumerate(turns) if turn.role == "speaker"), default=-1)
    if last < 0:
        raise DataError("the speaker says nothing in this dialogue, so there is nothing to reply to")
    return turns[: last + 1]
