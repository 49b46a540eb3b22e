from __future__ import annotations

from typing import Any

import pytest
import torch

from attune.dialogue.text import normalise
from attune.dialogue.types import Dialogue, Turn
from attune.errors import SettingsError
from attune.models.codec import CLS, PAD, UNK
from attune.models.kemp import GraphFeatures, KempConfig
from attune.models.layers.graph import GraphAttention
from tests.systems import small_system, test_examples

VARIANTS: list[dict[str, Any]] = [
    {},
    {"context_encoder": False},
    {"emotional_decoder": False},
    {"norm": "pre", "tie_embeddings": True, "decoder_layers": 2, "encoder_layers": 2},
]


def test_a_vertex_gets_exactly_no_weight_where_there_is_no_edge() -> None:
    torch.manual_seed(0)
    layer = GraphAttention(8, heads=2)
    x, adjacency = torch.randn(2, 5, 8) * 10, torch.rand(2, 5, 5) < 0.4
    adjacency[0, 3] = False
    weights = layer.weigh(x, adjacency)
    assert (weights[~adjacency[:, None].expand_as(weights)] == 0).all()
    sums = weights.sum(-1)
    has = adjacency.any(-1)[:, None].expand_as(sums)
    torch.testing.assert_close(sums[has], torch.ones_like(sums[has]))
    changed = x.clone()
    changed[0, 4] += 1.0
    same = ~adjacency[0, :, 4]
    same[4] = False
    torch.testing.assert_close(layer(changed, adjacency)[0, same], layer(x, adjacency)[0, same], rtol=0, atol=0)


def test_a_vertex_without_neighbours_stays_as_it_is() -> None:
    layer = GraphAttention(8, heads=2)
    x, adjacency = torch.randn(1, 3, 8), torch.zeros(1, 3, 3, dtype=torch.bool)
    adjacency[0, 0, 1] = True
    updated = layer(x, adjacency)
    assert torch.equal(updated[0, 1:], x[0, 1:])
    assert not torch.allclose(updated[0, 0], x[0, 0])
    updated.sum().backward()
    assert all(parameter.grad.isfinite().all() for parameter in layer.parameters() if parameter.grad is not None)


def test_graph_attention_is_multi_head_attention_over_neighbours() -> None:
    layer = GraphAttention(6, heads=3)
    x, adjacency = torch.randn(1, 4, 6), torch.rand(1, 4, 4) < 0.7
    adjacency[0].fill_diagonal_(True)
    expected = x.clone()
    for i in range(4):
        near = adjacency[0, i].nonzero().squeeze(1)
        for head in range(3):
            part = slice(2 * head, 2 * head + 2)
            match = layer.key(x)[0, near, part] @ layer.query(x)[0, i, part] / 2**0.5
            expected[0, i, part] += match.softmax(0) @ layer.value(x)[0, near, part]
    torch.testing.assert_close(layer(x, adjacency), expected)


@pytest.mark.parametrize("settings", [{}, {"prepend": "emotion", "prepend_k": 2}, {"context_tokens": 6}])
def test_a_batch_holds_the_graphs_of_its_contexts(settings: dict[str, Any], dialogues: list[Dialogue]) -> None:
    heard = [*dialogues, Dialogue("d5", (Turn("speaker", "happy fun pain , love christmas"),) * 2)]
    system = small_system("kemp", heard, **settings)
    contexts = [example.context for example in test_examples(dialogues)]
    batch = system.codec.collate(system.codec.encode_contexts(contexts))
    features = system.codec.features
    assert isinstance(features, GraphFeatures)
    front, size, seen = settings.get("prepend_k", 0), batch["context"].shape[1], 0
    for i, context in enumerate(contexts):
        turns = [normalise(turn.text) for turn in context]
        while settings.get("context_tokens") and sum(map(len, turns)) > 6:
            turns = [turns[0][1:], *turns[1:]] if turns[0] else turns[1:]
        graph = features.builder.of_words(turns)
        known = [n for n, one in enumerate(graph.concepts) if one.concept in features.vocabulary]
        ids = [features.vocabulary[graph.concepts[n].concept] for n in known]
        words = 1 + len(graph.words)
        assert batch["concepts"][i, : len(ids)].tolist() == ids
        assert not batch["concepts"][i, len(ids) :].any()
        places = [0, *range(1 + front, words + front), *range(size, size + len(ids))]
        chosen = [*range(words), *(words + n for n in known)]
        expected = torch.from_numpy(graph.adjacency[chosen][:, chosen])
        assert torch.equal(batch["adjacency"][i][places][:, places], expected)
        assert int(batch["adjacency"][i].sum()) == int(expected.sum()), "no edge elsewhere"
        torch.testing.assert_close(batch["intensity"][i, places], torch.from_numpy(graph.eta[chosen]))
        assert batch["sources"][i, : len(ids)].tolist() == [int(graph.sources[words + n]) + front for n in known]
        seen += len(ids)
    assert seen, "the contexts must lead to some concepts that are in the vocabulary"


@pytest.mark.parametrize("settings", VARIANTS)
def test_the_next_words_distribution_with_copying_sums_to_one(
    settings: dict[str, Any], dialogues: list[Dialogue]
) -> None:
    system = small_system("kemp", dialogues, **settings)
    model = system.model
    items = system.codec.encode(test_examples(dialogues))
    items[0].context[1:] = UNK  # nothing to copy here
    batch = system.codec.collate(items)
    read = model.encode(batch)
    cache = model.start(read)
    hidden = model.decode(batch["response"], cache)
    for i in range(hidden.shape[1]):
        total = model.scores(hidden[:, i], cache).exp().sum(-1)
        torch.testing.assert_close(total, torch.ones(len(items)), rtol=1e-5, atol=1e-5)
    attention = hidden[..., model.config.d_model :]
    torch.testing.assert_close(attention.sum(-1), torch.ones_like(attention[..., 0]))
    assert not attention.masked_select(~read["real"][:, None].expand_as(attention)).any()


def test_what_a_vertex_gets_is_its_words_probability(dialogues: list[Dialogue]) -> None:
    system = small_system("kemp", dialogues)
    model = system.model
    words = torch.tensor([[CLS, 8, UNK, 9, 8, PAD]])
    attention = torch.tensor([[0.3, 0.2, 0.1, 0.15, 0.25, 0.0]])
    state = torch.randn(1, 16)
    generate = torch.sigmoid(model.copy_gate(state)).item()
    scores = model.scores(torch.cat([state, attention], -1), {"words": words}).exp()[0]
    vocabulary = torch.nn.functional.linear(*model.output_layer(state))[0].softmax(-1)
    copied = torch.zeros_like(vocabulary)
    copied[8], copied[9] = 0.45, 0.15
    expected = (generate + (1 - generate) * 0.4) * vocabulary + (1 - generate) * copied
    torch.testing.assert_close(scores, expected)


def test_the_attention_loss_is_the_squared_distance_from_raw_intensities(dialogues: list[Dialogue]) -> None:
    system = small_system("kemp", dialogues, attention_weight=0.5)
    model, items = system.model, system.codec.encode(test_examples(dialogues))
    batch = system.codec.collate(items)
    read = model.encode(batch)
    hidden = model.decode(batch["response"], model.start(read))
    total = 0.0
    for i, item in enumerate(items):
        vertices = read["real"][i].nonzero().squeeze(1)
        assert len(vertices) == len(item.features["intensity"])
        for j in range(len(item.response)):
            attention = hidden[i, j, model.config.d_model :][vertices]
            total += ((torch.from_numpy(item.features["intensity"]) - attention) ** 2).mean().item()
    terms = model.losses(batch, tokens=7, examples=3)
    assert terms["attention"].item() == pytest.approx(0.5 * total / 7, rel=1e-4)
    assert float(batch["intensity"].max()) > 0
    terms["attention"].backward()
    assert model.decoder.layers[0].cross.query.weight.grad.any()


def test_the_signal_is_the_states_weighed_by_their_intensity(dialogues: list[Dialogue]) -> None:
    system = small_system("kemp", dialogues)
    items = system.codec.encode(test_examples(dialogues))
    read = system.model.encode(system.codec.collate(items))
    for i, item in enumerate(items):
        weights = torch.from_numpy(item.features["intensity"]).softmax(0)
        torch.testing.assert_close(read["signal"][i], weights @ read["memory"][i][read["real"][i]])
    torch.testing.assert_close(read["emotion"], system.model.emotion(read["signal"]))


def test_the_ablations_leave_out_what_they_name(dialogues: list[Dialogue]) -> None:
    plain = small_system("kemp", dialogues, context_encoder=False)
    batch = plain.codec.collate(plain.codec.encode(test_examples(dialogues)))
    assert batch["concepts"].shape[1] == 0
    assert not hasattr(plain.model, "graph")
    read = plain.model.encode(batch)
    assert torch.equal(read["signal"], read["memory"][:, 0])
    assert "attention" in plain.model.losses(batch, 1, 1)

    ordinary = small_system("kemp", dialogues, emotional_decoder=False)
    batch = ordinary.codec.collate(ordinary.codec.encode(test_examples(dialogues)))
    read = ordinary.model.encode(batch)
    assert ordinary.model.first_input(read) is None
    assert "attention" not in ordinary.model.losses(batch, 1, 1)
    hidden = [
        ordinary.model.decode(batch["response"], ordinary.model.start({**read, "signal": signal}))
        for signal in (read["signal"], read["signal"] + 1)
    ]
    assert torch.equal(*hidden), "the ordinary decoder does not see the signal"


def test_settings_that_cannot_be_are_refused() -> None:
    for settings in ({"copy": True}, {"ensemble": "emotion"}):
        with pytest.raises(SettingsError, match="copy and ensemble"):
            KempConfig(**settings)
