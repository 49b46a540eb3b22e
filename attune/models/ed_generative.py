"""`ed-generative`: seed 003's generative system, without its Reddit pre-training, which nobody outside has.

Four layers (`large`: five), six heads, 300-d, the last four turns and at most 100 tokens, diverse beam search.
"""

from __future__ import annotations

from attune.models import register_system
from attune.models.trunk import Trunk, TrunkConfig


class EdGenerativeConfig(TrunkConfig):
    model_type = "attune-ed-generative"

    encoder_layers: int = 4
    decoder_layers: int = 4
    heads: int = 6
    ffn: int = 1200
    context_turns: int | None = 4
    context_tokens: int | None = 100


@register_system("ed-generative")
class EdGenerative(Trunk):
    config_class = EdGenerativeConfig
