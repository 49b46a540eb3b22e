"""The system `attune` in torch: the reference path. The light one, without torch, is `generate/light.py`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from attune.dialogue.types import Context
from attune.generate.controls import Concepts, ContextControls, Ear, Perceives
from attune.generate.decoding import decode, stream
from attune.generate.engines.torch import TorchEngine
from attune.generate.neural import by_length
from attune.generate.pretrained import PretrainedSystem
from attune.generate.saying import Ask, Candidate, finished
from attune.generate.settings import Decoding
from attune.generate.systems import Progress, needed, open_system, run_decoding, told
from attune.models import SYSTEMS
from attune.models.pretrained.conversations import Asked, ConversationCodec

PERCEIVER = "perceiver"  # the folder of a run that holds the perceiver's


class AttuneSystem(PretrainedSystem):
    """The decoder with its perceiver and what it recalls."""

    codec: ConversationCodec

    def __init__(
        self, model: Any, codec: Any, name: str, decoding: Decoding, perceiver: Perceives, path: Path | None = None
    ) -> None:
        super().__init__(model, codec, name, decoding, path)
        self.perceiver = perceiver
        engine = TorchEngine(model.decoder, codec.tokenizer.backend_tokenizer, eos=codec.eos)
        self.controls = ContextControls(
            perceiver,
            Concepts() if model.config.concepts else None,
            Ear(engine, codec.prompts, codec.shown),
            model.config.decoder_share if model.config.emotion_weight else 0.0,
        )
        codec.controls = self.controls

    def perceive(self, contexts: Sequence[Context], *, progress: Progress | None = None) -> np.ndarray:
        return told(self.controls.perceive(contexts), progress)

    def decide(self, contexts: Sequence[Context], *, progress: Progress | None = None) -> np.ndarray:
        return told(self.perceiver.decide(contexts), progress)

    # — a Speaker —

    def candidates(self, asks: Sequence[Ask]) -> list[list[Candidate]]:
        found: list[list[Candidate]] = [[] for _ in asks]
        rows = [(place, ask.seed + i) for place, ask in enumerate(asks) for i in range(ask.count)]
        items = [self._item(ask) for ask in asks]
        for decoding in dict.fromkeys(ask.decoding or self.decoding for ask in asks):
            mine = [row for row in rows if (asks[row[0]].decoding or self.decoding) == decoding]
            for places in by_length([items[place] for place, _ in mine], self.batch):
                batch = [mine[i] for i in places]
                read = self.codec.collate([items[place] for place, _ in batch])
                said = decode(
                    self.model,
                    read,
                    decoding,
                    bos=self.codec.bos,
                    eos=self.codec.eos,
                    forbidden=self.codec.forbidden,
                    seeds=[seed for _, seed in batch],
                )
                for (place, _), ids, logprob in zip(batch, said, self._logprobs(batch, items, said), strict=True):
                    text = finished(self.codec.said(ids)[1], ended=len(ids) < decoding.max_steps)
                    found[place].append(Candidate(text, logprob, len(ids) + 1))
        return found

    def _logprobs(
        self, batch: Sequence[tuple[int, int]], items: Sequence[Asked], said: Sequence[Sequence[int]]
    ) -> list[float]:
        """How probable each reply was, its end included."""
        done = [
            Asked(items[place].context, np.array([*ids, self.codec.eos], dtype=np.int32))
            for (place, _), ids in zip(batch, said, strict=True)
        ]
        tensors = self.codec.collate(done)
        with torch.inference_mode():
            _, nll = self.model.token_nll(tensors, self.model.encode(tensors), 0.0)
        return [-float(part.sum()) for part in nll.split([len(item.response) for item in done])]

    def stream(self, ask: Ask) -> Iterator[str]:
        tokens: list[int] = []
        told = ""
        read = self.codec.collate([self._item(ask)])
        for token in stream(
            self.model,
            read,
            ask.decoding or self.decoding,
            bos=self.codec.bos,
            eos=self.codec.eos,
            forbidden=self.codec.forbidden,
            seed=ask.seed,
        ):
            tokens.append(token)
            text = self.codec.prompts.text(tokens)
            if text.startswith(told) and not text.endswith("\ufffd"):  # half a character waits for its other half
                yield text[len(told) :]
                told = text
        if tokens and (text := self.codec.prompts.text(tokens)).startswith(told):
            yield text[len(told) :]

    def _item(self, ask: Ask) -> Asked:
        self.controls.learn({ask.context: ask.control})  # when the conversation goes on, the same is read again
        earlier = self.controls.of([ask.context[:i] for i, turn in enumerate(ask.context) if turn.role == "listener"])
        return Asked(self.codec.prompt(ask.context, [*earlier, ask.control.checked()]), np.empty(0, np.int32))


def open_attune(path: Path, name: str) -> AttuneSystem:
    """Open a run of the system `attune`."""
    needed(path, "decoder/tokenizer.json", "model.safetensors", f"{PERCEIVER}/config.json")
    model, codec = SYSTEMS[name].open(path)
    return AttuneSystem(model, codec, name, run_decoding(path), open_system(path / PERCEIVER), path)
