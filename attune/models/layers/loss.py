"""Cross-entropy of a large softmax, with label smoothing, in one pass over the logits."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

CHUNK = 16_777_216  # logits held at once (64 MB in fp32)
BLOCK = 1024  # words of a product at once on a CPU: MKL takes 1.35 times as long for 20,000 at once (AVX2)


def _blocks(weight: Tensor) -> list[slice]:
    """The vocabulary in parts whose products are fast."""
    step = BLOCK if weight.device.type == "cpu" else len(weight)
    return [slice(start, start + step) for start in range(0, len(weight), step)]


def _logits(hidden: Tensor, weight: Tensor, bias: Tensor | None, dtype: torch.dtype) -> Tensor:
    """[N, d], [V, d] → [N, V] in `dtype`; the product is taken in theirs."""
    logits = torch.empty(len(hidden), len(weight), dtype=dtype, device=hidden.device)
    for words in _blocks(weight):
        logits[:, words] = hidden @ weight[words].T
    return logits if bias is None else logits.add_(bias)


def _of_weight(d_logits: Tensor, hidden: Tensor, weight: Tensor) -> Tensor:
    """The weight's gradient [V, d] of logits' gradient [N, V]."""
    found = torch.empty_like(weight)
    for words in _blocks(weight):
        found[words] = d_logits[:, words].T @ hidden
    return found


class _SmoothedNll(torch.autograd.Function):
    """Sum over rows of (smoothed loss, plain NLL).

    The gradient is formed from the same logits in the forward pass, in place, so a [rows, vocabulary]
    matrix is written once and never kept twice.
    """

    @staticmethod
    def forward(
        ctx: Any,
        hidden: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        target: Tensor,
        smoothing: float,
        short: torch.dtype,
    ) -> tuple[Tensor, Tensor]:
        rows, words = hidden.shape[0], weight.shape[0]
        of_hidden, of_weight, of_bias, *_ = ctx.needs_input_grad  # a frozen output layer costs no gradient
        nll = hidden.new_empty(rows)
        d_hidden = torch.empty_like(hidden) if of_hidden else None
        d_weight: Tensor | None = None
        d_bias = torch.zeros_like(bias) if of_bias and bias is not None else None
        loss = hidden.new_zeros(())
        if smoothing:  # the mean logit is linear in the state, so it costs one row instead of a pass over the logits
            mean_row = weight.mean(0)
            mean_bias = bias.mean() if bias is not None else 0.0
        step = max(1, CHUNK // words)
        narrow = weight.to(short)  # the products alone are taken in it
        for start in range(0, rows, step):
            part, gold = hidden[start : start + step], target[start : start + step]
            logits = _logits(part.to(short), narrow, bias, hidden.dtype)
            at_gold = logits.gather(1, gold[:, None]).squeeze(1)
            probs = torch.softmax(logits, 1, out=logits)
            here = -probs.gather(1, gold[:, None]).squeeze(1).clamp_min(1e-38).log()
            nll[start : start + step] = here
            loss += here.sum()
            if smoothing:
                loss += smoothing * (at_gold - part @ mean_row - mean_bias).sum()
            short_probs = probs.to(short)
            if d_hidden is not None:
                d_hidden[start : start + step] = short_probs @ narrow
                d_hidden[start : start + step] -= (1 - smoothing) * weight[gold]
            if of_weight:
                product = _of_weight(short_probs, part.to(short), weight)
                d_weight = product if d_weight is None else d_weight.add_(product)
                d_weight.index_add_(0, gold, part, alpha=smoothing - 1)
            if d_bias is not None:
                d_bias += probs.sum(0)
                d_bias.index_add_(0, gold, torch.ones_like(here), alpha=smoothing - 1)
        if smoothing and d_hidden is not None:
            d_hidden -= smoothing * mean_row
        if smoothing and d_weight is not None:
            d_weight -= smoothing / words * hidden.sum(0)
        if smoothing and d_bias is not None:
            d_bias -= smoothing * rows / words
        ctx.grads = (d_hidden, d_weight, d_bias)
        ctx.mark_non_differentiable(nll)
        return loss, nll

    @staticmethod
    def backward(ctx: Any, d_loss: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
        grads = [None if grad is None else grad.mul_(d_loss) for grad in ctx.grads]
        del ctx.grads
        return *grads, None, None, None


class _RowNll(torch.autograd.Function):
    """Each row's NLL, where rows will count differently; the probabilities are kept, and become the gradient in place."""

    @staticmethod
    def forward(ctx: Any, hidden: Tensor, weight: Tensor, bias: Tensor, target: Tensor, short: torch.dtype) -> Tensor:
        logits = _logits(hidden.to(short), weight.to(short), bias, hidden.dtype)
        probs = torch.softmax(logits, 1, out=logits)
        ctx.save_for_backward(hidden, weight, target)
        ctx.probs, ctx.short = probs, short
        return -probs.gather(1, target[:, None]).squeeze(1).clamp_min(1e-38).log()

    @staticmethod
    def backward(ctx: Any, counts: Tensor) -> tuple[Tensor | None, ...]:
        hidden, weight, target = ctx.saved_tensors
        d_logits = ctx.probs.mul_(counts[:, None])
        d_logits.scatter_add_(1, target[:, None], -counts[:, None])
        del ctx.probs
        d_bias, d_logits = d_logits.sum(0), d_logits.to(ctx.short)
        d_hidden = (d_logits @ weight.to(ctx.short)).to(hidden.dtype)
        return d_hidden, _of_weight(d_logits, hidden.to(ctx.short), weight), d_bias, None, None


def emotion_terms(
    logits: Tensor, gold: Tensor, weight: float, examples: int, smoothing: float = 0.0
) -> dict[str, Tensor]:
    """Weighted cross-entropy of emotions per example, and how many are right; what has no label is not counted."""
    wrong = F.cross_entropy(logits, gold, reduction="sum", label_smoothing=smoothing)  # ignores NO_EMOTION
    right = (logits.argmax(-1) == gold).sum().detach()
    return {"emotion": weight * wrong / examples, "right": right / examples}


def smoothed_nll(
    hidden: Tensor, weight: Tensor, bias: Tensor | None, target: Tensor, smoothing: float = 0.0
) -> tuple[Tensor, Tensor]:
    """Label-smoothed cross-entropy summed over rows, and each row's plain NLL (without gradient).

    `hidden` [N, d] holds only the positions that have a target; `weight` [V, d], `bias` [V] are the output layer.

    >>> hidden, weight = torch.zeros(2, 3), torch.zeros(4, 3)
    >>> loss, nll = smoothed_nll(hidden, weight, None, torch.tensor([0, 1]))
    >>> round(loss.item() / 2, 4) == round(nll[0].item(), 4) == 1.3863
    True
    """
    if not torch.is_grad_enabled():  # ctx.needs_input_grad does not tell
        hidden, weight, bias = hidden.detach(), weight.detach(), None if bias is None else bias.detach()
    with _in_full(hidden) as (hidden, short):
        return _SmoothedNll.apply(hidden, weight, bias, target, smoothing, short)


def row_nll(hidden: Tensor, weight: Tensor, bias: Tensor, target: Tensor) -> Tensor:
    """The NLL of each row [N], with gradient: for systems in which it is not simply summed.

    >>> hidden, weight, bias = torch.zeros(2, 3), torch.zeros(4, 3), torch.zeros(4)
    >>> [round(nll, 4) for nll in row_nll(hidden, weight, bias, torch.tensor([0, 1])).tolist()]
    [1.3863, 1.3863]
    """
    with _in_full(hidden) as (hidden, short):
        return _RowNll.apply(hidden, weight, bias, target, short)


@contextmanager
def _in_full(hidden: Tensor) -> Iterator[tuple[Tensor, torch.dtype]]:
    """States in full precision, and the precision to take products in: what is summed over a vocabulary is summed in full."""
    device = hidden.device.type
    if not torch.is_autocast_enabled(device):
        yield hidden, hidden.dtype
        return
    with torch.autocast(device, enabled=False):
        yield hidden.float(), torch.get_autocast_dtype(device)
