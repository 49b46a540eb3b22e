"""The small interface of what decodes replies: prompts and replies are token ids of one decoder. No torch here."""

from __future__ import annotations

import threading
from collections.abc import Generator, Sequence
from typing import NamedTuple, Protocol

import numpy as np
from tokenizers import Tokenizer

from attune.generate.settings import Decoding
from attune.generate.systems import TokenNll


class Generated(NamedTuple):
    """A reply. `logprobs` has one number more than `ids` if the reply came to its end by itself: that of the end.

    They are the model's own, in nats, before anything was forbidden or the distribution sharpened.
    """

    ids: tuple[int, ...]
    logprobs: tuple[float, ...]


class Engine(Protocol):
    """Decodes replies, several at once. Threads may share one engine."""

    tokenizer: Tokenizer
    eos: int

    def generate(
        self,
        prompts: Sequence[Sequence[int]],
        decodings: Sequence[Decoding],
        seeds: Sequence[int],
        *,
        stop: threading.Event | None = None,
        scored: bool = True,
    ) -> list[Generated]:
        """A reply to each prompt, none of them empty. Prompts that are the same are read once.

        When `stop` is set, what has been said so far comes back. Unless it is to be `scored`, a reply may lack its `logprobs`.
        """
        ...

    def stream(self, prompt: Sequence[int], decoding: Decoding, seed: int = 0) -> Generator[str, None, None]:
        """Pieces of the text of a reply as they are said. Closing the iterator stops the decoding."""
        ...

    def nll(self, prompts: Sequence[Sequence[int]], continuations: Sequence[Sequence[int]]) -> list[TokenNll]:
        """What the model makes of given continuations; an end that counts stands in them."""
        ...

    def after(self, prompts: Sequence[Sequence[int]], tokens: Sequence[int]) -> np.ndarray:
        """[n, len(tokens)]: the log-probability that each of these tokens comes next, as far as it can be told."""
        ...

    def close(self) -> None:
        """Give back what the engine holds; whatever is under way is stopped first."""
        ...
