"""`emoprepend`: what the tables of seeds 000, 001 and 004 call EmoPrepend-1 — the trunk with a joint emotion head.

Nothing is prepended in that baseline (FACTS A.2). Seed 003's own Prepend-k is the option `prepend` of any
system; its recipe here has it as the variants `prepend-1`, `prepend-3`, `prepend-5` and `topicprepend-1`.
"""

from __future__ import annotations

from attune.models import register_system
from attune.models.trunk import Trunk, TrunkConfig


class EmoPrependConfig(TrunkConfig):
    model_type = "attune-emoprepend"

    emotion_head: bool = True


@register_system("emoprepend")
class EmoPrepend(Trunk):
    config_class = EmoPrependConfig
