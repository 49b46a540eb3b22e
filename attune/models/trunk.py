"""The trunk: the word-level encoder–decoder that every system of seeds 001, 003 and 004 stands on.

A system subclasses :class:`Trunk` and overrides what makes it that system: how the memory is made
(`encode`), what the decoder starts from (`first_input`), which losses it adds (`own_losses`), what it reads
beside the words (`features`).
"""

from __future__ import annotations

import math
from typing import Any, Literal, NamedTuple

import torch
from tokenizers import Tokenizer
from torch import Tensor, nn
from torch.nn import functional as F
from transformers import PreTrainedConfig, PreTrainedModel
from transformers.utils.logging import disable_progress_bar

from attune.emotion.taxonomy import EMOTIONS
from attune.errors import SettingsError
from attune.models.codec import PAD, ROLE_ID, UNK, Batch, Features
from attune.models.layers.bag import BagClassifier
from attune.models.layers.blocks import Cache, Decoder, Encoder, Positions, Shape
from attune.models.layers.dropout import Dropout
from attune.models.layers.loss import emotion_terms, row_nll, smoothed_nll

disable_progress_bar()  # a bar for each file of a small model tells nobody anything


class TrunkConfig(PreTrainedConfig):
    """Settings of a word-level system; each is a recipe key under `model:`."""

    model_type = "attune-trunk"

    vocab_size: int = 0
    """Filled in from the vocabulary."""
    d_model: int = 300
    """Width of every layer."""
    encoder_layers: int = 1
    decoder_layers: int = 1
    heads: int = 2
    """Attention heads."""
    ffn: int = 600
    """Width inside the two-layer feed-forward part."""
    norm: Literal["post", "pre"] = "post"
    """Layer norm after each sub-layer, as the papers draw it, or before."""
    head_norm: bool = False
    """Layer norm of each attention head's queries and keys."""
    dropout: float = 0.0
    """Dropout on embeddings and on the output of every sub-layer."""
    vector_size: int = 0
    """Width of the input word vectors when it differs from d_model (0: the same); a learned projection follows."""
    tie_embeddings: bool = False
    """Score words with their input vectors (behind a projection to their width) instead of weights of their own."""
    copy: bool = False
    """Add a head that copies words of the context (seed 001's Transformer)."""
    emotion_head: bool = False
    """Predict the emotion from the CLS state and train it jointly."""
    emotion_weight: float = 1.0
    """Weight of the emotion loss (mean per example) beside the reply's loss (mean per token)."""
    emotion_dropout: float = 0.0
    """Dropout in front of the emotion head."""
    emotion_smoothing: float = 0.0
    """Label smoothing of the emotion loss in training."""
    label_smoothing: float = 0.0
    """Label smoothing of the reply's loss in training; scores are always without it."""
    context_turns: int | None = None
    """Only this many last turns of the context (seed 003: 4)."""
    context_tokens: int | None = None
    """Only this many last tokens of the context (seed 003: 100)."""
    prepend: Literal["none", "emotion", "topic"] = "none"
    """Prepend-k (seed 003): labels of a classifier in front of the context."""
    prepend_k: int = 1
    """How many labels Prepend-k puts in front."""
    ensemble: Literal["none", "emotion", "topic"] = "none"
    """Ensemble encoder (seed 003, Fig. 5): a classifier's representation joined to the encoder's states."""
    bag_labels: list[str] | None = None
    """Labels of the classifier behind `prepend` or `ensemble`; filled in from its training data."""
    bag_size: int = 64
    """Width of that classifier's representation."""
    bag_buckets: int = 65536
    """Hash buckets for that classifier's word pairs."""

    def __post_init__(self, **kwargs: Any) -> None:
        super().__post_init__(**kwargs)
        if self.d_model % self.heads:
            raise SettingsError(f"d_model {self.d_model} is not divisible by {self.heads} heads")
        for what in ("dropout", "emotion_dropout", "emotion_smoothing"):
            if not 0 <= getattr(self, what) < 1:
                raise SettingsError(f"{what} must be in [0, 1), not {getattr(self, what)}")
        if "none" not in (self.prepend, self.ensemble) and self.prepend != self.ensemble:
            raise SettingsError("prepend and ensemble share one classifier: give both the same labels")

    @property
    def shape(self) -> Shape:
        return Shape(self.d_model, self.heads, self.ffn, self.dropout, self.norm, self.head_norm)

    @property
    def measures(self) -> frozenset[str]:
        """What a training can be selected by."""
        return frozenset({"ppl", "loss"} | ({"emotion_accuracy"} if self.emotion_head else set()))

    @property
    def bag(self) -> str | None:
        """Which labels the extra classifier predicts, if there is one."""
        names = [name for name in (self.prepend, self.ensemble) if name != "none"]
        return names[0] if names else None


class Gate(NamedTuple):
    """Weights over the 32 emotions [B, 32] by which a system mixes parts of itself, and what they are, for people."""

    title: str
    note: str
    weights: Tensor


class Trunk(PreTrainedModel):
    """Encoder, decoder, word vectors, role embeddings, optional copy and emotion heads."""

    config_class = TrunkConfig
    config: TrunkConfig
    base_model_prefix = ""
    supports_gradient_checkpointing = False
    family = "word"
    """How it is prepared and opened: `attune.train.prepare`, `attune.generate.neural`."""
    corpus = "empathetic_dialogues"
    """The folder below ATTUNE_DATA that it is trained and scored on when no other is named."""
    protocol = "listener-turns"
    """The protocol that it is validated and scored on."""
    turn_labels = False
    """Whether it learns from the labels of the corpus's turns."""

    def __init__(self, config: TrunkConfig) -> None:
        super().__init__(config)
        d, size = config.d_model, config.vector_size or config.d_model
        self.vectors = nn.Embedding(config.vocab_size, size, padding_idx=PAD)
        self.widen = nn.Linear(size, d, bias=False) if size != d else nn.Identity()
        self.role_vectors = nn.Embedding(len(ROLE_ID), d)
        self.positions = Positions(d)
        self.dropout, self.emotion_dropout = Dropout(config.dropout), Dropout(config.emotion_dropout)
        self.encoder = Encoder(config.encoder_layers, config.shape)
        self.decoder = Decoder(config.decoder_layers, config.shape)
        if config.tie_embeddings:
            self.narrow = nn.Linear(d, size, bias=False) if size != d else nn.Identity()
            self.output_bias = nn.Parameter(torch.zeros(config.vocab_size))
        else:
            self.output = nn.Linear(d, config.vocab_size)
        if config.emotion_head:
            self.emotion = nn.Linear(d, len(EMOTIONS))
        if config.copy:
            self.copy_query, self.copy_gate = nn.Linear(d, d, bias=False), nn.Linear(d, 1)
        if config.bag:
            labels = config.bag_labels or []
            self.bag = BagClassifier(config.vocab_size, config.bag_buckets, config.bag_size, len(labels))
            self.bag.requires_grad_(False)
        if config.ensemble != "none":
            self.join = nn.Linear(d + config.bag_size, d)
        self.post_init()

    def get_input_embeddings(self) -> nn.Module:
        return self.vectors

    @property
    def capabilities(self) -> frozenset[str]:
        return frozenset({"reply", "nll", "attention"} | ({"perceive"} if self.config.emotion_head else set()))

    def _init_weights(self, module: nn.Module) -> None:
        if isinstance(module, nn.Linear):
            nn.init.xavier_uniform_(module.weight)
            if module.bias is not None:
                nn.init.zeros_(module.bias)
        elif isinstance(module, Trunk) and module.config.tie_embeddings:
            nn.init.zeros_(module.output_bias)
        elif isinstance(module, nn.Embedding):
            nn.init.normal_(module.weight, std=module.embedding_dim**-0.5)
            if module.padding_idx is not None:
                nn.init.zeros_(module.weight[module.padding_idx])

    @torch.no_grad()
    def set_vectors(self, rows: Tensor, values: Tensor) -> None:
        """Initialise the word vectors `rows` from pretrained ones, scaled to the size of the others."""
        self.vectors.weight[rows] = values / values.std() * self.vectors.weight.shape[1] ** -0.5

    def features(self, tokenizer: Tokenizer) -> Features | None:
        """What this system reads beside the words of the context."""
        return None

    # — reading —

    def words(self, ids: Tensor) -> Tensor:
        """[B, T] → [B, T, d]: word vectors scaled by √d.

        Where the output layer has the same table its gradient is dense already, and that of the few words here is added to it row by row.
        """
        found = F.embedding(ids, self.vectors.weight, PAD, sparse=self.config.tie_embeddings)
        return self.widen(found) * math.sqrt(self.config.d_model)

    def embed(self, ids: Tensor, offset: int = 0) -> Tensor:
        """[B, T] → [B, T, d]: words with their positions."""
        return self.words(ids) + self.positions(ids.shape[1], ids.device, offset)

    def read_words(self, batch: Batch) -> Tensor:
        """The encoder's states of the context [B, S, d]."""
        x = self.dropout(self.embed(batch["context"]) + self.role_vectors(batch["roles"]))
        memory = self.encoder(x, batch["real"])
        if self.config.ensemble != "none":
            # the classifier reads the words alone: CLS and prepended labels are not its input
            seen = batch["real"] & (batch["roles"] != ROLE_ID["cls"]) & (batch["roles"] != ROLE_ID["label"])
            view = self.bag.represent(batch["context"], seen)
            memory = self.join(torch.cat([memory, view[:, None].expand(-1, memory.shape[1], -1)], -1))
        return memory

    def encode(self, batch: Batch) -> dict[str, Tensor]:
        """Read the context: `memory` [B, S, d], `real` [B, S], and what this system adds. Batch-first tensors only."""
        memory = self.read_words(batch)
        read = {"memory": memory, "real": batch["real"], "responder": batch["responder"]}
        if self.config.emotion_head:
            read["emotion"] = self.emotion(self.emotion_dropout(memory[:, 0]))
        if self.config.copy:
            read["words"] = batch["context"]
        return read

    def perceive(self, batch: Batch) -> Tensor:
        """Emotion logits [B, 32]."""
        return self.encode(batch)["emotion"]

    # — saying: the interface that `attune.generate` decodes with —

    def start(self, read: dict[str, Tensor]) -> Cache:
        """A fresh decoding state over what was read. Every tensor is batch-first."""
        cache = self.decoder.start(read["memory"], read["real"])
        cache["responder"] = read["responder"]
        if self.config.copy:
            cache["words"], cache["copy_keys"] = read["words"], read["memory"]
        first = self.first_input(read)
        if first is not None:
            cache["first"] = first
        return cache

    def first_input(self, read: dict[str, Tensor]) -> Tensor | None:
        """[B, d] to take the place of BOS's embedding, or None to use BOS."""
        return None

    def decode(self, ids: Tensor, cache: Cache) -> Tensor:
        """Hidden states [B, T, d] of new positions; `cache` is extended."""
        return self.decoder(self.decoder_input(ids, cache), cache)

    def decoder_input(self, ids: Tensor, cache: Cache) -> Tensor:
        """[B, T, d]: what the decoder reads at new positions."""
        past = cache.get("0.self_key")
        offset = 0 if past is None else past.shape[2]
        x = self.embed(ids, offset)
        if offset == 0 and "first" in cache:
            x = torch.cat([(cache["first"] + self.positions(1, ids.device))[:, None], x[:, 1:]], 1)
        x = x + self.role_vectors(cache["responder"])[:, None]
        return self.dropout(x)

    def output_layer(self, hidden: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """States as the output layer takes them, its weight [V, ·] and its bias [V]."""
        if self.config.tie_embeddings:
            return self.narrow(hidden), self.vectors.weight, self.output_bias
        return hidden, self.output.weight, self.output.bias

    def scores(self, hidden: Tensor, cache: Cache) -> Tensor:
        """Scores over the vocabulary of the last positions' states [B, d] → [B, V] (log-probabilities up to a constant)."""
        logits = F.linear(*self.output_layer(hidden))
        if not self.config.copy:
            return logits
        weights, gate = self._copy(hidden[:, None], cache)
        mixed = torch.log_softmax(logits, -1) + F.logsigmoid(gate[:, 0])
        copied = torch.zeros_like(mixed).scatter_add_(1, cache["words"], weights[:, 0]).log()
        return torch.logaddexp(mixed, copied + F.logsigmoid(-gate[:, 0]))

    def _copy(self, hidden: Tensor, cache: Cache) -> tuple[Tensor, Tensor]:
        """Copy weights over the context's words [B, T, S] and the gate's logit for generating [B, T, 1]."""
        match = self.copy_query(hidden) @ cache["copy_keys"].transpose(1, 2) / math.sqrt(hidden.shape[-1])
        allowed = cache["memory_mask"] & (cache["words"] != UNK)
        allowed = torch.where(allowed.any(1, keepdim=True), allowed, cache["memory_mask"])
        return match.masked_fill(~allowed[:, None], -torch.inf).softmax(-1), self.copy_gate(hidden)

    # — being looked into: what `attune explain --run` draws —

    def looked_at(self, batch: Batch) -> dict[str, Tensor]:
        """What the memory is made of: the ids [B, n] of each group, in the memory's order."""
        return {"context": batch["context"]}

    def attention(self, ids: Tensor, read: dict[str, Tensor]) -> Tensor:
        """[B, T, S]: where the decoder looks in the memory when it says the word after each of `ids` (BOS first)."""
        cache = self.start(read)
        return self.decoder.watch(self.decoder_input(ids, cache), cache)

    def gates(self, read: dict[str, Tensor]) -> list[Gate]:
        """Of systems with the capability `gates`."""
        return []

    # — learning —

    def token_nll(self, batch: Batch, read: dict[str, Tensor], smoothing: float) -> tuple[Tensor, Tensor]:
        """Summed training loss over target tokens and each token's NLL, in the order of `batch["target"] != PAD`."""
        cache = self.start(read)
        return self.nll_of(self.decode(batch["response"], cache), cache, batch["target"], smoothing)

    def nll_of(self, hidden: Tensor, cache: Cache, target: Tensor, smoothing: float) -> tuple[Tensor, Tensor]:
        """The same of states that are there already."""
        wanted = target != PAD
        flat, gold = hidden[wanted], target[wanted]
        if not self.config.copy:
            return smoothed_nll(*self.output_layer(flat), gold, smoothing)
        generate = row_nll(*self.output_layer(flat), gold)
        weights, gate = self._copy(hidden, cache)
        same = cache["words"][:, None] == target[:, :, None]  # [B, T, S]
        copied = (weights * same).sum(-1)[wanted].clamp_min(1e-20).log()
        gate = gate[wanted].squeeze(-1)
        nll = -torch.logaddexp(F.logsigmoid(gate) - generate, F.logsigmoid(-gate) + copied)
        return nll.sum(), nll.detach()

    def losses(self, batch: Batch, tokens: int, examples: int) -> dict[str, Tensor]:
        """Loss terms, already weighted and divided by the whole batch's token and example counts; their sum is minimised."""
        read = self.encode(batch)
        cache = self.start(read)
        hidden = self.decode(batch["response"], cache)
        loss, nll = self.nll_of(hidden, cache, batch["target"], self.config.label_smoothing if self.training else 0.0)
        terms = {"reply": loss / tokens, "nll": nll.sum().detach() / tokens}
        if self.config.emotion_head:
            smoothing = self.config.emotion_smoothing if self.training else 0.0
            weight = self.config.emotion_weight
            terms |= emotion_terms(read["emotion"], batch["emotion"], weight, examples, smoothing)
        return terms | self.own_losses(batch, read, hidden, tokens, examples)

    def own_losses(
        self, batch: Batch, read: dict[str, Tensor], hidden: Tensor, tokens: int, examples: int
    ) -> dict[str, Tensor]:
        """Loss terms that a system adds, weighted and divided like those of :meth:`losses`."""
        return {}

    def forward(self, batch: Batch, tokens: int, examples: int) -> dict[str, Tensor]:
        return self.losses(batch, tokens, examples)
