from __future__ import annotations

import math

import pytest
import torch
from torch.distributions import Normal, kl_divergence

from attune.dialogue.types import Dialogue
from attune.emotion.taxonomy import EMOTION_ID, EMOTIONS, NEGATIVE, POSITIVE
from attune.models.codec import NO_EMOTION, PAD, Batch
from attune.models.mime import GROUPS, POLARITY, divergence
from tests.systems import small_system, test_examples


@pytest.fixture
def batch(dialogues: list[Dialogue]) -> Batch:
    codec = small_system("mime", dialogues).codec
    return codec.collate(codec.encode(test_examples(dialogues)))


def test_the_divergence_is_right_on_hand_and_against_torch() -> None:
    zero, one = torch.zeros(1), torch.ones(1)
    assert divergence(zero, zero, zero, zero).item() == 0
    # N(1, 4) against N(0, 1): ½ (−ln 4 + 4 + 1 − 1)
    assert divergence(one, one * math.log(4), zero, zero).item() == pytest.approx(2 - math.log(2))
    # N(0, 1) against N(2, e): ½ (1 + 1/e + 4/e − 1)
    assert divergence(zero, zero, 2 * one, one).item() == pytest.approx(2.5 / math.e)
    mean, log_variance, other, other_log_variance = torch.randn(4, 3, 5)
    expected = kl_divergence(Normal(mean, (0.5 * log_variance).exp()), Normal(other, (0.5 * other_log_variance).exp()))
    torch.testing.assert_close(divergence(mean, log_variance, other, other_log_variance), expected)


def test_a_divergence_in_16_bits_is_not_below_zero(dialogues: list[Dialogue], batch: Batch) -> None:
    model = small_system("mime", dialogues).model.train()
    with torch.no_grad():
        for net in (model.prior, model.posterior):  # nearly alike, as after some training
            net.out.weight.mul_(1e-3)
            net.out.bias.copy_(torch.linspace(-0.1, 0.1, len(net.out.bias)))
    with torch.autocast("cpu", torch.bfloat16):
        found = model.encode(batch)["kl"]
    assert found.dtype == torch.float32
    assert (found >= 0).all()


def test_each_polarity_has_means_and_log_variances_of_its_own(dialogues: list[Dialogue]) -> None:
    model = small_system("mime", dialogues).model
    for net, size in ((model.prior, 16), (model.posterior, 32)):
        mean, log_variance = net(torch.randn(2, size))
        for part in (mean, log_variance):
            assert part.shape == (2, 2, 16)
            assert not torch.allclose(part[:, 0], part[:, 1])
        outputs = net.out.weight.unflatten(0, (2, 2, 16))  # mean or log-variance, polarity
        chosen = torch.autograd.grad(log_variance[:, 1].sum(), net.out.weight)[0].unflatten(0, (2, 2, 16))
        assert outputs.shape == chosen.shape
        assert chosen[1, 1].any()
        assert not chosen[1, 0].any(), "the negative log-variance is not the positive one"
        assert not chosen[0].any()


def test_a_mixture_weighs_the_emotions_of_its_polarity_alone(dialogues: list[Dialogue], batch: Batch) -> None:
    assert (int(GROUPS[0].sum()), int(GROUPS[1].sum())) == (len(POSITIVE), len(NEGATIVE)) == (13, 19)
    mixtures = small_system("mime", dialogues).model.encode(batch)["mixtures"]
    torch.testing.assert_close(mixtures.sum(-1), torch.ones(len(mixtures), 2))
    assert not mixtures[:, ~GROUPS].any()


def test_at_test_time_the_priors_mean_is_used_and_nothing_is_drawn(dialogues: list[Dialogue], batch: Batch) -> None:
    model = small_system("mime", dialogues).model
    first, second = model.encode(batch), model.encode(batch)
    for name in first:
        assert torch.equal(first[name], second[name]), name
    assert "kl" not in first
    with torch.no_grad():  # neither the posterior nor the prior's spread is looked at
        for parameter in model.posterior.parameters():
            parameter.add_(1.0)
        model.prior.out.weight.unflatten(0, (2, 2, -1))[1].add_(1.0)
    assert torch.equal(model.encode(batch)["memory"], first["memory"])
    mean, _ = model.prior(super(type(model), model).encode(batch)["memory"][:, 0])
    torch.testing.assert_close(model.mixtures(mean), first["mixtures"])


def test_in_training_the_posterior_is_drawn_from_and_sees_the_response(dialogues: list[Dialogue], batch: Batch) -> None:
    model = small_system("mime", dialogues).model.train()
    assert not torch.equal(model.encode(batch)["mixtures"], model.encode(batch)["mixtures"])
    other = {**batch, "target": batch["target"].flip(0)}
    assert not torch.allclose(model.encode(batch)["kl"], model.encode(other)["kl"])
    terms = model.losses(batch, tokens=10, examples=3)
    assert terms["kl"].requires_grad
    terms["kl"].backward()
    assert model.prior.out.weight.grad.any()
    assert model.posterior.out.weight.grad.any()


def test_the_polarity_is_the_predictions_and_in_training_the_labels(dialogues: list[Dialogue], batch: Batch) -> None:
    model = small_system("mime", dialogues).model
    seen: list[list[int]] = []
    original = model.fuse
    model.fuse = lambda memory, real, felt, polarity: (  # type: ignore[method-assign]
        seen.append(polarity.tolist()),
        original(memory, real, felt, polarity),
    )[1]
    predicted = POLARITY[model.encode(batch)["emotion"].argmax(-1)].tolist()
    for emotion in ("joyful", "furious"):
        batch["emotion"][:] = EMOTION_ID[emotion]
        model.eval().encode(batch)
        assert seen[-1] == predicted
        batch["emotion"][0] = NO_EMOTION
        model.train().encode(batch)
        assert seen[-1] == [predicted[0], *[int(emotion == "furious")] * (len(predicted) - 1)]
    assert len(EMOTIONS) == len(POLARITY)


def test_the_mimicking_encoder_gets_the_emotion_of_the_polarity(dialogues: list[Dialogue]) -> None:
    model = small_system("mime", dialogues).model
    memory, real = torch.randn(1, 3, 16), torch.ones(1, 3, dtype=torch.bool)
    felt = torch.randn(1, 2, 16)
    one = model.fuse(memory, real, felt, torch.tensor([0]))
    torch.testing.assert_close(model.fuse(memory, real, felt.flip(1), torch.tensor([1])), one)
    assert not torch.allclose(model.fuse(memory, real, felt, torch.tensor([1])), one)


def test_padding_has_no_part_in_the_pooled_reply_even_where_its_vector_is_trained(dialogues: list[Dialogue]) -> None:
    model = small_system("mime", dialogues, tie_embeddings=True).model
    with torch.no_grad():
        model.vectors.weight[PAD] = 1.0
    ids = torch.tensor([[8, 9, 10]])
    torch.testing.assert_close(model.pool(torch.cat([ids, torch.full((1, 4), PAD)], 1)), model.pool(ids))


def test_polarity_is_swapped_in_training_as_often_as_asked_and_never_at_test(
    dialogues: list[Dialogue], batch: Batch
) -> None:
    plain, noisy = (small_system("mime", dialogues, polarity_noise=noise).model for noise in (0.0, 1.0 - 1e-9))
    gold = POLARITY[batch["emotion"]]
    assert torch.equal(plain.train().encode(batch)["polarity"], gold)
    assert torch.equal(noisy.train().encode(batch)["polarity"], 1 - gold)
    noisy.eval()
    assert torch.equal(noisy.encode(batch)["polarity"], POLARITY[noisy.perceive(batch).argmax(-1)])
