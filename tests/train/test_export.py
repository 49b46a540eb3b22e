from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import onnxruntime
import pytest
import torch
from safetensors.torch import load_file

from attune.cli.main import run as command
from attune.dialogue.types import Turn
from attune.errors import DataError, MissingError, SettingsError
from attune.files import sha256
from attune.generate.engines.llama import LlamaEngine
from attune.generate.engines.merged import merged, write_merged
from attune.generate.engines.perceiver import LightPerceiver
from attune.generate.engines.torch import TorchEngine
from attune.knowledge import encoder_graph, sentences
from attune.models import SYSTEMS
from attune.train.export import export
from attune.train.export_adapter import write_adapter
from attune.train.export_perceiver import in_8_bits, write_perceiver
from tests.generate import tiny
from tests.pretrained import SMALL, part, word_pieces

CONTEXTS = [
    (Turn("speaker", "My old dog died on Monday."),),
    (Turn("speaker", "I finally got the job!"), Turn("listener", "What will you do there?"), Turn("speaker", "No.")),
    (Turn("speaker", "Oh no! " * 12),),
]


@pytest.fixture
def tiny_shape(monkeypatch: pytest.MonkeyPatch) -> None:
    """The encoder's graph in the shape of the tests' tiny BERT."""
    shape = {
        "HIDDEN": SMALL["hidden_size"],
        "LAYERS": SMALL["num_hidden_layers"],
        "HEADS": SMALL["num_attention_heads"],
    }
    for name, value in shape.items():
        monkeypatch.setattr(sentences, name, value)
        monkeypatch.setattr(encoder_graph, name, value)
    monkeypatch.setattr(sentences, "INNER", SMALL["intermediate_size"])
    monkeypatch.setattr(sentences, "POSITIONS", SMALL["max_position_embeddings"])
    monkeypatch.setattr(sentences, "VOCABULARY", len(word_pieces()))


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
    rename(folder / "config.json", encoder="minilm")
    return model.eval(), codec


def attune_run(folder: Path) -> Any:
    """A run of `attune` with random adapters on the tiny decoder, which says that it is on the packaged one."""
    kind = SYSTEMS["attune"]
    model, codec = kind.fresh(kind.config_class(decoder=part("llama"), decoder_frozen=1, lora_rank=tiny.RANK))
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


def rename(file: Path, **settings: str) -> None:
    file.write_text(json.dumps(json.loads(file.read_text()) | settings))


@pytest.mark.parametrize("pooling", ["mean", "cls"])
@pytest.mark.usefixtures("tiny_shape")
def test_the_exported_perceiver_is_the_one_that_was_trained(tmp_path: Path, pooling: str) -> None:
    model, codec = perceiver(tmp_path / "run" / "perceiver", pooling)
    tensors = {name: value.detach().numpy() for name, value in model.encoder.state_dict().items()}
    with torch.no_grad():  # what 8 bits change is another question: compare with the same rounding
        for name, parameter in model.encoder.named_parameters():
            if parameter.ndim == 2 and "position" not in name and "token_type" not in name:
                whole, scale = in_8_bits(tensors[name])
                parameter.copy_(torch.from_numpy((whole * scale).reshape(parameter.shape)))
    heads = {
        name: (head.weight.detach().numpy() / t, head.bias.detach().numpy() / t)
        for name, head, t in (("emotion", model.emotion, 1.5), ("label", model.label, 0.8))
    }
    folder = tmp_path / "out"
    (folder / "encoder").mkdir(parents=True)
    (folder / "encoder" / "tokenizer.json").write_text((Path(part("bert")) / "tokenizer.json").read_text())
    write_perceiver(folder / "perceiver.onnx", tensors, heads, pooling=pooling, longest=24)  # type: ignore[arg-type]
    light = LightPerceiver(folder, threads=1)
    items = codec.encode_contexts(CONTEXTS)
    assert [light.ids(context) for context in CONTEXTS] == [tuple(item.context.tolist()) for item in items]
    batch = codec.collate(items)
    with torch.inference_mode():
        felt, chosen = model.perceive(batch).softmax(-1).numpy(), model.decide(batch).softmax(-1).numpy()
    np.testing.assert_allclose(light.perceive(CONTEXTS), felt, atol=2e-5)
    np.testing.assert_allclose(light.decide(CONTEXTS), chosen, atol=2e-5)
    np.testing.assert_allclose(light.perceive(CONTEXTS[1:2])[0], felt[1], atol=2e-5)
    assert light.perceive([]).shape[0] == 0


@pytest.mark.usefixtures("tiny_shape")
def test_a_run_is_exported_whole_and_the_same_each_time(tmp_path: Path) -> None:
    model = attune_run(tmp_path / "run")
    sizes = export(tmp_path / "run", tmp_path / "out", "f32")
    assert set(sizes) == {
        "adapter.gguf",
        "config.json",
        "config.yaml",
        "decoder/tokenizer.json",
        "encoder/tokenizer.json",
        "perceiver.onnx",
    }
    config = json.loads((tmp_path / "out" / "config.json").read_text())
    assert (config["family"], config["model_type"], config["parts"]) == ("light", "attune-attune", ["smollm2"])
    assert config["files"]["adapter.gguf"] == sha256(tmp_path / "out" / "adapter.gguf")
    export(tmp_path / "run", tmp_path / "again", "f32")
    for name in sizes:
        assert sha256(tmp_path / "out" / name) == sha256(tmp_path / "again" / name), name

    tiny.write_model(tmp_path / "base.gguf", tiny.decoder())
    reference = TorchEngine(model.decoder, tiny.tokenizer(), eos=1)
    settings = {"eos": 1, "adapter": tmp_path / "out" / "adapter.gguf", "slots": 1, "context": 256, "threads": 1}
    prompt, said = [5, 6, 7, 80], [90, 91, 92, 1]
    with LlamaEngine(tmp_path / "base.gguf", tiny.tokenizer(), **settings) as light:
        assert light.nll([prompt], [said])[0].nll == pytest.approx(reference.nll([prompt], [said])[0].nll, rel=2e-3)
    assert LightPerceiver(tmp_path / "out", threads=1).decide(CONTEXTS).shape == (3, 41)
    with pytest.raises(SettingsError, match="is an export already"):
        export(tmp_path / "out", tmp_path / "third")


@pytest.mark.usefixtures("tiny_shape")
def test_the_run_itself_may_stand_beside_in_half_precision(tmp_path: Path) -> None:
    attune_run(tmp_path / "run")
    sizes = export(tmp_path / "run", tmp_path / "out", "f32", torch=True)
    for name in ("", "perceiver/"):
        whole = load_file(tmp_path / "run" / f"{name}model.safetensors")
        halved = load_file(tmp_path / "out" / "torch" / f"{name}model.safetensors")
        assert whole.keys() == halved.keys()
        for key, value in halved.items():
            assert value.dtype == torch.float16
            torch.testing.assert_close(value.float(), whole[key], rtol=1e-3, atol=1e-6)
        assert f"torch/{name}config.json" in sizes
    assert {"torch/decoder/tokenizer.json", "torch/perceiver/encoder/tokenizer.json"} <= set(sizes)


@pytest.mark.usefixtures("tiny_shape")
def test_the_command_lists_what_it_wrote_and_says_what_is_wrong(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    attune_run(tmp_path / "run")
    with pytest.raises(SystemExit) as done:
        command(["export", str(tmp_path / "run"), "--out", str(tmp_path / "out")])
    assert not done.value.code
    assert "MB  perceiver.onnx" in capsys.readouterr().out
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
    assert (tmp_path / "out" / "perceiver.onnx").is_file(), "what was there stays when an export fails"


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


def test_an_encoder_of_another_shape_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="only an encoder of MiniLM's shape"):
        write_perceiver(tmp_path / "p.onnx", {}, {}, pooling="mean", longest=24)
    (tmp_path / "encoder").mkdir()
    (tmp_path / "encoder" / "tokenizer.json").write_text((Path(part("bert")) / "tokenizer.json").read_text())
    (tmp_path / "perceiver.onnx").write_bytes(b"not a graph")
    with pytest.raises(DataError, match="not a perceiver"):
        LightPerceiver(tmp_path)


def test_a_model_with_its_adapter_worked_in_says_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ATTUNE_CACHE", str(tmp_path / "cache"))
    model, adapter = tiny.files(tmp_path)
    made = merged(model, adapter, "f32")
    stamp = made.stat().st_mtime_ns
    assert merged(model, adapter, "f32") == made
    assert made.stat().st_mtime_ns == stamp, "it is made once"
    assert merged(model, None, "f32") != made
    write_merged(tmp_path / "again.gguf", model, adapter, "f32")
    assert sha256(tmp_path / "again.gguf") == sha256(made)
    reference = TorchEngine(tiny.with_adapters(), tiny.tokenizer(), eos=1)
    prompt, said = [5, 6, 7, 80], [90, 91, 92, 1]
    with LlamaEngine(made, tiny.tokenizer(), eos=1, slots=1, context=256, threads=1) as engine:
        assert engine.nll([prompt], [said])[0].nll == pytest.approx(reference.nll([prompt], [said])[0].nll, rel=2e-3)
    kinds = {tensor.tensor_type.name for tensor in gguf.GGUFReader(made).tensors}
    assert kinds == {"F32"}


@pytest.mark.slow
def test_eight_bits_change_little_in_the_packaged_encoder(tmp_path: Path) -> None:
    """A random head on MiniLM: logits differ by a small part of their spread, the best label nearly never."""
    from safetensors.numpy import load_file

    from attune.parts import locate

    tensors = load_file(locate("minilm") / "model.safetensors")
    rng = np.random.default_rng(0)
    head = rng.normal(size=(32, 384)).astype(np.float32) * 0.3, np.zeros(32, np.float32)
    write_perceiver(tmp_path / "p.onnx", tensors, {"emotion": head}, pooling="mean", longest=128)
    assert (tmp_path / "p.onnx").stat().st_size < 27e6
    session = onnxruntime.InferenceSession(tmp_path / "p.onnx")
    from transformers import AutoModel

    plain = AutoModel.from_pretrained(locate("minilm"))
    ids = rng.integers(1000, 20000, size=(8, 24))
    mask = np.ones(ids.shape, np.float32)
    with torch.inference_mode():
        states = plain(input_ids=torch.from_numpy(ids), attention_mask=torch.from_numpy(mask).long()).last_hidden_state
    logits = states.mean(1).numpy() @ head[0].T
    found = session.run(None, {"ids": ids, "mask": mask})[0]
    assert np.abs(found - logits).mean() < 0.03 * logits.std()
    assert (found.argmax(-1) == logits.argmax(-1)).mean() >= 7 / 8
