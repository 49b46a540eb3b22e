from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from attune.dialogue.types import Dialogue
from attune.emotion.taxonomy import EMOTION_ID, EMOTIONS
from attune.errors import SettingsError
from attune.models.codec import NO_EMOTION
from attune.models.layers.experts import Listeners, StackedLinear, StackedNorm
from attune.models.moel import SHARED, MoelConfig
from tests.systems import small_system, test_examples


def one_listener(layers: Listeners, i: int, x: Tensor, memory: Tensor, real: Tensor) -> Tensor:
    """Listener `i` alone, written out as a plain decoder layer."""

    def linear(layer: StackedLinear, y: Tensor) -> Tensor:
        return y @ layer.weight[i] + layer.bias[i]

    def norm(layer: StackedNorm, y: Tensor) -> Tensor:
        return F.layer_norm(y, y.shape[-1:], layer.weight[i], layer.bias[i])

    def split(y: Tensor) -> Tensor:
        return y.unflatten(-1, (layers.heads, -1)).transpose(1, 2)

    def attend(name: str, y: Tensor, over: Tensor, allowed: Tensor) -> Tensor:
        query = split(linear(getattr(layers, f"{name}_query"), y))
        key, value = (split(part) for part in linear(getattr(layers, f"{name}_key_value"), over).chunk(2, -1))
        scores = (query @ key.transpose(2, 3) / math.sqrt(query.shape[-1])).masked_fill(~allowed, -torch.inf)
        return linear(getattr(layers, f"{name}_out"), (scores.softmax(-1) @ value).transpose(1, 2).flatten(2))

    def around(name: str, y: Tensor, part: Any) -> Tensor:
        layer = getattr(layers, f"{name}_norm")
        return norm(layer, y + part(y)) if layers.post else y + part(norm(layer, y))

    causal = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).tril()
    y = around("self", x, lambda z: attend("self", z, z, causal))
    y = around("cross", y, lambda z: attend("cross", z, memory, real[:, None, None]))
    return around("ffn", y, lambda z: linear(layers.narrow, linear(layers.widen, z).relu()))


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_batched_listeners_equal_a_loop_over_all_of_them(norm: Any) -> None:
    torch.manual_seed(0)
    layers = Listeners(count=7, d_model=8, heads=2, depth=8, ffn=12, norm=norm)
    for parameter in layers.parameters():
        torch.nn.init.normal_(parameter, std=0.4)
    x, memory = torch.randn(3, 4, 8, requires_grad=True), torch.randn(3, 5, 8)
    real = torch.arange(5)[None] < torch.tensor([[5], [3], [1]])
    listeners = torch.tensor([[0, 3, 6], [5, 3, 6], [3, 1, 6]])  # 2 and 4 are used by nobody
    weights = torch.rand(3, 3)
    weights[0, 1] = weights[2, 0] = 0.0

    cache = layers.start(memory, listeners, weights) | {"memory_mask": real}
    batched = layers(x, cache)
    dense = torch.zeros(3, 7).scatter(1, listeners, weights)
    looped = sum(dense[:, i, None, None] * one_listener(layers, i, x, memory, real) for i in range(7))
    torch.testing.assert_close(batched, looped)

    wish = torch.randn_like(batched)
    grads = [torch.autograd.grad((y * wish).sum(), [x, *layers.parameters()]) for y in (batched, looped)]
    for ours, theirs in zip(*grads, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)
    assert layers.widen.weight.shape[0] == 7
    assert not grads[0][1 + [name for name, _ in layers.named_parameters()].index("widen.weight")][2].any()


def test_what_has_no_weight_is_not_computed() -> None:
    torch.manual_seed(0)
    layers = Listeners(count=4, d_model=8, heads=2, depth=8, ffn=12)
    listeners, weights = torch.tensor([[0, 1, 3], [1, 2, 3]]), torch.tensor([[1.0, 0.0, 1.0], [0.0, 0.5, 1.0]])
    x, memory = torch.randn(2, 4, 8), torch.randn(2, 5, 8)
    with torch.no_grad():
        for parameter in layers.parameters():
            parameter[1] = torch.nan  # 0 · NaN is NaN: a listener that were asked would show
    cache = layers.start(memory, listeners, weights) | {"memory_mask": torch.ones(2, 5, dtype=torch.bool)}
    whole = layers(x, cache)
    assert whole.isfinite().all()
    cache = layers.start(memory, listeners, weights) | {"memory_mask": torch.ones(2, 5, dtype=torch.bool)}
    stepwise = torch.cat([layers(x[:, i : i + 1], cache) for i in range(4)], 1)
    torch.testing.assert_close(stepwise, whole)


def test_only_the_best_listeners_of_the_gate_speak(dialogues: list[Dialogue]) -> None:
    model = small_system("moel", dialogues, top_k=3).model
    logits = torch.randn(4, len(EMOTIONS))
    listeners, weights = model.gate(logits)
    assert listeners.shape == weights.shape == (4, 4)
    assert (listeners[:, -1] == SHARED).all()
    assert (weights[:, -1] == 1).all()
    torch.testing.assert_close(weights[:, :-1].sum(-1), torch.ones(4))
    kept = torch.full_like(logits, -torch.inf).scatter(1, listeners[:, :-1], logits.gather(1, listeners[:, :-1]))
    torch.testing.assert_close(kept.softmax(-1).gather(1, listeners[:, :-1]), weights[:, :-1])
    assert sorted(listeners[0, :-1].tolist()) == sorted(logits[0].argsort(descending=True)[:3].tolist())


def test_a_listener_outside_the_best_changes_nothing(dialogues: list[Dialogue]) -> None:
    system = small_system("moel", dialogues, top_k=2)
    examples = test_examples(dialogues)
    batch = system.codec.collate(system.codec.encode(examples))
    used = set(system.model.encode(batch)["listeners"].flatten().tolist())
    before = system.nll(examples)
    with torch.no_grad():
        for i in set(range(len(EMOTIONS))) - used:
            system.model.listeners.widen.weight[i] += 100.0
    assert system.nll(examples) == before
    with torch.no_grad():
        system.model.listeners.widen.weight[next(iter(used))] += 100.0
    assert system.nll(examples) != before


def test_the_gate_is_shown_the_gold_emotion_in_training_and_never_otherwise(dialogues: list[Dialogue]) -> None:
    system = small_system("moel", dialogues, top_k=3)
    model = system.model
    batch = system.codec.collate(system.codec.encode(test_examples(dialogues)))
    batch["emotion"][:] = EMOTION_ID["trusting"]
    batch["emotion"][0] = NO_EMOTION
    predicted = model.encode(batch)
    torch.testing.assert_close(predicted["listeners"], model.gate(predicted["emotion"])[0])

    model.train()
    assert model.oracle_share() == 1.0
    shown = model.encode(batch)
    assert (shown["listeners"][1:, 0] == EMOTION_ID["trusting"]).all()
    assert (shown["weights"][1:] == torch.tensor([1.0, 0.0, 0.0, 1.0])).all()
    torch.testing.assert_close(shown["weights"][0], predicted["weights"][0])  # no label, nothing to show
    without = {name: value for name, value in batch.items() if name not in ("emotion", "target", "response")}
    torch.testing.assert_close(model.encode(without)["listeners"], predicted["listeners"])

    model.eval()
    torch.testing.assert_close(model.encode(batch)["listeners"], predicted["listeners"])


def test_the_share_of_the_gold_emotion_decays_with_the_steps_of_training(dialogues: list[Dialogue]) -> None:
    system = small_system("moel", dialogues, oracle_steps=10)
    model, items = system.model, system.codec.encode(test_examples(dialogues))
    batch = system.codec.collate(items)
    shares = [model.oracle_share()]
    model.losses(batch, 1, 1)
    assert int(model.steps) == 0, "only steps of training count"
    model.train()
    for _ in range(3):
        model.losses(batch, 1, 1)
        shares.append(model.oracle_share())
    assert shares == sorted(shares, reverse=True)
    assert shares[3] == pytest.approx(math.exp(-0.3), abs=1e-3)
    assert "steps" in model.state_dict(), "a resumed run goes on where it was"
    assert small_system("moel", dialogues, oracle_steps=0).model.oracle_share() == 0


def test_settings_that_cannot_be_are_refused() -> None:
    for settings, word in [
        ({"top_k": 33}, "top_k"),
        ({"d_model": 10, "heads": 2}, "multiple of 4"),
        ({"listener_depth": 8, "d_model": 12, "heads": 3}, "divisible"),
    ]:
        with pytest.raises(SettingsError, match=word):
            MoelConfig(**settings)
