from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from peft.tuners.tuners_utils import BaseTunerLayer
from safetensors.torch import load_file

from attune.dialogue.types import Dialogue, Example, Turn
from attune.errors import DataError, SettingsError
from attune.evaluate.audit import audit
from attune.evaluate.evaluation import evaluate
from attune.generate.decoding import decode
from attune.generate.explain import explain_reply
from attune.generate.settings import Decoding
from attune.generate.systems import open_system
from attune.models.kemp_lm import EmotionalCross, KempLm, KempLmConfig, word_ends
from attune.train.recipes import load_recipe
from attune.train.trainer import Trainer, train
from tests.pretrained import DECODERS, assert_says_what_it_says_bare, part
from tests.systems import small_system, test_examples

SAID = (Turn("speaker", "I can’t believe it, my old dog died on Christmas! I'm so sad."), Turn("listener", "Oh no."))


def fresh(**settings: Any) -> tuple[KempLm, Any]:
    torch.manual_seed(0)
    return KempLm.fresh(KempLmConfig(**{"decoder": part("llama"), **settings}))


# — reading: the graph over the decoder's states —


@pytest.mark.parametrize("decoder", DECODERS)
def test_a_word_has_the_state_of_the_token_that_ends_it(decoder: str, dialogues: list[Dialogue]) -> None:
    codec = small_system("kemp-lm", dialogues, decoder=decoder).codec
    context, graph, places = codec.picture((*SAID, Turn("speaker", "Yes.")))
    assert codec.tokenizer.decode(context[1:]).startswith(SAID[0].text)
    assert list(context).count(codec.bos) == 3, "a separator before every turn"
    assert places[0] == len(context) - 1, "CLS has read everything"
    assert len(places) == 1 + len(graph.words)
    read = {word: codec.tokenizer.decode(context[: place + 1]) for word, place in zip(graph.words, places[1:].tolist())}
    for word, before in (("believe", "I can’t believe"), ("died", "old dog died"), ("christmas", "on Christmas")):
        assert read[word].endswith(before)
    assert read["yes"].endswith("Yes")
    assert (np.diff(places[1:]) >= 0).all()


def test_words_that_are_spelt_differently_stay_where_they_are() -> None:
    text = "Won't it rain? I'M done.  “Yes”"
    words = ["will", "not", "it", "rain", "?", "i", "am", "done", ".", "``", "yes", "''"]
    found = {word: text[:end] for word, end in zip(words, word_ends(text, words))}
    assert found["it"] == "Won't it"
    assert found["rain"] == "Won't it rain"
    assert found["done"].endswith("done")
    assert found["yes"].endswith("Yes")
    assert word_ends("İİİ x", ["i̇i̇i̇", "x"])[-1] == 5, "lower case may be longer"


def test_what_is_cut_off_is_not_in_the_graph_either(dialogues: list[Dialogue]) -> None:
    codec = small_system("kemp-lm", dialogues, context_tokens=12).codec
    context, graph, places = codec.picture((*SAID, Turn("speaker", "She was old.")))
    assert len(context) == 12
    assert graph.words[-4:] == ("she", "was", "old", ".")
    assert "christmas" not in graph.words
    assert places.min() >= 0
    assert places.max() < 12


def test_vertices_are_states_of_words_and_embeddings_of_concepts(dialogues: list[Dialogue]) -> None:
    system = small_system("kemp-lm", dialogues, decoder="llama")
    contexts = [SAID[:1], dialogues[0].turns[:1]]
    items = system.codec.encode_contexts(contexts)
    assert items[0].graph.concepts
    batch = system.codec.collate(items)
    model = system.model
    with torch.inference_mode():
        states, _ = model.read_ahead(batch["context"], batch["real"])
        vertices = model.vertices(states, batch)
        for row, item in enumerate(items):
            words = 1 + len(item.graph.words)
            for i in range(words):
                state = model.from_word(states[row, int(item.places[i])])
                expected = model.vertex_norm(state) + model.positions(i + 1, states.device)[i]
                torch.testing.assert_close(vertices[row, i], expected + model.state.weight[int(i > 0)])
            for i, concept in enumerate(item.graph.concepts, words):
                ids = torch.from_numpy(system.codec.ids(f" {concept.concept}")).long()
                told = model.from_concept(model.decoder.get_input_embeddings()(ids).mean(0))
                place = model.positions(words, states.device)[1 + concept.words[0]]
                torch.testing.assert_close(vertices[row, i], model.vertex_norm(told) + place + model.state.weight[2])


# — saying: the decoder, and what is inserted into it —


@pytest.mark.parametrize("settings", [{}, {"decoder_frozen": 2, "lora_rank": 2}, {"graph": False}])
@pytest.mark.parametrize("decoder", DECODERS)
def test_at_initialisation_it_says_what_the_decoder_says_bare(
    decoder: str, settings: dict[str, Any], dialogues: list[Dialogue]
) -> None:
    settings = {**settings, "decoder_frozen": 1} if decoder == "gpt2" and "lora_rank" in settings else settings
    model, codec = fresh(decoder=part(decoder), **settings)
    assert_says_what_it_says_bare(model, codec, decoder, "context", test_examples(dialogues))


@pytest.mark.parametrize("decoder", DECODERS)
def test_a_batch_gives_what_each_gives_alone(decoder: str, dialogues: list[Dialogue]) -> None:
    system = small_system("kemp-lm", dialogues, decoder=decoder)
    examples = test_examples(dialogues)
    assert len({len(item.context) for item in system.codec.encode(examples)}) >= 3
    together, alone = system.nll(examples), [system.nll([example])[0] for example in examples]
    np.testing.assert_allclose([one.nll for one in together], [one.nll for one in alone], rtol=1e-5)
    contexts = [example.context for example in examples]
    np.testing.assert_allclose(
        system.perceive(contexts), np.concatenate([system.perceive([one]) for one in contexts]), rtol=1e-4, atol=1e-6
    )
    for decoding in (Decoding(max_steps=8), Decoding("nucleus", top_p=0.9, max_steps=8)):
        said = system.reply(contexts, decoding=decoding, seed=2)
        assert said == [system.reply([context], decoding=decoding, seed=2)[0] for context in contexts]


@pytest.mark.parametrize("mode", [Decoding(max_steps=6), Decoding("beam", beams=3, max_steps=6)])
@pytest.mark.parametrize("settings", [{}, {"graph": False}])
def test_the_cache_changes_nothing(settings: dict[str, Any], mode: Decoding, dialogues: list[Dialogue]) -> None:
    system = small_system("kemp-lm", dialogues, decoder="llama", **settings)
    codec, model = system.codec, system.model
    batch = codec.collate(codec.encode_contexts([example.context for example in test_examples(dialogues)]))
    with torch.inference_mode():
        read = model.encode(batch)
    ways = [
        decode(model, read, mode, bos=codec.bos, eos=codec.eos, forbidden=codec.forbidden, use_cache=cached)
        for cached in (True, False)
    ]
    assert ways[0] == ways[1]


def test_the_response_depends_on_the_graph_and_its_gradient_reaches_it(dialogues: list[Dialogue]) -> None:
    model, codec = fresh()
    batch = codec.collate(codec.encode(test_examples(dialogues)))
    gates = [layer for layer in model.modules() if isinstance(layer, EmotionalCross)]
    assert len(gates) == 3
    before = model.eval().losses(batch, 1, 1)
    before["reply"].backward()
    assert all(gate.gate.grad.abs() > 0 for gate in gates), "a gate that is shut can still learn to open"
    assert not model.graph.value.weight.grad.any()
    model.zero_grad()
    with torch.no_grad():
        for gate in gates:
            gate.gate += 0.5
    terms = model.losses(batch, 1, 1)
    assert terms["nll"] != before["nll"]
    terms["reply"].backward()
    assert model.graph.value.weight.grad.abs().sum() > 0
    assert model.decoder.get_input_embeddings().weight.grad.abs().sum() > 0


def test_the_signal_and_the_attention_loss_are_kemps(dialogues: list[Dialogue]) -> None:
    system = small_system("kemp-lm", dialogues, decoder="llama", attention_weight=0.5)
    model, items = system.model, system.codec.encode(test_examples(dialogues))
    batch = system.codec.collate(items)
    with torch.inference_mode():
        read = model.encode(batch)
        terms = model.losses(batch, tokens=7, examples=3)
        attention = model.attention(batch["response"], read)
    total = 0.0
    for i, item in enumerate(items):
        eta, size = torch.from_numpy(item.graph.eta), len(item.graph)
        torch.testing.assert_close(read["signal"][i], eta.softmax(0) @ read["memory"][i, :size])
        assert not attention[i, :, size:].any()
        total += float(((eta - attention[i, : len(item.response), :size]) ** 2).mean(-1).sum())
    assert terms["attention"].item() == pytest.approx(0.5 * total / 7, rel=1e-4)


def test_without_the_graph_it_is_the_decoder_alone(dialogues: list[Dialogue]) -> None:
    system = small_system("kemp-lm", dialogues, graph=False)
    assert system.capabilities == {"reply", "nll"}
    assert all(name.startswith("decoder.") for name, _ in system.model.named_parameters())
    assert not any("cross" in name for name, _ in system.model.named_parameters())
    batch = system.codec.collate(system.codec.encode(test_examples(dialogues)))
    assert set(system.model.losses(batch, 1, 1)) == {"reply", "nll"}
    assert set(batch) == {"context", "real", "target", "response"}


def test_what_each_token_looked_at_in_the_graph_can_be_seen(dialogues: list[Dialogue]) -> None:
    system = small_system("kemp-lm", dialogues, decoder="llama")
    said = explain_reply(system, SAID[:1])
    assert said.text == system.reply([SAID[:1]])[0].text
    assert set(said.groups) == {"context", "concepts"}
    np.testing.assert_allclose(said.attention.sum(1), 1, atol=1e-5)
    assert said.attention.shape == (len(said.words), len(said.places))


# — what may be seen, what is trained, saved and opened —


@pytest.mark.parametrize("settings", [{}, {"graph": False}])
def test_the_audit_passes(settings: dict[str, Any], corpus: Path, dialogues: list[Dialogue]) -> None:
    system = small_system("kemp-lm", dialogues, decoder="llama", **settings)
    assert audit(system, test_examples(dialogues)).passed


def test_adapters_train_little_and_a_run_keeps_no_more_than_that(dialogues: list[Dialogue], tmp_path: Path) -> None:
    system = small_system("kemp-lm", dialogues, decoder="llama", decoder_frozen=1, lora_rank=2)
    trained = {name for name, p in system.model.named_parameters() if p.requires_grad}
    assert all("lora_" in name or "cross" in name or not name.startswith("decoder.") for name in trained)
    system.model.save_pretrained(tmp_path)
    system.codec.save(tmp_path)
    assert set(load_file(tmp_path / "model.safetensors")) == trained
    again = open_system(tmp_path)
    examples = test_examples(dialogues)
    np.testing.assert_allclose(
        [one.nll for one in again.nll(examples)], [one.nll for one in system.nll(examples)], rtol=1e-5
    )


SMALL = ["training.batch_size=8", "training.warmup=4", "training.lr=0.01", "training.epochs=1", "decoding.max_steps=6"]
SMALL += ["training.validate_every=4", "training.checkpoint_every=2", "training.limit=40", "training.precision=full"]


@pytest.mark.parametrize("variant", ["packaged", "bare"])
def test_it_trains_resumes_to_the_same_weights_and_is_evaluated(variant: str, corpus: Path, tmp_path: Path) -> None:
    sets = [f"model.decoder={part('llama')}", "model.decoder_frozen=1", "model.lora_rank=2", *SMALL]
    recipe = load_recipe("kemp-lm", variant, sets)
    summary = train(recipe, corpus, tmp_path / "whole")
    assert summary["best_valid_ppl"] < 310

    step = Trainer._train_step

    def stop(self: Trainer, *arguments: Any) -> None:
        if self.progress.step == 3 and not (tmp_path / "again").exists():
            (tmp_path / "again").mkdir()
            raise KeyboardInterrupt
        step(self, *arguments)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Trainer, "_train_step", stop)
        with pytest.raises(KeyboardInterrupt):
            train(recipe, corpus, tmp_path / "broken")
        train(recipe, corpus, tmp_path / "broken")
    whole, broken = (load_file(tmp_path / run / "model.safetensors") for run in ("whole", "broken"))
    for name, tensor in whole.items():
        torch.testing.assert_close(broken[name], tensor, rtol=0, atol=0)
    scores = evaluate(open_system(tmp_path / "whole"), corpus, results=tmp_path / "results")
    assert "|text:raw|vocabulary:llama-320|" in str(scores.signature)
    assert (scores.value("emotion_accuracy") is None) == (variant == "bare")


def test_a_wrong_setting_or_a_response_without_room_is_named(dialogues: list[Dialogue]) -> None:
    with pytest.raises(SettingsError, match="must leave a layer"):
        fresh(decoder_frozen=3)
    with pytest.raises(SettingsError, match="context_tokens must be at most 448"):
        fresh(decoder=part("gpt2"), context_tokens=500)
    with pytest.raises(SettingsError, match="context_tokens must be at least 2"):
        KempLmConfig(context_tokens=1)
    _, codec = fresh(decoder=part("gpt2"))
    with pytest.raises(DataError, match=r"d9:2: a response of .* the decoder has 512 positions"):
        codec.encode([Example("d9:2", dialogues[0].turns[:1], Turn("listener", "oh no! " * 300))])


def test_opened_its_adapters_are_worked_into_the_weights(dialogues: list[Dialogue], tmp_path: Path) -> None:
    system = small_system("kemp-lm", dialogues, decoder="llama", decoder_frozen=1, lora_rank=4)
    system.model.save_pretrained(tmp_path)
    system.codec.save(tmp_path)
    again: Any = open_system(tmp_path)
    adapted = [one for one in again.model.modules() if isinstance(one, BaseTunerLayer)]
    assert adapted
    assert all(one.merged for one in adapted)
    examples = test_examples(dialogues)
    expected = [one.nll for one in system.nll(examples)]
    np.testing.assert_allclose([one.nll for one in again.nll(examples)], expected, rtol=1e-4)
