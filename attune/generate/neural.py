"""Systems that are networks, as their users meet them: the reference path in torch."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tokenizers import Tokenizer
from torch import Tensor

from attune.dialogue.types import Context, Example
from attune.emotion.taxonomy import EMOTIONS, LABELS
from attune.generate.decoding import decode
from attune.generate.settings import Decoding
from attune.generate.systems import Answer, Progress, Said, TokenNll, needed, run_decoding
from attune.models import SYSTEMS
from attune.models.codec import PAD, Batch, Codec, WordCodec


class NeuralSystem:
    """A model with its codec: the reference path of every system that is a network. It offers what the model offers."""

    batch = 128
    """Contexts read at once."""

    def __init__(self, model: Any, codec: Codec, name: str, decoding: Decoding, path: Path | None = None) -> None:
        self.model, self.codec, self.name, self.decoding, self.path = model.eval(), codec, name, decoding, path
        self.capabilities: frozenset[str] = model.capabilities
        self.corpus, self.protocol = model.corpus, model.protocol

    def reply(
        self,
        contexts: Sequence[Context],
        *,
        decoding: Decoding | None = None,
        seed: int = 0,
        progress: Progress | None = None,
    ) -> list[Said]:
        """Replies in the order of `contexts`. The same context and seed give the same reply in any batch."""
        decoding = decoding or self.decoding
        items = self.codec.encode_contexts(contexts)
        said: list[Said | None] = [None] * len(items)
        for places in by_length(items, max(1, self.batch // decoding.beams)):
            here = [items[i] for i in places]
            with torch.inference_mode():
                read = self.model.encode(self.codec.collate(here))
            for i, one in zip(places, self._say(here, read, decoding, seed), strict=True):
                said[i] = one
            if progress:
                progress(len(places))
        return [one for one in said if one is not None]

    def _say(self, items: Sequence[Any], read: Batch, decoding: Decoding, seed: int) -> list[Said]:
        ids = decode(
            self.model,
            read,
            decoding,
            bos=self.codec.bos,
            eos=self.codec.eos,
            forbidden=self.codec.forbidden,
            seeds=[zlib.crc32(item.context.tobytes(), seed) for item in items],
        )
        return [Said(*self.codec.said(tokens)) for tokens in ids]

    def nll(self, examples: Sequence[Example], *, progress: Progress | None = None) -> list[TokenNll]:
        items = self.codec.encode(examples)
        found: list[TokenNll | None] = [None] * len(items)
        for places in by_length(items, max(1, self.batch // 2)):
            here = [items[i] for i in places]
            batch = self.codec.collate(here)
            with torch.inference_mode():
                read = self.model.encode(batch)
            for i, one in zip(places, self._likelihoods(here, batch, read), strict=True):
                found[i] = one
            if progress:
                progress(len(places))
        return [one for one in found if one is not None]

    def _likelihoods(self, items: Sequence[Any], batch: Batch, read: Batch) -> list[TokenNll]:
        with torch.inference_mode():
            _, nll = self.model.token_nll(batch, read, 0.0)
        counts = (batch["target"] != self.codec.pad).sum(1).tolist()
        return [
            TokenNll(float(one.double().sum()), len(one), item.hidden)
            for one, item in zip(nll.split(counts), items, strict=True)
        ]

    def answers(self, examples: Sequence[Example], *, seed: int = 0) -> list[Answer]:
        """What :meth:`perceive`, :meth:`nll` and :meth:`reply` say, with each context read once instead of three times.

        What is read is the contexts alone; the references are scored from it, those of like length together.
        """
        items = self.codec.encode_contexts([example.context for example in examples])
        gold = self.codec.encode(examples) if "nll" in self.capabilities else []
        found = [Answer()] * len(items)
        for places in by_length(items, self.batch):
            here = [items[i] for i in places]
            with torch.inference_mode():
                read = self.model.encode(self.codec.collate(here))
            if "perceive" in self.capabilities:
                for i, felt in zip(places, read["emotion"].softmax(-1).numpy(), strict=True):
                    found[i] = found[i]._replace(felt=felt)
            for rows in by_length([gold[i] for i in places], max(1, self.batch // 4)) if gold else ():
                spoken = [gold[places[row]] for row in rows]
                part = {name: value[rows] for name, value in read.items()}
                for row, one in zip(rows, self._likelihoods(spoken, self.codec.collate(spoken), part), strict=True):
                    found[places[row]] = found[places[row]]._replace(nll=one)
            if "reply" in self.capabilities:
                for i, said in zip(places, self._say(here, read, self.decoding, seed), strict=True):
                    found[i] = found[i]._replace(said=said)
        return found

    def perceive(self, contexts: Sequence[Context], *, progress: Progress | None = None) -> np.ndarray:
        """[n, 32] probabilities in the order of EMOTIONS."""
        return self._shares(contexts, self.model.perceive, len(EMOTIONS), progress)

    def decide(self, contexts: Sequence[Context], *, progress: Progress | None = None) -> np.ndarray:
        """[n, 41] probabilities of the label of the reply to give, in the order of LABELS."""
        return self._shares(contexts, self.model.decide, len(LABELS), progress)

    def _shares(
        self, contexts: Sequence[Context], head: Callable[[Batch], Tensor], width: int, progress: Progress | None
    ) -> np.ndarray:
        items = self.codec.encode_contexts(contexts)
        found = np.zeros((len(items), width), dtype=np.float32)
        for places in by_length(items, self.batch):
            with torch.inference_mode():
                found[places] = head(self.codec.collate([items[i] for i in places])).softmax(-1).numpy()
            if progress:
                progress(len(places))
        return found


class WordSystem(NeuralSystem):
    """A word-level model with its codec."""

    codec: WordCodec


def open_words(path: Path, name: str) -> WordSystem:
    """Open the run of a word-level system."""
    needed(path, "tokenizer.json", "model.safetensors")
    model = SYSTEMS[name].from_pretrained(path, dtype=torch.float32)
    codec = word_codec(model, Tokenizer.from_file(str(path / "tokenizer.json")))
    return WordSystem(model, codec, name, run_decoding(path), path)


def word_codec(model: Any, tokenizer: Tokenizer, singletons: Sequence[int] = ()) -> WordCodec:
    """The codec that a word-level model's configuration asks for, Prepend-k included."""
    config = model.config
    codec = WordCodec(
        tokenizer, config.context_turns, config.context_tokens, singletons, features=model.features(tokenizer)
    )
    if config.prepend != "none":
        label_ids = [tokenizer.token_to_id(label) for label in config.bag_labels]

        def labels(contexts: Sequence[np.ndarray]) -> list[list[int]]:
            fronts: list[list[int]] = []
            for start in range(0, len(contexts), 256):
                part = contexts[start : start + 256]
                ids = torch.zeros(len(part), max(2, *(len(c) for c in part)), dtype=torch.long)
                for row, words in enumerate(part):
                    ids[row, : len(words)] = torch.from_numpy(words.astype(np.int64))
                with torch.inference_mode():
                    best = model.bag(ids, ids != PAD).topk(config.prepend_k).indices
                fronts += [[label_ids[i] for i in row] for row in best.tolist()]
            return fronts

        codec.labels = labels
    return codec


def by_length(items: Sequence[Any], size: int) -> Iterator[list[int]]:
    """Places of items of like length, in batches."""
    order = sorted(range(len(items)), key=lambda i: items[i].size)
    for start in range(0, len(order), size):
        yield order[start : start + size]
