"""`roberta-gpt2` (seed 000, section 3.2): a pretrained encoder reads the dialogue, a pretrained decoder answers.

The encoder reads `<CLS> u1 <SEP> u2 <SEP> …`; an emotion head stands on its pooled state; its states are the memory of the
decoder's cross-attention. The decoder reads CKECE's concepts, then says the response. Both losses are minimised together.
GPT-2 has cross-attention of its own; a decoder without (Llama-type) gets gated cross-attention that starts as the identity.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from attune.emotion.taxonomy import EMOTIONS
from attune.errors import SettingsError, did_you_mean
from attune.models import register_system
from attune.models.layers.gated import GatedCrossAttention, insert_cross, start_cross
from attune.models.layers.loss import emotion_terms
from attune.models.pretrained import BasesConfig, OnBases, Role
from attune.models.pretrained.bases import NATIVE_CROSS
from attune.models.pretrained.exchange import KNOWLEDGE, ExchangeCodec
from attune.models.pretrained.lora import leave_to_learn
from attune.models.pretrained.model import layers_of
from attune.models.pretrained.speaking import Cache, Speaks


class RobertaGpt2Config(BasesConfig):
    model_type = "attune-roberta-gpt2"

    encoder: str = "FacebookAI/roberta-base"
    decoder: str | None = "openai-community/gpt2"
    """The decoder: the packaged `smollm2`, a folder, or a hub name; null leaves the encoder with its emotion head alone."""
    decoder_frozen: int = 0
    """Lower layers of the decoder that stay as they are, the embeddings with them (0: everything is trained)."""
    lora_rank: int = 0
    """Train the decoder's other layers by low-rank adapters (alpha twice the rank) instead of their weights (0: no)."""
    knowledge: str = "ckece"
    """What the decoder reads before the response: ckece, or none."""
    knowledge_tokens: int = 128
    """Only this many first tokens of it."""
    separator: str | None = None
    """The token between that and the response; null: `<|endoftext|>` if the decoder has it, else its beginning of text."""
    context_tokens: int = 256
    """Only this many last tokens of the context."""
    emotion_weight: float = 1.0
    """Weight of the emotion loss (mean per example) beside the response's loss (mean per token)."""

    def __post_init__(self, **kwargs: Any) -> None:
        super().__post_init__(**kwargs)
        if self.knowledge not in KNOWLEDGE:
            raise SettingsError(did_you_mean(self.knowledge, KNOWLEDGE, "knowledge"))

    @property
    def measures(self) -> frozenset[str]:
        return super().measures | {"emotion_accuracy"} | ({"ppl"} if self.decoder else set())

    @property
    def roles(self) -> dict[Role, str]:
        return super().roles | ({"decoder": self.decoder} if self.decoder else {})

    def from_base(self, role: Role) -> bool:
        return super().from_base(role) or (role == "decoder" and (self.decoder_frozen > 0 or self.lora_rank > 0))


@register_system("roberta-gpt2")
class RobertaGpt2(Speaks, OnBases):
    config_class = RobertaGpt2Config
    config: RobertaGpt2Config
    codec_class = ExchangeCodec

    def __init__(self, config: RobertaGpt2Config, bases: dict[Role, Any] | None = None) -> None:
        super().__init__(config, bases)
        width = self.encoder.config.hidden_size
        self.emotion = nn.Linear(width, len(EMOTIONS))
        if not config.decoder:
            return
        leave_to_learn(self.decoder, config.decoder_frozen, config.lora_rank)
        shape = self.decoder.config
        self.own_cross = shape.model_type in NATIVE_CROSS
        if self.own_cross:
            self.bridge = nn.Identity() if width == shape.hidden_size else nn.Linear(width, shape.hidden_size)
            for name, parameter in self.decoder.named_parameters():
                if "cross" in name:  # new in every layer
                    parameter.requires_grad_(True)
            return
        insert_cross(
            layers_of(self.decoder),
            config.decoder_frozen,
            lambda: GatedCrossAttention(shape.hidden_size, shape.num_attention_heads, width),
        )

    @property
    def capabilities(self) -> frozenset[str]:
        return frozenset({"perceive", "reply", "nll"} if self.config.decoder else {"perceive"})

    # — reading —

    def encode(self, batch: Cache) -> Cache:
        """Read the context: `memory` [B, S, d], `real` [B, S], `emotion` [B, 32], and the decoder's prefix."""
        states = self.read_states(batch["context"], batch["real"])
        read = {"memory": states, "real": batch["real"]}
        read["emotion"] = self.emotion(self.dropout(self.pool(states, batch["real"])))
        return read | {name: batch[name] for name in ("prefix", "prefix_real") if name in batch}

    def perceive(self, batch: Cache) -> Tensor:
        """Emotion logits [B, 32]."""
        return self.encode(batch)["emotion"]

    # — saying —

    def start(self, read: Cache) -> Cache:
        if self.own_cross:
            return super().start(read) | {"memory": self.bridge(read["memory"]), "memory_mask": read["real"]}
        return super().start(read) | start_cross(layers_of(self.decoder), read["memory"], read["real"])

    def memory_arguments(self, cache: Cache) -> dict[str, Any]:
        if self.own_cross:
            return {"encoder_hidden_states": cache["memory"], "encoder_attention_mask": cache["memory_mask"]}
        return {"memory": cache}

    # — learning —

    def losses(self, batch: Cache, tokens: int, examples: int) -> dict[str, Tensor]:
        read = self.encode(batch)
        terms = emotion_terms(read["emotion"], batch["emotion"], self.config.emotion_weight, examples)
        if self.config.decoder:
            loss, nll = self.token_nll(batch, read, self.config.label_smoothing if self.training else 0.0)
            terms |= {"reply": loss / tokens, "nll": nll.sum().detach() / tokens}
        return terms
