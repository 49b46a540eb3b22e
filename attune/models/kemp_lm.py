"""`kemp-lm`: KEMP on a pretrained causal decoder (seed 001's KEMP-DialoGPT). Numbers in brackets are the paper's equations.

The decoder reads the context, turn after turn. Its states of the context's words, and its embeddings of the concepts they lead to, are
the vertices of the emotional context graph; graph attention and an encoder read it and its intense vertices give the emotional signal.
When the decoder then says the response, emotional cross-attention in front of its upper layers looks at the graph. Each starts as the
identity, so that the untrained system says what the decoder says alone.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from attune.dialogue.text import normalise
from attune.dialogue.types import Context, Example
from attune.emotion.taxonomy import EMOTION_ID, EMOTIONS
from attune.errors import SettingsError
from attune.knowledge.graph import CONCEPT_KIND, ContextGraph, batch_graphs
from attune.models import register_system
from attune.models.codec import NO_EMOTION, Place
from attune.models.emotional_graph import GraphKeys, attention_loss, emotional_signal
from attune.models.layers.blocks import Encoder, Positions, Shape
from attune.models.layers.dropout import Dropout
from attune.models.layers.gated import GatedCrossAttention, insert_cross, start_cross
from attune.models.layers.graph import GraphAttention
from attune.models.layers.loss import emotion_terms
from attune.models.pretrained import OnParts, PartsConfig, Role
from attune.models.pretrained.lora import leave_to_learn
from attune.models.pretrained.model import layers_of
from attune.models.pretrained.speaking import IGNORE, Cache, Speaks
from attune.models.pretrained.speech import SpeechCodec
from attune.models.pretrained.tokens import Batch, pad, real

_NEAR = 8  # letters that may stand between a word and the next one that is found as it is written


class KempLmConfig(GraphKeys, PartsConfig):
    model_type = "attune-kemp-lm"

    decoder: str = "microsoft/DialoGPT-small"
    """The decoder: the packaged `smollm2`, a folder, or a hub name."""
    decoder_frozen: int = 0
    """Lower layers of the decoder that stay as they are, the embeddings with them (0: everything is trained)."""
    lora_rank: int = 0
    """Train the decoder's other layers by low-rank adapters (alpha twice the rank) instead of their weights (0: no)."""
    graph: bool = True
    """false is the bare decoder, trained the same way: no graph, no cross-attention, no emotion."""
    graph_layers: int = 1
    """The global layers behind the graph attention."""
    dropout: float = 0.1
    """Dropout in the graph's layers; the decoder keeps its own."""
    context_tokens: int = 256
    """Only this many last tokens of the context."""
    separator: str | None = None
    """The token between turns; null: `<|endoftext|>` if the decoder has it, else its beginning of text."""

    def __post_init__(self, **kwargs: Any) -> None:
        super().__post_init__(**kwargs)
        if not 0 <= self.dropout < 1:
            raise SettingsError(f"dropout must be in [0, 1), not {self.dropout}")
        if self.context_tokens < 2:
            raise SettingsError(f"context_tokens must be at least 2, not {self.context_tokens}")

    @property
    def roles(self) -> dict[Role, str]:
        return {"decoder": self.decoder}

    def from_base(self, role: Role) -> bool:
        return self.decoder_frozen > 0 or self.lora_rank > 0

    @property
    def measures(self) -> frozenset[str]:
        return super().measures | {"ppl"} | ({"emotion_accuracy"} if self.graph else set())


@dataclass(frozen=True, slots=True)
class Pictured:
    """One example as ids, with the graph of its context. `response` ends with EOS and is empty for a context alone."""

    context: np.ndarray  # [P] int32: <SEP> u1 <SEP> u2 …
    response: np.ndarray  # [T] int32
    graph: ContextGraph
    places: np.ndarray  # [1 + words] int16: the token of the context whose state each of CLS and the words has
    emotion: int = NO_EMOTION
    hidden: int = 0  # nothing hides behind an unknown word: sub-words know all

    @property
    def size(self) -> int:
        return len(self.context) + len(self.response)


class KempLmCodec(SpeechCodec):
    """Text ↔ tensors: the context in the decoder's tokens, and its graph in words."""

    def __init__(self, config: KempLmConfig, tokenizers: dict[str, Any]) -> None:
        self.open_decoder(config, tokenizers["decoder"], "context_tokens")
        self.longest, self.builder = config.context_tokens, config.graph_builder() if config.graph else None
        self._turn = lru_cache(maxsize=200_000)(self._turn_of)
        self.pieces = lru_cache(maxsize=200_000)(lambda concept: tuple(self.ids(f" {concept}").tolist()))

    def _turn_of(self, text: str) -> tuple[np.ndarray, tuple[str, ...], tuple[int, ...]]:
        """Ids of a turn, its words, and the token with which each word ends."""
        encoding = self.tokenizer.backend_tokenizer.encode(text, add_special_tokens=False)
        words, ends = tuple(normalise(text)), [end for _, end in encoding.offsets]
        places = (min(bisect_left(ends, end), len(ends) - 1) for end in word_ends(text, words))
        return np.array(encoding.ids, dtype=np.int32), words, tuple(places) if ends else ()

    def encode(self, examples: Sequence[Example], targets: bool = True) -> list[Pictured]:
        """Examples as ids. Without `targets` only the context is read: what a system may see at test time."""
        items = []
        for example in examples:
            context, graph, places = self.picture(example.context)
            items.append(
                Pictured(
                    context=context,
                    response=self.response(example, len(context)) if targets else np.empty(0, np.int32),
                    graph=graph,
                    places=places,
                    emotion=EMOTION_ID.get(example.emotion or "", NO_EMOTION) if targets else NO_EMOTION,
                )
            )
        return items

    def encode_contexts(self, contexts: Sequence[Context]) -> list[Pictured]:
        return self.encode([Example("", context, context[-1]) for context in contexts], targets=False)

    def picture(self, context: Context) -> tuple[np.ndarray, ContextGraph, np.ndarray]:
        """The context's last tokens, the graph of the words in them, and where CLS and the words stand."""
        read = [self._turn(turn.text) for turn in context]
        separator = np.array([self.bos], dtype=np.int32)
        whole = np.concatenate([part for ids, *_ in read for part in (separator, ids)])
        cut = max(0, len(whole) - self.longest)
        turns: list[list[str]] = []
        places, start = [len(whole) - cut - 1], 1  # CLS has the state that has read everything
        for ids, words, at in read:
            kept = [(word, start + token - cut) for word, token in zip(words, at) if start + token >= cut]
            turns.append([word for word, _ in kept])
            places += [place for _, place in kept]
            start += len(ids) + 1
        graph = self.builder.of_words(turns) if self.builder else ContextGraph((), (), (), ())
        return whole[cut:], graph, np.array(places, dtype=np.int16)

    def collate(self, items: Sequence[Pictured]) -> Batch:
        contexts = [item.context for item in items]
        batch = {"context": pad(contexts, self.eos), "real": real(contexts)}
        batch |= self.said_batch([item.response for item in items])
        if self.builder is None:
            return batch
        found = batch_graphs([item.graph for item in items])
        places, pieces = np.zeros(found["kinds"].shape, dtype=np.int64), []
        for row, item in enumerate(items):
            places[row, : len(item.places)] = item.places
            pieces += [np.array(self.pieces(one.concept), dtype=np.int64) for one in item.graph.concepts]
        graphs = {name: torch.from_numpy(found[name]) for name in ("mask", "kinds", "eta", "sources", "adjacency")}
        longest = max((len(ids) for ids in pieces), default=1)
        texts = torch.full((*graphs["kinds"].shape, longest), -1)
        texts[graphs["kinds"] == CONCEPT_KIND] = pad(pieces, -1) if pieces else texts.new_zeros(0, longest)
        emotions = torch.tensor([item.emotion for item in items])
        return batch | graphs | {"places": torch.from_numpy(places), "concepts": texts, "emotion": emotions}

    def training_batch(self, items: Sequence[Pictured], rng: np.random.Generator) -> Batch:
        return self.collate(items)

    def places(self, context: Context, looked_at: dict[str, Tensor]) -> list[Place]:
        """The vertices of a context's graph, as people see them."""
        _, graph, _ = self.picture(context)
        words = [Place(word, "context", turn) for word, turn in zip(graph.words, graph.turns)]
        return [Place("CLS", "context"), *words, *(Place(one.concept, "concepts") for one in graph.concepts)]

    def save(self, folder: Path) -> None:
        self.tokenizer.save_pretrained(folder / "decoder")


def word_ends(text: str, words: Sequence[str]) -> list[int]:
    """Where each word of the normal form ends in the text. One that is spelt differently ends where the one before it does.

    >>> word_ends("I can’t, Ann!", ["i", "can", "not", ",", "ann", "!"])
    [1, 5, 5, 8, 12, 13]
    """
    written = text.lower() if len(text.lower()) == len(text) else text
    ends, last = [], 0
    for word in words:
        found = written.find(word, last, last + _NEAR + len(word))
        last = found + len(word) if found >= 0 else last
        ends.append(max(last, 1))
    return ends


class EmotionalCross(GatedCrossAttention):
    """Gated cross-attention whose context vector is c = [g_s; c_e], projected to the decoder's width [13]."""

    def __init__(self, d_model: int, heads: int) -> None:
        super().__init__(d_model, heads, d_model)
        self.attention.out = nn.Linear(2 * d_model, d_model)

    def see(self, x: Tensor, key: Tensor, value: Tensor, mask: Tensor, cache: Cache, prefix: str) -> Tensor:
        seen, cache[prefix + "attention"] = self.attention.look(x, key, value, mask)  # [11], [12], [15]
        return self.attention.out(torch.cat([seen, cache["signal"][:, None].expand_as(seen)], -1))


@register_system("kemp-lm")
class KempLm(Speaks, OnParts):
    config_class = KempLmConfig
    config: KempLmConfig
    codec_class = KempLmCodec

    def __init__(self, config: KempLmConfig, bases: dict[Role, Any] | None = None) -> None:
        super().__init__(config, bases)
        drop_cross(self.decoder)
        leave_to_learn(self.decoder, config.decoder_frozen, config.lora_rank)
        if not config.graph:
            return
        shape = self.decoder.config
        d, heads = shape.hidden_size, shape.num_attention_heads
        self.from_word, self.from_concept = nn.Linear(d, d), nn.Linear(d, d)
        self.vertex_norm, self.state = nn.LayerNorm(d), nn.Embedding(3, d)  # of CLS, words and concepts
        self.positions, self.dropout = Positions(d), Dropout(config.dropout)
        self.graph = GraphAttention(d, heads, config.dropout)
        self.global_layers = Encoder(config.graph_layers, Shape(d, heads, 2 * d, config.dropout, "pre"))
        self.emotion = nn.Linear(d, len(EMOTIONS), bias=False)  # W_e [8]
        insert_cross(layers_of(self.decoder), config.decoder_frozen, lambda: EmotionalCross(d, heads))

    @property
    def capabilities(self) -> frozenset[str]:
        return frozenset({"reply", "nll"} | ({"perceive", "attention"} if self.config.graph else set()))

    # — reading —

    def encode(self, batch: Cache) -> Cache:
        """Read the context, then its graph: `memory` [B, N, d], `real` and `intensity` [B, N], `emotion` [B, 32]."""
        states, read = self.read_ahead(batch["context"], batch["real"])
        if not self.config.graph:
            return read
        x = self.graph(self.dropout(self.vertices(states, batch)), batch["adjacency"])  # [3], [4]
        memory = self.global_layers(x, batch["mask"])  # [5], [6]
        signal = emotional_signal(memory, batch["eta"], batch["mask"])  # c_e [7]
        told = {"memory": memory, "real": batch["mask"], "intensity": batch["eta"], "signal": signal}
        return read | told | {"emotion": self.emotion(signal)}  # e_p [8]

    def vertices(self, states: Tensor, batch: Cache) -> Tensor:
        """[B, N, d]: what the decoder makes of each word or concept, its position and its state [2].

        A word has the state of the token that ends it, CLS that of the last token, a concept the mean of its tokens' embeddings; a
        concept stands where the word stands that leads to it.
        """
        kinds, sources = batch["kinds"], batch["sources"]
        rows = torch.arange(len(states), device=states.device)[:, None]
        pieces = batch["concepts"]
        told = (pieces >= 0)[..., None]
        vectors = self.decoder.get_input_embeddings()(pieces.clamp_min(0)) * told
        concepts = vectors.sum(2) / told.sum(2).clamp_min(1)
        known = (kinds == CONCEPT_KIND)[..., None]
        x = torch.where(known, self.from_concept(concepts), self.from_word(states[rows, batch["places"]]))
        table = self.positions(kinds.shape[1], states.device)
        place = torch.where(sources >= 0, sources, torch.arange(kinds.shape[1], device=states.device))
        return self.vertex_norm(x) + table[place] + self.state(kinds)

    def perceive(self, batch: Cache) -> Tensor:
        """Emotion logits [B, 32]."""
        return self.encode(batch)["emotion"]

    # — saying —

    def start(self, read: Cache) -> Cache:
        cache = super().start(read)
        if not self.config.graph:
            return cache
        return cache | start_cross(layers_of(self.decoder), read["memory"], read["real"]) | {"signal": read["signal"]}

    def memory_arguments(self, cache: Cache) -> dict[str, Any]:
        return {"memory": cache} if self.config.graph else {}

    def looked_at(self, batch: Cache) -> dict[str, Tensor]:
        return {"context": batch["kinds"]}

    def attention(self, ids: Tensor, read: Cache) -> Tensor:
        """[B, T, N]: where the last layer looks in the graph."""
        cache = self.start(read)
        self.states(ids, cache)
        return self.last_attention(cache)

    def last_attention(self, cache: Cache) -> Tensor:
        return cache[f"{len(layers_of(self.decoder)) - 1}.attention"]

    # — learning —

    def losses(self, batch: Cache, tokens: int, examples: int) -> dict[str, Tensor]:
        read = self.encode(batch)
        cache = self.start(read)
        hidden = self.states(batch["response"], cache)
        loss, nll = self.nll_of(hidden, batch["target"], self.config.label_smoothing if self.training else 0.0)
        terms = {"reply": loss / tokens, "nll": nll.sum().detach() / tokens}
        if self.config.graph:
            terms |= emotion_terms(read["emotion"], batch["emotion"], self.config.emotion_weight, examples)
            apart = attention_loss(self.last_attention(cache), read["intensity"], read["real"])  # [16]
            terms["attention"] = self.config.attention_weight * apart[batch["target"] != IGNORE].sum() / tokens
        return terms


def drop_cross(decoder: Any) -> None:
    """Take off the cross-attention that a GPT-2 was given on the way here: it gets the gated one instead."""
    decoder.config.add_cross_attention = False
    for layer in layers_of(decoder):
        for part in ("crossattention", "ln_cross_attn"):
            if hasattr(layer, part):
                delattr(layer, part)
