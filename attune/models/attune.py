"""`attune`, our own system: it perceives, recalls, decides, and then a pretrained causal decoder says the reply.

The perceiver (a run of the system `perceiver`) reads the context once and tells the emotion and the label of the reply to give;
CKECE recalls concepts. These stand as a short control before each listener turn of the dialogue that the decoder reads
(`models/prompt.py`). The decoder's lower layers are as they were; the upper ones are trained through low-rank adapters, on whole
dialogues, one sequence each, with every listener turn as a target.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from attune.errors import SettingsError
from attune.models import register_system
from attune.models.adapters import MORE, rank_axis
from attune.models.layers.loss import smoothed_nll
from attune.models.pretrained import OnParts, PartsConfig, Role
from attune.models.pretrained.conversations import Conversation, ConversationCodec
from attune.models.pretrained.lora import add_lora, hold
from attune.models.pretrained.lower import LowerStates
from attune.models.pretrained.model import freeze_below, layers_of, read_weights
from attune.models.pretrained.speaking import IGNORE, Cache, Speaks


class AttuneConfig(PartsConfig):
    model_type = "attune-attune"

    decoder: str = "smollm2"
    """The decoder: the packaged `smollm2`, a folder, or a hub name of a Llama-type model with its chat form."""
    decoder_frozen: int = 15
    """Lower layers of the decoder that stay as they are, the embeddings with them."""
    lora_rank: int = 32
    """Rank of the adapters on the other layers (alpha twice the rank)."""
    lora_fixed: int = 0
    """Of that rank, so much stays as the run had it that training begins with; only what is added to it learns."""
    control_tokens: int = 24
    """Longest control before a listener turn."""
    concepts: int = 3
    """Concepts in a control (0: none)."""
    emotion: bool = True
    """Whether a control has the perceived emotion."""
    label: bool = True
    """Whether a control has the label of the reply to give."""
    dropped: float = 0.25
    """How often each part of a control is left out in training, so that the decoder also works without."""
    asked: float = 0.2
    """How often a control in training asks for the label that the reply has, instead of predicting one."""
    emotion_weight: float = 0.5
    """Weight of the loss by which the decoder itself learns to tell the emotion, as the word that a control begins with."""
    decoder_share: float = 0.5
    """How much what the decoder tells counts in what is perceived; the rest is the perceiver's (0: the perceiver alone)."""
    longest: int = 512
    """Longest dialogue in tokens; of a longer one the opening and the latest turns stay."""
    all_turns: bool = False
    """Whether the speaker's turns are targets in training too."""
    unlikelihood: float = 0.0
    """Weight of the loss of going on as most replies with the same beginning do, where the reply does not."""

    def __post_init__(self, **kwargs: Any) -> None:
        super().__post_init__(**kwargs)
        for what in ("dropped", "asked", "decoder_share"):
            if not 0 <= getattr(self, what) <= 1:
                raise SettingsError(f"{what} must be from 0 to 1, not {getattr(self, what)}")
        if self.lora_rank < 1:
            raise SettingsError(f"lora_rank must be at least 1, not {self.lora_rank}")
        if not 0 <= self.lora_fixed < self.lora_rank:
            raise SettingsError(
                f"lora_fixed must be from 0 to below lora_rank ({self.lora_rank}), not {self.lora_fixed}"
            )

    @property
    def roles(self) -> dict[Role, str]:
        return {"decoder": self.decoder}

    def from_base(self, role: Role) -> bool:
        return True

    @property
    def measures(self) -> frozenset[str]:
        return super().measures | {"ppl", "emotion_accuracy"}


@register_system("attune")
class Attune(Speaks, OnParts):
    config_class = AttuneConfig
    config: AttuneConfig
    codec_class = ConversationCodec
    family = "attune"
    turn_labels = True
    capabilities = frozenset({"perceive", "decide", "reply", "nll", "say"})

    def __init__(self, config: AttuneConfig, bases: dict[Role, Any] | None = None) -> None:
        super().__init__(config, bases)
        freeze_below(self.decoder, config.decoder_frozen)
        if config.decoder_frozen == len(layers_of(self.decoder)):
            raise SettingsError("decoder_frozen must leave a layer that can learn")
        add_lora(self.decoder, config.lora_rank, config.decoder_frozen)
        hold(self.decoder, config.lora_fixed)
        self.kept: LowerStates | None = None

    @classmethod
    def kept_weights(cls, folder: Path) -> dict[str, Tensor]:
        """Of an export, the adapters that stayed and those that were added (`lora_fixed`) stand in two files."""
        tensors = super().kept_weights(folder)
        if (folder / MORE).is_file():
            for name, added in read_weights(folder / MORE).items():
                tensors[name] = torch.cat([tensors[name], added], rank_axis(name) or 0)
        return tensors

    def encode(self, batch: Cache) -> Cache:
        """Nothing is read but the prompt, which is the decoder's prefix."""
        return {name: batch[name] for name in ("prefix", "prefix_real")}

    # — learning —

    def remember(self, items: Sequence[Conversation], folder: Path) -> None:
        """Keep what the frozen layers make of the training dialogues in this folder, as they come."""
        if self.config.decoder_frozen:
            self.kept = LowerStates(folder, [len(item.ids) for item in items], self.config.d_model)

    def lower(self, ids: Tensor) -> Tensor:
        """What the frozen layers make of dialogues padded on the right."""
        with torch.no_grad():
            below, _ = halves(self.decoder, self.config.decoder_frozen)
            return below(input_ids=ids, use_cache=False).last_hidden_state

    def losses(self, batch: Cache, tokens: int, examples: int) -> dict[str, Tensor]:
        """Over whole dialogues (`ids`, `target` [B, S], and in training `row` and `length` [B]), or over single examples."""
        smoothing = self.config.label_smoothing if self.training else 0.0
        if "ids" not in batch:
            loss, nll = self.token_nll(batch, self.encode(batch), smoothing)
            return {"reply": loss / tokens, "nll": nll.sum().detach() / tokens}
        ids, target = batch["ids"], batch["target"]
        if self.training and self.kept is not None:
            states = self.kept.states(batch["row"], batch["length"], lambda places: self.lower(ids[places]))
        else:
            states = self.lower(ids)
        _, above = halves(self.decoder, self.config.decoder_frozen)
        hidden = above(inputs_embeds=states, use_cache=False).last_hidden_state
        wanted = target != IGNORE
        head = self.decoder.get_output_embeddings()
        loss, nll = smoothed_nll(hidden[wanted], head.weight, head.bias, target[wanted], smoothing)
        terms = {"reply": loss / tokens, "nll": nll.sum().detach() / tokens}
        if self.config.emotion_weight:
            terms |= self._heard(hidden, batch["felt"], examples)
        if "common" in batch:
            terms["unlikelihood"] = self._commonplace(hidden, batch["common"]) / tokens
        return terms

    def _heard(self, hidden: Tensor, felt: Tensor, examples: int) -> dict[str, Tensor]:
        """How well the decoder tells the emotion where a control is about to begin; each dialogue counts once."""
        known = felt != IGNORE
        share = (1.0 / known.sum(1, keepdim=True).clamp_min(1)).expand_as(known)[known] / examples
        logits = self.decoder.get_output_embeddings()(hidden[known])
        wrong = nn.functional.cross_entropy(logits, felt[known], reduction="none")
        right = logits.argmax(-1) == felt[known]
        return {"emotion": self.config.emotion_weight * (wrong * share).sum(), "right": (right * share).sum().detach()}

    def _commonplace(self, hidden: Tensor, common: Tensor) -> Tensor:
        """How likely it is to go on as most replies do where the one at hand does not: -log(1 - p), weighted, summed."""
        there = common != IGNORE
        logits = self.decoder.get_output_embeddings()(hidden[there]).float()
        said = logits.log_softmax(-1).gather(1, common[there][:, None]).exp()
        return -self.config.unlikelihood * (1 - said).clamp_min(1e-4).log().sum()


def halves(decoder: Any, lower: int) -> tuple[nn.Module, nn.Module]:
    """A Llama-type decoder's layers below and from `lower` on, as two models that share its weights.

    The first ends with the state that the second takes for its embeddings.
    """
    base = decoder.base_model
    if not all(hasattr(base, part) for part in ("embed_tokens", "layers", "norm", "rotary_emb")):
        raise SettingsError(f"a {decoder.config.model_type} cannot be divided; the decoder must be of the Llama type")
    low, up = copy.copy(base), copy.copy(base)
    low._modules = {**base._modules, "layers": base.layers[:lower], "norm": nn.Identity()}
    up._modules = {**base._modules, "layers": base.layers[lower:]}
    return low, up
