"""`kemp`: Knowledge-aware EMPathetic dialogue generation (seed 001). Numbers in brackets are the paper's equations.

The context becomes a graph of its words and the emotional concepts they lead to. Graph attention and an encoder read it, its intense vertices
give the emotional signal, and the decoder attends to it with that signal, and copies from it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from tokenizers import Tokenizer
from torch import Tensor, nn
from torch.nn import functional as F

from attune.dialogue.vocabulary import SPECIALS
from attune.emotion.taxonomy import EMOTIONS
from attune.errors import SettingsError
from attune.knowledge.graph import GraphBuilder
from attune.models import register_system
from attune.models.codec import PAD, Batch, pad
from attune.models.emotional_graph import GraphKeys, attention_loss, emotional_signal
from attune.models.layers.blocks import Cache, Decoder, DecoderLayer, Shape
from attune.models.layers.graph import GraphAttention
from attune.models.layers.loss import row_nll
from attune.models.trunk import Trunk, TrunkConfig


class KempConfig(GraphKeys, TrunkConfig):
    """Settings of `kemp`."""

    model_type = "attune-kemp"

    emotion_head: bool = True
    context_encoder: bool = True
    """false is the paper's w/o ECE: no concepts and no graph attention, and the signal is the CLS state."""
    emotional_decoder: bool = True
    """false is the paper's w/o EDD: starts from BOS, no signal in the cross-attention, no attention loss."""

    def __post_init__(self, **kwargs: Any) -> None:
        super().__post_init__(**kwargs)
        if self.copy or self.ensemble != "none":
            raise SettingsError(
                "kemp copies from its graph and has an encoder of its own: copy and ensemble are not for it"
            )


class GraphFeatures:
    """The emotional context graph beside the words: its concepts, where they hang, η of all vertices, and the edges."""

    read: tuple[str, ...] = ("concepts",)

    def __init__(self, vocabulary: dict[str, int], builder: GraphBuilder) -> None:
        self.vocabulary, self.builder = vocabulary, builder

    def compute(self, turns: Sequence[Sequence[str]]) -> dict[str, np.ndarray]:
        graph = self.builder.of_words(turns)
        words = 1 + len(graph.words)
        return {
            "concepts": np.array([self.vocabulary[one.concept] for one in graph.concepts], dtype=np.int32),
            "sources": graph.sources[words:].astype(np.int16),
            "intensity": graph.eta,
            "edges": graph.edges.astype(np.int16),
        }

    def collate(self, rows: Sequence[dict[str, np.ndarray]], batch: Batch) -> Batch:
        """Vertices are the padded context, then the padded concepts. Labels that Prepend-k put in front have no edges."""
        concepts = pad([row["concepts"] for row in rows])
        size, width = batch["context"].shape[1], batch["context"].shape[1] + concepts.shape[1]
        intensity = np.zeros((len(rows), width), dtype=np.float32)
        adjacency = np.zeros((len(rows), width, width), dtype=bool)
        sources = np.zeros(concepts.shape, dtype=np.int64)
        for i, (row, length) in enumerate(zip(rows, batch["real"].sum(1).tolist(), strict=True)):
            words = len(row["intensity"]) - len(row["concepts"])  # CLS counts
            places = np.concatenate(
                [[0], np.arange(1 + length - words, length), size + np.arange(len(row["concepts"]))]
            ).astype(np.int64)
            intensity[i, places] = row["intensity"]
            adjacency[i, places[row["edges"][:, 0]], places[row["edges"][:, 1]]] = True
            sources[i, : len(row["sources"])] = places[row["sources"]]
        return {
            "concepts": concepts,
            "sources": torch.from_numpy(sources),
            "intensity": torch.from_numpy(intensity),
            "adjacency": torch.from_numpy(adjacency),
        }


class CopyLayer(DecoderLayer):
    """A decoder layer that leaves its attention over the memory, averaged over heads, in the cache."""

    def attend_memory(self, x: Tensor, cache: Cache, prefix: str, mask: Tensor | None) -> Tensor:
        y = self.around_cross.enter(x)
        seen, cache[prefix + "attention"] = self.cross.look(
            y, cache[prefix + "cross_key"], cache[prefix + "cross_value"], mask
        )  # [11], [12], [15]
        return self.around_cross.leave(x, self.cross.out(self.context(seen, cache)))

    def context(self, seen: Tensor, cache: Cache) -> Tensor:
        return seen


class EmotionalLayer(CopyLayer):
    """Its context vector is c = [g_s; c_e], projected to the layer's width [13]."""

    def __init__(self, shape: Shape) -> None:
        super().__init__(shape)
        self.cross.out = nn.Linear(2 * shape.d_model, shape.d_model)

    def context(self, seen: Tensor, cache: Cache) -> Tensor:
        return torch.cat([seen, cache["signal"][:, None].expand_as(seen)], -1)


@register_system("kemp")
class Kemp(Trunk):
    config_class = KempConfig
    config: KempConfig

    def __init__(self, config: KempConfig) -> None:
        super().__init__(config)
        d = config.d_model
        layer = EmotionalLayer if config.emotional_decoder else CopyLayer
        self.decoder = Decoder(config.decoder_layers, config.shape, layer=layer)
        self.emotion = nn.Linear(d, len(EMOTIONS), bias=False)  # W_e [8]
        self.copy_gate = nn.Linear(d, 1)  # [18]
        if config.context_encoder:
            self.concept_state = nn.Embedding(1, d)
            self.graph = GraphAttention(d, config.heads, config.dropout)
        if config.emotional_decoder:
            self.signal_input = nn.Linear(len(EMOTIONS), d)  # W_z, b_z
        self.post_init()

    def features(self, tokenizer: Tokenizer) -> GraphFeatures:
        vocabulary = tokenizer.get_vocab()
        return GraphFeatures(vocabulary, self.config.graph_builder(vocabulary, self.config.context_encoder))

    def encode(self, batch: Batch) -> dict[str, Tensor]:
        x = self.embed(batch["context"]) + self.role_vectors(batch["roles"])
        if self.config.context_encoder:
            x = torch.cat([x, self.embed_concepts(batch)], 1)  # [2]
            x = self.graph(self.dropout(x), batch["adjacency"])  # [3], [4]
        else:
            x = self.dropout(x)
        real = torch.cat([batch["real"], batch["concepts"] != PAD], 1)
        memory = self.encoder(x, real)  # [5], [6]
        signal = memory[:, 0]
        if self.config.context_encoder:
            signal = emotional_signal(memory, batch["intensity"], real)  # c_e [7]
        return {
            "memory": memory,
            "real": real,
            "responder": batch["responder"],
            "words": torch.cat([batch["context"], batch["concepts"]], 1),
            "intensity": batch["intensity"],
            "signal": signal,
            "emotion": self.emotion(self.emotion_dropout(signal)),  # e_p [8]
        }

    def looked_at(self, batch: Batch) -> dict[str, Tensor]:
        return super().looked_at(batch) | {"concepts": batch["concepts"]}

    def embed_concepts(self, batch: Batch) -> Tensor:
        """A concept stands where the word stands that leads to it, and is told from words by its state."""
        table = self.positions(batch["context"].shape[1], batch["context"].device)
        return self.words(batch["concepts"]) + table[batch["sources"]] + self.concept_state.weight

    def first_input(self, read: dict[str, Tensor]) -> Tensor | None:
        return self.signal_input(read["emotion"]) if self.config.emotional_decoder else None  # e′_p

    def start(self, read: dict[str, Tensor]) -> Cache:
        return super().start(read) | {"signal": read["signal"], "words": read["words"]}

    def decode(self, ids: Tensor, cache: Cache) -> Tensor:
        """States with the last layer's attention behind them: [B, T, d + N]. Both make the next word's distribution."""
        states = super().decode(ids, cache)
        return torch.cat([states, cache[f"{self.config.decoder_layers - 1}.attention"]], -1)

    def output_layer(self, hidden: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        return super().output_layer(hidden[..., : self.config.d_model])

    def shares(self, hidden: Tensor, words: Tensor) -> tuple[Tensor, Tensor]:
        """How the next word's probability is shared [18], [19]: log of what is generated, and what each vertex copies.

        CLS, UNK and padding are no words to copy: what attention they get is generated.
        """
        states, attention = hidden.split([self.config.d_model, hidden.shape[-1] - self.config.d_model], -1)
        copied = attention * (words >= len(SPECIALS)) * torch.sigmoid(-self.copy_gate(states))
        return torch.log1p(-copied.sum(-1).clamp_max(1 - 1e-6)), copied

    def scores(self, hidden: Tensor, cache: Cache) -> Tensor:
        generated, copied = self.shares(hidden, cache["words"])
        log_probs = F.linear(*self.output_layer(hidden)).log_softmax(-1) + generated[:, None]  # [17]
        return torch.logaddexp(log_probs, torch.zeros_like(log_probs).scatter_add_(1, cache["words"], copied).log())

    def nll_of(self, hidden: Tensor, cache: Cache, target: Tensor, smoothing: float) -> tuple[Tensor, Tensor]:
        wanted = target != PAD
        flat, gold = hidden[wanted], target[wanted]
        words = cache["words"][wanted.nonzero()[:, 0]]  # [tokens, N]
        generated, copied = self.shares(flat, words)
        missed = row_nll(*self.output_layer(flat), gold)
        found = (copied * (words == gold[:, None])).sum(-1).clamp_min(1e-20).log()
        nll = -torch.logaddexp(generated - missed, found)  # [20]
        return nll.sum(), nll.detach()

    def own_losses(
        self, batch: Batch, read: dict[str, Tensor], hidden: Tensor, tokens: int, examples: int
    ) -> dict[str, Tensor]:
        if not self.config.emotional_decoder:
            return {}
        apart = attention_loss(hidden[..., self.config.d_model :], read["intensity"], read["real"])  # [16]
        return {"attention": self.config.attention_weight * apart[batch["target"] != PAD].sum() / tokens}
