"""Examples for an encoder that reads the context and a decoder that reads knowledge and says the response.

The decoder's input is `knowledge <SEP> response`; <SEP> is a token that the decoder knows already, and its end-of-text token
ends the response. The response is the raw text in the decoder's own tokens, nothing cut off.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from attune.dialogue.text import normal_form
from attune.dialogue.types import Context, Example
from attune.emotion.taxonomy import EMOTION_ID
from attune.errors import DataError, SettingsError
from attune.models.codec import NO_EMOTION
from attune.models.pretrained.speaking import IGNORE
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
_END_OF_TEXT = "<|endoftext|>"  # what stands between two texts in the training of many decoders
_SPOKEN = 64  # positions that the longest prefix must leave


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


class ExchangeCodec:
    """Text ↔ tensors. Without a decoder only contexts and emotions are read."""

    pad = IGNORE

    def __init__(self, config: Any, tokenizers: dict[str, Any]) -> None:
        bases = config.bases
        self.tokens = EncoderTokens(tokenizers["encoder"], config.context_tokens, bases["encoder"]["config"])
        self.tokenizer: Any = tokenizers.get("decoder")
        self.longest_prefix = config.knowledge_tokens
        self.knowledge = KNOWLEDGE[config.knowledge if self.tokenizer else "none"]()
        self.vocabulary = "?"
        if self.tokenizer is not None:
            settings = bases["decoder"]["config"]
            self.eos: int = self.tokenizer.eos_token_id
            if self.eos is None:
                raise SettingsError(f"the tokenizer of decoder '{config.decoder}' has no end-of-text token")
            self.bos = self._separator(config.separator)
            self.positions = int(settings.get("max_position_embeddings") or settings.get("n_positions") or 1 << 30)
            if self.longest_prefix + _SPOKEN > self.positions:
                most = self.positions - _SPOKEN
                raise SettingsError(
                    f"knowledge_tokens must be at most {most} with this decoder, not {self.longest_prefix}"
                )
            unused = range(len(self.tokenizer), settings["vocab_size"])
            self.forbidden = sorted({*self.tokenizer.all_special_ids, *unused} - {self.eos})
            self.vocabulary = f"{Path(config.decoder).name}-{len(self.tokenizer)}"

    def _separator(self, wanted: str | None) -> int:
        """The id of the token that goes before the response."""
        known = self.tokenizer.get_vocab()
        if wanted is None:
            first = self.tokenizer.bos_token_id
            return known.get(_END_OF_TEXT, self.eos if first is None else first)
        ids = [known[wanted]] if wanted in known else self._ids(wanted).tolist()
        if len(ids) != 1:
            raise SettingsError(f"separator must be one token of the decoder; {wanted!r} is {len(ids)}")
        return int(ids[0])

    def encode(self, examples: Sequence[Example], targets: bool = True) -> list[Exchange]:
        """Examples as ids. Without `targets` only the context is read: what a system may see at test time."""
        known = self.knowledge(examples)
        items = []
        for example, knowledge in zip(examples, known, strict=True):
            item = Exchange(
                context=self.tokens.ids([turn.text for turn in example.context]),
                prefix=self._ids(knowledge)[: self.longest_prefix],
                response=self._response(example) if targets else np.empty(0, np.int32),
                emotion=EMOTION_ID.get(example.emotion or "", NO_EMOTION) if targets else NO_EMOTION,
            )
            if len(item.response) and len(item.prefix) + len(item.response) > self.positions:
                raise DataError(
                    f"{example.id}: a response of {len(item.response):,} tokens; the decoder has {self.positions:,} positions"
                )
            items.append(item)
        return items

    def encode_contexts(self, contexts: Sequence[Context]) -> list[Exchange]:
        """Contexts alone, for perceiving and replying."""
        return self.encode([Example("", context, context[-1]) for context in contexts], targets=False)

    def _ids(self, text: str) -> np.ndarray:
        if not text:
            return np.empty(0, np.int32)
        return np.array(self.tokenizer.backend_tokenizer.encode(text, add_special_tokens=False).ids, dtype=np.int32)

    def _response(self, example: Example) -> np.ndarray:
        if self.tokenizer is None:
            return np.empty(0, np.int32)
        return np.append(self._ids(example.response.text), np.int32(self.eos))

    def collate(self, items: Sequence[Exchange]) -> Batch:
        batch = self.tokens.batch([item.context for item in items])
        batch["emotion"] = torch.tensor([item.emotion for item in items])
        if self.tokenizer is not None:
            prefixes = [item.prefix for item in items]
            batch |= {"prefix": pad(prefixes, self.eos), "prefix_real": real(prefixes)}
        if len(items[0].response):
            batch["target"] = pad([item.response for item in items], IGNORE)
            said = [np.append(np.int32(self.bos), item.response[:-1]) for item in items]
            batch["response"] = pad(said, self.eos)
        return batch

    def training_batch(self, items: Sequence[Exchange], rng: np.random.Generator) -> Batch:
        return self.collate(items)

    def said(self, ids: Sequence[int]) -> tuple[str, str]:
        """A reply in normal form, and as a person sees it."""
        text = " ".join(self.tokenizer.decode(ids, skip_special_tokens=True).split())
        return normal_form(text), text

    def save(self, folder: Path) -> None:
        self.tokens.tokenizer.save_pretrained(folder / "encoder")
        if self.tokenizer is not None:
            self.tokenizer.save_pretrained(folder / "decoder")
