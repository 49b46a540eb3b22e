"""Low-rank adapters on the upper layers of a decoder or encoder."""

from __future__ import annotations

from typing import Any

from peft import LoraConfig, inject_adapter_in_model
from peft.tuners.tuners_utils import BaseTunerLayer
from torch import nn
from transformers.pytorch_utils import Conv1D

from attune.errors import SettingsError
from attune.models.pretrained.bases import NATIVE_CROSS
from attune.models.pretrained.model import freeze_below, layers_of


def leave_to_learn(decoder: Any, frozen: int, rank: int) -> None:
    """Freeze a decoder's lower layers; the others learn by their own weights, or with a `rank` by adapters."""
    freeze_below(decoder, frozen)
    if frozen == len(layers_of(decoder)):
        raise SettingsError("decoder_frozen must leave a layer that can learn")
    if rank:
        add_lora(decoder, rank, frozen)


def add_lora(model: Any, rank: int, first: int) -> None:
    """Put low-rank adapters on the linear parts of the layers from `first` on; everything else of the model is frozen."""
    inside = {id(module) for layer in layers_of(model)[first:] for module in layer.modules()}
    names = [
        name
        for name, module in model.named_modules()
        if isinstance(module, nn.Linear | Conv1D) and id(module) in inside and "cross" not in name
    ]
    gpt2 = model.config.model_type in NATIVE_CROSS  # its linear parts are stored the other way round
    inject_adapter_in_model(LoraConfig(r=rank, lora_alpha=2 * rank, target_modules=names, fan_in_fan_out=gpt2), model)


def merge_lora(model: Any) -> None:
    """Work a model's adapters into the weights they stand on: faster to use, and no longer to be trained."""
    for module in model.modules():
        if isinstance(module, BaseTunerLayer):
            module.merge()
