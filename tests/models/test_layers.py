from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from attune.models.layers import loss as loss_module
from attune.models.layers.attention import Attention
from attune.models.layers.bag import BagClassifier
from attune.models.layers.blocks import Decoder, Encoder, Norm, Positions, Shape
from attune.models.layers.loss import row_nll, smoothed_nll


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("biased", [True, False])
@pytest.mark.parametrize(("chunk", "block"), [(1, 1000), (30, 4), (10**6, 11)])
def test_the_fused_loss_and_its_gradients_equal_torchs(
    smoothing: float, biased: bool, chunk: int, block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loss_module, "CHUNK", chunk)
    monkeypatch.setattr(loss_module, "BLOCK", block)
    torch.manual_seed(0)
    hidden, weight = torch.randn(7, 5).double().requires_grad_(), torch.randn(11, 5).double().requires_grad_()
    bias = torch.randn(11).double().requires_grad_() if biased else None
    gold = torch.randint(0, 11, (7,))
    leaves = [leaf for leaf in (hidden, weight, bias) if leaf is not None]
    ours, rows = smoothed_nll(hidden, weight, bias, gold, smoothing)
    found = torch.autograd.grad(3 * ours, leaves)
    logits = F.linear(hidden, weight, bias)
    theirs = F.cross_entropy(logits, gold, reduction="sum", label_smoothing=smoothing)
    torch.testing.assert_close(ours, theirs)
    torch.testing.assert_close(rows, F.cross_entropy(logits, gold, reduction="none").detach())
    for one, other in zip(found, torch.autograd.grad(3 * theirs, leaves), strict=True):
        torch.testing.assert_close(one, other)


@pytest.mark.parametrize("block", [4, 1000])
def test_rows_that_count_differently_have_torchs_losses_and_gradients(
    block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loss_module, "BLOCK", block)
    torch.manual_seed(0)
    leaves = [torch.randn(*shape).double().requires_grad_() for shape in ((7, 5), (11, 5), (11,))]
    gold, counts = torch.randint(0, 11, (7,)), torch.rand(7).double()
    ours, theirs = row_nll(*leaves, gold), F.cross_entropy(F.linear(*leaves), gold, reduction="none")
    torch.testing.assert_close(ours, theirs)
    for one, other in zip(*(torch.autograd.grad(counts @ nll, leaves) for nll in (ours, theirs)), strict=True):
        torch.testing.assert_close(one, other)


def test_in_bf16_rows_are_near_the_exact_ones_and_in_full_precision() -> None:
    torch.manual_seed(0)
    leaves = [torch.randn(*shape).requires_grad_() for shape in ((40, 64), (300, 64), (300,))]
    gold = torch.randint(0, 300, (40,))
    with torch.autocast("cpu", torch.bfloat16):
        rounded = row_nll(leaves[0].bfloat16(), *leaves[1:], gold)
    assert rounded.dtype == torch.float32
    exact = row_nll(*leaves, gold)
    torch.testing.assert_close(rounded, exact, rtol=0.05, atol=0.2)
    both = (torch.autograd.grad(nll.sum(), leaves) for nll in (exact, rounded))
    for one, other in zip(*both, strict=True):
        assert F.cosine_similarity(one.flatten(), other.flatten(), 0) > 0.999


def test_in_bf16_the_fused_loss_is_near_the_exact_one_and_its_gradients_point_the_same_way() -> None:
    torch.manual_seed(0)
    hidden, weight = torch.randn(40, 64).requires_grad_(), torch.randn(300, 64).requires_grad_()
    gold = torch.randint(0, 300, (40,))
    exact, _ = smoothed_nll(hidden, weight, None, gold)
    with torch.autocast("cpu", torch.bfloat16):
        rounded, rows = smoothed_nll(hidden.bfloat16(), weight, None, gold)
    assert rounded.dtype == rows.dtype == torch.float32
    assert rounded.item() != exact.item()
    assert rounded.item() == pytest.approx(exact.item(), rel=1e-2)
    both = (torch.autograd.grad(loss, [hidden, weight]) for loss in (exact, rounded))
    for one, other in zip(*both, strict=True):
        assert F.cosine_similarity(one.flatten(), other.flatten(), 0) > 0.999


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_scoring_forms_no_gradient(mode: type, monkeypatch: pytest.MonkeyPatch) -> None:
    formed: list[torch.Tensor | None] = []
    forward = loss_module._SmoothedNll.forward

    def watched(ctx: Any, *given: Any) -> tuple[torch.Tensor, torch.Tensor]:
        result = forward(ctx, *given)
        formed.extend(ctx.grads)
        return result

    monkeypatch.setattr(loss_module._SmoothedNll, "forward", staticmethod(watched))
    hidden, gold = torch.randn(3, 4, requires_grad=True), torch.tensor([0, 5, 2])
    weight, bias = torch.randn(6, 4, requires_grad=True), torch.randn(6, requires_grad=True)
    with mode():
        loss, _ = smoothed_nll(hidden, weight, bias, gold)
    assert formed == [None] * 3
    assert not loss.requires_grad
    torch.testing.assert_close(loss, F.cross_entropy(F.linear(hidden, weight, bias), gold, reduction="sum"))


def test_padding_changes_nothing_an_encoder_says_of_real_tokens() -> None:
    torch.manual_seed(0)
    encoder = Encoder(2, Shape(8, 2, 16)).eval()
    x = torch.randn(1, 4, 8)
    padded = torch.cat([x, torch.randn(1, 3, 8)], 1)
    real = torch.tensor([[True] * 4 + [False] * 3])
    torch.testing.assert_close(encoder(padded, real)[:, :4], encoder(x, real[:, :4]))


@pytest.mark.parametrize("norm", ["post", "pre"])
@pytest.mark.parametrize("head_norm", [False, True])
def test_a_decoder_sees_no_later_token_and_its_cache_changes_nothing(norm: Norm, head_norm: bool) -> None:
    torch.manual_seed(0)
    decoder = Decoder(2, Shape(8, 2, 16, norm=norm, head_norm=head_norm)).eval()
    memory, real = torch.randn(2, 5, 8), torch.tensor([[True] * 5, [True] * 3 + [False] * 2])
    x = torch.randn(2, 6, 8)
    whole = decoder(x, decoder.start(memory, real))
    other = x.clone()
    other[:, 4:] += 1
    torch.testing.assert_close(decoder(other, decoder.start(memory, real))[:, :4], whole[:, :4])
    cache = decoder.start(memory, real)
    pieces = [decoder(part, cache) for part in x.split([1, 3, 2], 1)]
    torch.testing.assert_close(torch.cat(pieces, 1), whole)


@pytest.mark.parametrize("causal", [True, False])
def test_in_bf16_attention_is_near_the_exact_one_and_what_is_masked_is_not_seen(causal: bool) -> None:
    torch.manual_seed(0)
    layer = Attention(32, heads=4)
    x, real = torch.randn(2, 9, 32), torch.tensor([[True] * 9, [True] * 6 + [False] * 3])
    mask = None if causal else real[:, None, None]
    other = torch.where(real[..., None], x, 7.0)

    def said(x: Tensor) -> Tensor:
        return layer(x, *layer.keys_values(x), mask=mask, causal=causal)

    exact = said(x)
    exact_gradient = torch.autograd.grad(exact[0].square().sum(), layer.query.weight)[0]
    with torch.autocast("cpu", torch.bfloat16):
        rounded = said(x)
        assert causal or torch.equal(said(other)[real], rounded[real])
    gradient = torch.autograd.grad(rounded[0].float().square().sum(), layer.query.weight)[0]
    torch.testing.assert_close(rounded.float(), exact, atol=0.02, rtol=0.02)
    assert F.cosine_similarity(gradient.flatten(), exact_gradient.flatten(), dim=0) > 0.999


def test_with_normed_heads_attention_does_not_sharpen_as_its_queries_and_keys_grow() -> None:
    torch.manual_seed(0)
    x = torch.randn(2, 7, 32)
    plain, normed = Attention(32, heads=4), Attention(32, heads=4, normed=True)
    before = {layer: layer.weigh(x, layer.keys_values(x)[0]) for layer in (plain, normed)}
    with torch.no_grad():
        for layer in before:
            layer.query.weight.mul_(10)
            layer.query.bias.mul_(10)
            layer.key_value.weight.mul_(10)
            layer.key_value.bias.mul_(10)
    sharpened = plain.weigh(x, plain.keys_values(x)[0])
    assert sharpened.max(-1).values.mean() > before[plain].max(-1).values.mean() + 0.3
    torch.testing.assert_close(normed.weigh(x, normed.keys_values(x)[0]), before[normed], rtol=1e-3, atol=1e-5)
    mixed = normed(x, *normed.keys_values(x))  # the one step of torch says the same as the weights that are looked at
    key, value = normed.keys_values(x)
    torch.testing.assert_close(mixed, normed.out((normed.weigh(x, key) @ value).transpose(1, 2).flatten(2)))


def test_heads_that_do_not_divide_the_width_are_refused() -> None:
    with pytest.raises(ValueError, match="divisible"):
        Attention(10, 3)


def test_positions_grow_when_a_context_is_long() -> None:
    positions, cpu = Positions(6), torch.device("cpu")
    first = positions(10, cpu).clone()
    assert positions(1000, cpu).shape == (1000, 6)
    torch.testing.assert_close(positions(10, cpu), first)
    torch.testing.assert_close(positions(3, cpu, offset=900), positions(903, cpu)[900:])


def test_the_bag_classifier_learns_and_hears_word_order() -> None:
    torch.manual_seed(0)
    bag = BagClassifier(words=6, buckets=64, size=8, labels=2)
    ids, gold = torch.tensor([[4, 5, 0], [5, 4, 0]]), torch.tensor([0, 1])  # the same words in another order
    optimizer = torch.optim.Adam(bag.parameters(), lr=0.1)
    for _ in range(60):
        optimizer.zero_grad()
        F.cross_entropy(bag(ids, ids > 0), gold).backward()
        optimizer.step()
    assert bag(ids, ids > 0).argmax(-1).tolist() == [0, 1]
    wider = F.pad(ids, (0, 4))
    torch.testing.assert_close(bag(wider, wider > 0), bag(ids, ids > 0))
