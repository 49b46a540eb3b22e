"""What codecs of systems with a pretrained decoder share: its tokens, the response in them, and replies as text again.

The response is the raw text in the decoder's own tokens, nothing cut off. <SEP>, which goes before it, is a token that the decoder
knows already, and its end-of-text token ends it.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from attune.dialogue.text import normal_form
from attune.dialogue.types import Example
from attune.errors import DataError, SettingsError
from attune.models.pretrained.speaking import IGNORE
from attune.models.pretrained.tokens import Batch, pad

_END_OF_TEXT = "<|endoftext|>"  # what stands between two texts in the training of many decoders
_SPOKEN = 64  # positions that the longest prefix must leave


class SpeechCodec:
    """Responses ↔ ids of one decoder."""

    pad = IGNORE
    vocabulary = "?"
    tokenizer: Any = None

    def open_decoder(self, config: Any, tokenizer: Any, key: str) -> None:
        """Get ready to speak. `key` names the setting that limits what the decoder reads before the response."""
        settings, longest = config.bases["decoder"]["config"], getattr(config, key)
        self.tokenizer = tokenizer
        self.eos: int = tokenizer.eos_token_id
        if self.eos is None:
            raise SettingsError(f"the tokenizer of decoder '{config.decoder}' has no end-of-text token")
        self.bos = self._separator(config.separator)
        self.positions = int(settings.get("max_position_embeddings") or settings.get("n_positions") or 1 << 30)
        if longest + _SPOKEN > self.positions:
            raise SettingsError(f"{key} must be at most {self.positions - _SPOKEN} with this decoder, not {longest}")
        unused = range(len(tokenizer), settings["vocab_size"])
        self.forbidden = sorted({*tokenizer.all_special_ids, *unused} - {self.eos})
        self.vocabulary = f"{Path(config.decoder).name}-{len(tokenizer)}"

    def _separator(self, wanted: str | None) -> int:
        """The id of the token that goes before the response."""
        known = self.tokenizer.get_vocab()
        if wanted is None:
            first = self.tokenizer.bos_token_id
            return known.get(_END_OF_TEXT, self.eos if first is None else first)
        ids = [known[wanted]] if wanted in known else self.ids(wanted).tolist()
        if len(ids) != 1:
            raise SettingsError(f"separator must be one token of the decoder; {wanted!r} is {len(ids)}")
        return int(ids[0])

    def ids(self, text: str) -> np.ndarray:
        """[n] int32"""
        if not text:
            return np.empty(0, np.int32)
        return np.array(self.tokenizer.backend_tokenizer.encode(text, add_special_tokens=False).ids, dtype=np.int32)

    def response(self, example: Example, before: int) -> np.ndarray:
        """The response with its end, which must have room behind so many tokens."""
        found = np.append(self.ids(example.response.text), np.int32(self.eos))
        if before + len(found) > self.positions:
            raise DataError(
                f"{example.id}: a response of {len(found):,} tokens; the decoder has {self.positions:,} positions"
            )
        return found

    def said_batch(self, responses: Sequence[np.ndarray]) -> Batch:
        """`response`, which the decoder reads, and `target`, which it is to say; nothing of contexts alone."""
        if not len(responses[0]):
            return {}
        read = [np.append(np.int32(self.bos), ids[:-1]) for ids in responses]
        return {"target": pad(responses, IGNORE), "response": pad(read, self.eos)}

    def said(self, ids: Sequence[int]) -> tuple[str, str]:
        """A reply in normal form, and as a person sees it."""
        text = " ".join(self.tokenizer.decode(ids, skip_special_tokens=True).split())
        return normal_form(text), text

    def words(self, ids: Sequence[int]) -> list[str]:
        """Ids of a reply as tokens, one by one."""
        return [str(self.tokenizer.decode([i])) for i in ids]
