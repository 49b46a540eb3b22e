from __future__ import annotations

import math
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from attune.dialogue.types import Dialogue, Example, Turn
from attune.emotion.taxonomy import EMOTIONS
from attune.errors import DataError, MissingError, SettingsError
from attune.evaluate.evaluation import evaluate
from attune.evaluate.gpt2 import count_tokens
from attune.generate.settings import Decoding
from attune.generate.systems import open_system
from attune.knowledge.annotate import Progress
from attune.knowledge.ckece import EmotionalConcept, Extraction
from attune.models.layers.gated import GatedCrossAttention
from attune.models.pretrained.attention import GROUPED
from attune.models.pretrained.concepts import ConceptText
from attune.models.pretrained.exchange import KNOWLEDGE
from attune.models.pretrained.speaking import IGNORE, causal_mask
from attune.models.roberta_gpt2 import RobertaGpt2, RobertaGpt2Config
from attune.train.prepare import prepare
from attune.train.recipes import load_recipe
from attune.train.trainer import train
from tests.pretrained import DECODERS, assert_says_what_it_says_bare, part
from tests.systems import small_system, test_examples, toy_knowledge

PAPER = Decoding("nucleus", top_k=5, top_p=0.9, max_steps=8)


KNOWLEDGE.register("toy")(toy_knowledge)  # here, so that each test can run alone


def fresh(**settings: Any) -> tuple[RobertaGpt2, Any]:
    torch.manual_seed(0)
    chosen = {"encoder": part("roberta"), "decoder": part("llama"), "knowledge": "toy", **settings}
    return RobertaGpt2.fresh(RobertaGpt2Config(**chosen))


# — the decoder, and what is inserted into it —


@pytest.mark.parametrize("lora", [0, 2])
@pytest.mark.parametrize("frozen", [0, 2])
def test_at_initialisation_a_llama_says_what_it_says_bare(frozen: int, lora: int, dialogues: list[Dialogue]) -> None:
    model, codec = fresh(decoder_frozen=frozen, lora_rank=lora)
    assert_says_what_it_says_bare(model, codec, "llama", "prefix", test_examples(dialogues))


def test_an_opened_gate_lets_the_memory_in_and_its_gradient_reaches_the_encoder(dialogues: list[Dialogue]) -> None:
    model, codec = fresh()
    batch = codec.collate(codec.encode(test_examples(dialogues)))
    before = model.eval().losses(batch, 1, 1)["nll"]
    gates = [layer for layer in model.modules() if isinstance(layer, GatedCrossAttention)]
    assert len(gates) == 3
    model.losses(batch, 1, 1)["reply"].backward()
    assert all(gate.gate.grad.abs() > 0 for gate in gates), "a gate that is shut can still learn to open"
    assert not model.encoder.get_input_embeddings().weight.grad.any()
    model.zero_grad()
    with torch.no_grad():
        for gate in gates:
            gate.gate += 0.5
    terms = model.losses(batch, 1, 1)
    assert terms["nll"] != before
    terms["reply"].backward()
    assert model.encoder.get_input_embeddings().weight.grad.abs().sum() > 0


def test_gated_layers_do_not_mix_up_two_threads(dialogues: list[Dialogue]) -> None:
    system = small_system("roberta-gpt2", dialogues, decoder="llama")
    contexts = [example.context for example in test_examples(dialogues)][:4]
    alone = [system.reply([context])[0] for context in contexts]
    found: dict[int, Any] = {}

    def ask(i: int) -> None:
        found[i] = [system.reply([contexts[i]])[0] for _ in range(3)]

    threads = [threading.Thread(target=ask, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {i: [alone[i]] * 3 for i in range(4)}


# — batches —


@pytest.mark.parametrize("decoder", DECODERS)
def test_prefixes_of_different_lengths_give_in_a_batch_what_they_give_alone(
    decoder: str, dialogues: list[Dialogue]
) -> None:
    system = small_system("roberta-gpt2", dialogues, decoder=decoder)
    examples = test_examples(dialogues)
    items = system.codec.encode(examples)
    lengths = {len(item.prefix) for item in items}
    assert 0 in lengths, "one context has no knowledge at all"
    assert len(lengths) >= 3
    together, alone = system.nll(examples), [system.nll([example])[0] for example in examples]
    np.testing.assert_allclose([one.nll for one in together], [one.nll for one in alone], rtol=1e-5)
    contexts = [example.context for example in examples]
    for decoding in (PAPER, Decoding(max_steps=8)):
        said = system.reply(contexts, decoding=decoding, seed=2)
        assert said == [system.reply([context], decoding=decoding, seed=2)[0] for context in contexts]
    with torch.inference_mode():
        batch = system.codec.collate(items)
        whole = system.model.decode(batch["response"], system.model.start(system.model.encode(batch)))
        for i, item in enumerate(items):
            one = system.codec.collate([item])
            states = system.model.decode(one["response"], system.model.start(system.model.encode(one)))
            torch.testing.assert_close(whole[i : i + 1, : states.shape[1]], states, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("decoder", DECODERS)
def test_no_kind_of_attention_sees_what_is_hidden_from_another(decoder: str, dialogues: list[Dialogue]) -> None:
    system = small_system("roberta-gpt2", dialogues, decoder=decoder)
    examples, found = test_examples(dialogues), []
    for kind in ("sdpa", "eager", GROUPED):
        system.model.decoder.set_attn_implementation(kind)
        found.append([one.nll for one in system.nll(examples)])
    np.testing.assert_allclose(found[1:], [found[0]] * 2, rtol=1e-5)


@pytest.mark.parametrize("decoder", DECODERS)
def test_the_decoder_reads_knowledge_and_memory_and_the_response_so_far(
    decoder: str, dialogues: list[Dialogue]
) -> None:
    system = small_system("roberta-gpt2", dialogues, decoder=decoder)
    (item,) = system.codec.encode(test_examples(dialogues)[:1])
    batch = system.codec.collate([item])

    def states(changed: dict[str, torch.Tensor]) -> torch.Tensor:
        with torch.inference_mode():
            return system.model.decode(changed["response"], system.model.start(system.model.encode(changed)))

    plain = states(batch)
    for name in ("prefix", "context", "response"):
        other = {**batch, name: batch[name].clone()}
        other[name][0, 1] += 1
        new = states(other)
        assert not torch.allclose(new[:, 1:], plain[:, 1:], atol=1e-4), name
        if name == "response":
            torch.testing.assert_close(new[:, :1], plain[:, :1])


def test_no_query_is_left_without_anything_to_look_at() -> None:
    real = torch.tensor([[False, False, True, True], [True, True, True, True]])
    for count in (1, 2, 4):
        mask = causal_mask(real, count)
        assert mask.shape == (2, 1, count, 4)
        assert mask.any(-1).all()
        assert not mask[0, 0, -1, :2].any()


# — what is learnt from —


def test_only_the_response_carries_loss_and_is_counted_whole(dialogues: list[Dialogue]) -> None:
    system = small_system("roberta-gpt2", dialogues)
    text = "  I'm SO sorry… 😀"
    example = Example("x:2", dialogues[0].turns[:1], Turn("listener", text), emotion="proud")
    (item,) = system.codec.encode([example])
    tokenizer = system.codec.tokenizer
    assert tokenizer.decode(item.response[:-1]) == text, "the raw text, nothing changed"
    assert item.response[-1] == tokenizer.eos_token_id
    batch = system.codec.collate([item])
    assert batch["target"].shape == batch["response"].shape
    assert batch["response"][0, 0] == tokenizer.bos_token_id
    assert batch["response"][0, 1:].tolist() == item.response[:-1].tolist()
    (found,) = system.nll([example])
    assert found.tokens == len(item.response)
    assert found.unk_bytes == 0
    terms = system.model.losses(batch, found.tokens, 1)
    assert float(terms["nll"]) == pytest.approx(found.nll / found.tokens, rel=1e-4)
    expected = -math.log(system.perceive([example.context])[0, EMOTIONS.index("proud")])
    assert terms["emotion"].item() == pytest.approx(expected, rel=1e-4)


def test_targets_are_never_seen_where_a_context_alone_is_given(dialogues: list[Dialogue]) -> None:
    system = small_system("roberta-gpt2", dialogues)
    batch = system.codec.collate(system.codec.encode_contexts([dialogues[0].turns[:1]]))
    assert set(batch) == {"context", "real", "prefix", "prefix_real", "emotion"}
    assert batch["emotion"].tolist() == [IGNORE]


def test_the_token_before_the_response_is_one_that_the_decoder_knows(dialogues: list[Dialogue]) -> None:
    def before(decoder: str, separator: str | None) -> str:
        codec = small_system("roberta-gpt2", dialogues, decoder=decoder, separator=separator).codec
        return str(codec.tokenizer.convert_ids_to_tokens(codec.bos))

    assert before("gpt2", None) == "<|endoftext|>"
    assert before("llama", None) == "<|im_start|>"
    assert before("llama", "<|im_end|>") == "<|im_end|>"
    assert before("llama", "\n") == "Ċ"
    with pytest.raises(SettingsError, match="one token of the decoder"):
        before("llama", "zq")


def test_a_response_that_the_decoder_has_no_room_for_is_named(dialogues: list[Dialogue]) -> None:
    system = small_system("roberta-gpt2", dialogues)
    example = Example("d9:2", dialogues[0].turns[:1], Turn("listener", "oh no! " * 300))
    with pytest.raises(DataError, match=r"d9:2: a response of .* the decoder has 512 positions"):
        system.codec.encode([example])
    with pytest.raises(SettingsError, match="knowledge_tokens must be at most 448"):
        small_system("roberta-gpt2", dialogues, knowledge_tokens=500)


def test_specials_are_never_said(dialogues: list[Dialogue]) -> None:
    for decoder in DECODERS:
        codec = small_system("roberta-gpt2", dialogues, decoder=decoder).codec
        assert codec.eos not in codec.forbidden
        assert set(codec.forbidden) == set(codec.tokenizer.all_special_ids) - {codec.eos}


# — what is trained, saved and opened —


@pytest.mark.parametrize("decoder", DECODERS)
def test_adapters_train_little_and_a_run_keeps_no_more_than_that(
    decoder: str, dialogues: list[Dialogue], tmp_path: Path
) -> None:
    settings = {"decoder": decoder, "decoder_frozen": 1, "lora_rank": 2, "encoder_frozen": 2}
    system = small_system("roberta-gpt2", dialogues, **settings)
    trained = {name for name, p in system.model.named_parameters() if p.requires_grad}
    assert all("lora_" in name or "cross" in name or not name.startswith(("encoder", "decoder")) for name in trained)
    adapted = [name for name in trained if "lora_A" in name]
    assert adapted
    assert not any(".0." in name for name in adapted), "the frozen layer has no adapter"
    items = system.codec.encode(test_examples(dialogues))
    batch = system.codec.collate(items)
    optimizer = torch.optim.Adam([p for p in system.model.parameters() if p.requires_grad], lr=0.05)
    before = {name: p.clone() for name, p in system.model.named_parameters()}
    for _ in range(2):
        sum(t for t in system.model.losses(batch, 50, 5).values() if t.requires_grad).backward()
        optimizer.step()
    changed = {name for name, p in system.model.named_parameters() if not torch.equal(p, before[name])}
    assert changed <= trained
    assert adapted[0] in changed
    system.model.save_pretrained(tmp_path)
    system.codec.save(tmp_path)
    assert set(load_file(tmp_path / "model.safetensors")) == trained
    again = open_system(tmp_path)
    examples = test_examples(dialogues)
    np.testing.assert_allclose(
        [one.nll for one in again.nll(examples)], [one.nll for one in system.nll(examples)], rtol=1e-5
    )


def test_a_wrong_setting_is_found_when_the_configuration_is_made() -> None:
    with pytest.raises(SettingsError, match="did you mean 'ckece'"):
        RobertaGpt2Config(knowledge="ckce")
    with pytest.raises(SettingsError, match="4 layers cannot be frozen"):
        fresh(decoder_frozen=4)
    with pytest.raises(SettingsError, match="must leave a layer"):
        fresh(decoder_frozen=3)
    with pytest.raises(SettingsError, match="given as decoder but is an encoder"):
        fresh(decoder=part("bert"))


SMALL = ["training.batch_size=8", "training.warmup=10", "training.lr=0.02", "training.epochs=1", "decoding.max_steps=6"]
SMALL += ["training.validate_every=12", "training.checkpoint_every=12", "model.knowledge=toy"]


def parts(decoder: str | None) -> list[str]:
    return [f"model.encoder={part('bert')}", f"model.decoder={part(decoder) if decoder else 'null'}", *SMALL]


@pytest.mark.parametrize("decoder", DECODERS)
def test_it_trains_is_evaluated_and_carries_a_signature_of_raw_text(decoder: str, corpus: Path, tmp_path: Path) -> None:
    KNOWLEDGE.register("toy")(toy_knowledge)
    summary = train(load_recipe("roberta-gpt2", None, parts(decoder)), corpus, tmp_path / "run")
    assert summary["best_valid_ppl"] < 200
    assert summary["vocabulary"]["bases"]["decoder"] == part(decoder)
    scores = evaluate(open_system(tmp_path / "run"), corpus, results=tmp_path / "results")
    told = str(scores.signature)
    assert f"|text:raw|vocabulary:{decoder}-320|" in told
    assert "|decoding:nucleus(max_steps=6,top_k=5,top_p=0.9)|" in told
    assert scores.value("ppl_token") is not None
    assert scores.value("emotion_accuracy") is not None


def test_the_encoder_alone_learns_emotions(corpus: Path, tmp_path: Path) -> None:
    recipe = load_recipe("roberta-gpt2", "encoder-only", [*parts(None), "training.epochs=4"])
    train(recipe, corpus, tmp_path / "run")
    scores = evaluate(open_system(tmp_path / "run"), corpus, results=tmp_path / "results")
    assert scores.value("emotion_accuracy") > 40  # type: ignore[operator]
    assert scores.value("ppl_token") is None
    assert (tmp_path / "results/roberta-gpt2-encoder-only").is_dir()


# — knowledge —


def test_concepts_are_asked_for_once_and_looked_up_where_they_are_annotated(dialogues: list[Dialogue]) -> None:
    asked: list[str] = []

    def extract(texts: Any) -> list[Extraction]:
        asked.extend(texts)
        return [Extraction([], [EmotionalConcept(text.split()[0], "IsA", "word", 0.5, 0.5, 0.5)]) for text in texts]

    text = ConceptText(extract)
    examples = test_examples(dialogues)
    expected = [f"{example.context[0].text.split()[0]} <is a> word" for example in examples]
    assert text([*examples, examples[0]]) == [*expected, expected[0]]
    assert text(examples) == expected
    assert len(asked) == len({tuple(example.context) for example in examples})

    class Kept:
        def __contains__(self, example: str) -> bool:
            return example == examples[1].id

        def of(self, example: Example) -> Extraction:
            return Extraction([], [EmotionalConcept("kept", "IsA", "word", 0.5, 0.5, 0.5)])

    text.annotations = Kept()  # type: ignore[assignment]
    assert text(examples)[:2] == [expected[0], "kept <is a> word"]


def test_training_takes_the_annotations_it_is_told_or_makes_them_in_the_cache(
    corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sets = [*parts("llama"), "model.knowledge=ckece"]
    told = load_recipe("roberta-gpt2", None, [*sets, f"text.annotations={tmp_path / 'mine'}"])
    with pytest.raises(MissingError, match=r"no annotations in .*mine"):
        prepare(told, corpus, [])
    monkeypatch.setenv("ATTUNE_CACHE", str(tmp_path / "cache"))
    made: list[Any] = []

    def annotate(data: Path, folder: Path, settings: Any, *, splits: Any, report: Any) -> None:
        made.append((data, settings.protocol, tuple(splits)))
        report(Progress(1, 1, 0))
        (folder / "here").mkdir(parents=True)

    monkeypatch.setattr("attune.train.pretrained.annotate", annotate)
    monkeypatch.setattr("attune.train.pretrained.Annotations", lambda folder: folder)
    _, codec, _ = prepare(load_recipe("roberta-gpt2", None, sets), corpus, [])
    assert made == [(corpus, "listener-turns", ("train", "valid"))]
    assert (codec.knowledge.annotations / "here").is_dir()  # type: ignore[attr-defined]
    assert codec.knowledge.annotations.is_relative_to(tmp_path / "cache")  # type: ignore[attr-defined]


def test_a_context_that_knowledge_knows_nothing_about_has_no_prefix(dialogues: list[Dialogue]) -> None:
    system = small_system("roberta-gpt2", dialogues, knowledge="none")
    batch = system.codec.collate(system.codec.encode_contexts([dialogues[0].turns[:1]]))
    assert batch["prefix"].shape == (1, 0)
    assert system.reply([dialogues[0].turns[:1]])[0].text


@pytest.mark.slow
def test_the_packaged_parts_speak(dialogues: list[Dialogue]) -> None:
    """MiniLM and SmolLM2 as they are: the likelihood of real text is what SmolLM2 alone gives it."""
    settings = {"encoder": "minilm", "decoder": "smollm2", "pooling": "mean", "knowledge": "none", "decoder_frozen": 28}
    model, codec = RobertaGpt2.fresh(RobertaGpt2Config(**settings))
    example = test_examples(dialogues)[0]
    (item,) = codec.encode([example])
    batch = codec.collate([item])
    with torch.inference_mode():
        _, nll = model.eval().token_nll(batch, model.encode(batch), 0.0)
        logits = model.decoder(input_ids=batch["response"], memory=model.start(model.encode(batch))).logits
    expected = torch.nn.functional.cross_entropy(logits[0], batch["target"][0], reduction="none")
    torch.testing.assert_close(nll, expected, rtol=1e-3, atol=1e-3)
    assert 1 < math.exp(nll.sum() / (count_tokens([example.response.text])[0] + 1)) < 500
