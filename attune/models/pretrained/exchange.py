"""Examples for an encoder that reads the context and a decoder that reads knowledge and says the response.

The decoder's input is `knowledge <SEP> response`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from attune.dialogue.types import Context, Example
from attune.emotion.taxonomy import EMOTION_ID
from attune.models.codec import NO_EMOTION
from attune.models.pretrained.speech import SpeechCodec
from attune.models.pretrained.tokens import Batch, EncoderTokens, pad, real
from attune.registry import Registry

Knowledge = Callable[[Sequence[Example]], list[str]]  # examples → text for the decoder, from their contexts alone
KNOWLEDGE: Registry[Callable[[], Knowledge]] = Registry(
    "knowledge",
    {
        "ckece": "attune.models.pretrained.concepts:ConceptText",
        "none": "attune.models.pretrained.exchange:nothing_known",
    },
)


def nothing_known() -> Knowledge:
    return lambda examples: [""] * len(examples)


@dataclass(frozen=True, slots=True)
class Exchange:
    """One example as ids. `response` ends with EOS and is empty for a context alone."""

    context: np.ndarray  # [S] int32, the encoder's
    prefix: np.ndarray  # [P] int32, the decoder's
    response: np.ndarray  # [T] int32, the decoder's
    emotion: int = NO_EMOTION
    hidden: int = 0  # nothing hides behind an unknown word: sub-words know all

    @property
    def size(self) -> int:
        """The decoder is the larger part, so its tokens come first."""
        return (len(self.prefix) + len(self.response)) * 1000 + len(self.context)


class ExchangeCodec(SpeechCodec):
    """Text ↔ tensors. Without a decoder only contexts and emotions are read."""

    def __init__(self, config: Any, tokenizers: dict[str, Any]) -> None:
        self.tokens = EncoderTokens(tokenizers["encoder"], config.context_tokens, config.bases["encoder"]["config"])
        self.longest_prefix = config.knowledge_tokens
        if "decoder" in tokenizers:
            self.open_decoder(config, tokenizers["decoder"], "knowledge_tokens")
        self.knowledge = KNOWLEDGE[config.knowledge if self.tokenizer else "none"]()

    def encode(self, examples: Sequence[Example], targets: bool = True) -> list[Exchange]:
        """Examples as ids. Without `targets` only the context is read: what a system may see at test time."""
        items = []
        for example, known in zip(examples, self.knowledge(examples), strict=True):
            prefix = self.ids(known)[: self.longest_prefix]
            speaks = targets and self.tokenizer is not None
            items.append(
                Exchange(
                    context=self.tokens.ids([turn.text for turn in example.context]),
                    prefix=prefix,
                    response=self.response(example, len(prefix)) if speaks else np.empty(0, np.int32),
                    emotion=EMOTION_ID.get(example.emotion or "", NO_EMOTION) if targets else NO_EMOTION,
                )
            )
        return items

    def encode_contexts(self, contexts: Sequence[Context]) -> list[Exchange]:
        """Contexts alone, for perceiving and replying."""
        return self.encode([Example("", context, context[-1]) for context in contexts], targets=False)

    def collate(self, items: Sequence[Exchange]) -> Batch:
        batch = self.tokens.batch([item.context for item in items])
        batch["emotion"] = torch.tensor([item.emotion for item in items])
        if self.tokenizer is not None:
            prefixes = [item.prefix for item in items]
            batch |= {"prefix": pad(prefixes, self.eos), "prefix_real": real(prefixes)}
        return batch | self.said_batch([item.response for item in items])

    def training_batch(self, items: Sequence[Exchange], rng: np.random.Generator) -> Batch:
        return self.collate(items)

    def save(self, folder: Path) -> None:
        self.tokens.tokenizer.save_pretrained(folder / "encoder")
        if self.tokenizer is not None:
            self.tokenizer.save_pretrained(folder / "decoder")
