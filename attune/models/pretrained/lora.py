"""Low-rank adapters on the upper layers of a decoder or encoder."""

from __future__ import annotations

from typing import Any

import torch
from peft import LoraConfig, inject_adapter_in_model
from peft.tuners.lora import Linear
from peft.tuners.tuners_utils import BaseTunerLayer
from torch import Tensor, nn
from transformers.pytorch_utils import Conv1D

from attune.errors import SettingsError
from attune.models.adapters import rank_axis
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
    config = LoraConfig(r=rank, lora_alpha=2 * rank, target_modules=names, fan_in_fan_out=gpt2)
    config._register_custom_module({nn.Linear: QuickLinear})
    inject_adapter_in_model(config, model)


def hold(model: Any, fixed: int) -> None:
    """Keep so much of the adapters' rank as it is: no gradient reaches it. It must not decay either."""
    for name, parameter in model.named_parameters():
        if fixed and (axis := rank_axis(name)) is not None:
            learns = torch.arange(parameter.shape[axis]) >= fixed
            learns = learns[:, None] if axis == 0 else learns
            parameter.register_hook(lambda gradient, learns=learns: gradient * learns.to(gradient.device))


def merge_lora(model: Any) -> None:
    """Work a model's adapters into the weights they stand on: faster to use, and no longer to be trained."""
    for module in model.modules():
        if isinstance(module, BaseTunerLayer):
            module.merge()


class QuickLinear(Linear):
    """peft's adapted linear layer, which learns in fewer passes over memory: the same numbers, up to rounding."""

    def forward(self, x: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        name, *others = self.active_adapters
        if self.merged or self.disable_adapters or others or args or kwargs or not torch.is_grad_enabled():
            return super().forward(x, *args, **kwargs)
        device = x.device.type
        base: Any = self.base_layer
        kind = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else x.dtype
        x, a, b = x.to(kind), self.lora_A[name].weight.to(kind), self.lora_B[name].weight.to(kind)
        bias = None if base.bias is None else base.bias.detach().to(kind)
        return _Adapted.apply(x, base.weight.detach().to(kind), bias, a, b, self.scaling[name])


class _Adapted(torch.autograd.Function):
    """x W' + bias + s (x A') B' and its gradient. Sums are taken within the products, and the small factor is scaled."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None, a: Tensor, b: Tensor, scaling: float
    ) -> Tensor:
        rows = x.reshape(-1, x.shape[-1])
        low, grown = rows @ a.T, b * scaling
        ctx.save_for_backward(rows, weight, a, grown, low)
        ctx.scaling = scaling
        plain = rows @ weight.T if bias is None else torch.addmm(bias, rows, weight.T)
        return plain.addmm_(low, grown.T).view(*x.shape[:-1], -1)

    @staticmethod
    def backward(ctx: Any, d_out: Tensor) -> tuple[Tensor | None, ...]:
        rows, weight, a, grown, low = ctx.saved_tensors
        d_rows = d_out.reshape(-1, d_out.shape[-1])
        d_low = d_rows @ grown
        d_x = (d_rows @ weight).addmm_(d_low, a).view(*d_out.shape[:-1], -1) if ctx.needs_input_grad[0] else None
        return d_x, None, None, d_low.T @ rows, (d_rows.T @ low).mul_(ctx.scaling), None
