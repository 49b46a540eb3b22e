"""`transformer`: the baseline of seeds 000, 001 and 004. The trunk as it is; `copy: true` adds seed 001's copy head."""

from __future__ import annotations

from attune.models import register_system
from attune.models.trunk import Trunk, TrunkConfig


class TransformerConfig(TrunkConfig):
    model_type = "attune-transformer"


@register_system("transformer")
class Transformer(Trunk):
    config_class = TransformerConfig
