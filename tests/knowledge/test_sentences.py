from __future__ import annotations

import json
import re
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from attune.errors import DataError, MissingError
from attune.knowledge import encoder_graph
from attune.knowledge import sentences as module
from attune.knowledge.sentences import SHAPES, Encoder, SentenceEncoder, load_encoder
from attune.parts import locate

TEXTS = [
    "I lost my dog.",
    "",
    "hi",
    "Ünïcode — “quotes” and a smile 🙂",
    "a long story " * 120,
    "My old dog died on Monday. I'm so sorry. How old was she?",
]


@pytest.fixture(scope="module")
def encoder() -> SentenceEncoder:
    return load_encoder()


def test_a_text_becomes_384_numbers_of_length_1(encoder: SentenceEncoder) -> None:
    vectors = encoder.encode(TEXTS)
    assert vectors.shape == (len(TEXTS), 384)
    assert vectors.dtype == np.float32
    assert np.linalg.norm(vectors, axis=1) == pytest.approx(np.ones(len(TEXTS)), abs=1e-5)


def test_no_text_gives_no_row(encoder: SentenceEncoder) -> None:
    assert encoder.encode([]).shape == (0, 384)
    assert encoder.encode_words([]).shape == (0, 384)


@pytest.mark.parametrize("batch_size", [1, 2, 32])
def test_neither_company_nor_order_changes_a_vector(encoder: SentenceEncoder, batch_size: int) -> None:
    alone = np.concatenate([encoder.encode([text]) for text in TEXTS])
    assert np.abs(encoder.encode(TEXTS[::-1], batch_size)[::-1] - alone).max() < 1e-5


def test_only_the_first_256_tokens_are_read(encoder: SentenceEncoder) -> None:
    words = ["dog"] * 254  # and two marks at the ends
    same, other = encoder.encode([" ".join([*words, "war"]), " ".join([*words[:-1], "war"])])
    assert np.allclose(same, encoder.encode([" ".join(words)])[0], atol=1e-5)
    assert not np.allclose(same, other, atol=1e-3)


def test_words_are_remembered_and_the_least_used_are_forgotten(
    encoder: SentenceEncoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    original = encoder.encode
    monkeypatch.setattr(encoder, "_words", type(encoder._words)())
    monkeypatch.setattr(
        encoder, "encode", lambda texts, batch_size=32: asked.extend(texts) or original(texts, batch_size)
    )
    monkeypatch.setattr(module, "_REMEMBERED", 2)
    first = encoder.encode_words(["dog", "cat", "dog"])
    assert asked == ["dog", "cat"]
    assert np.array_equal(first[0], first[2])
    assert np.allclose(first[:2], original(["dog", "cat"]), atol=1e-6)
    encoder.encode_words(["dog"])
    encoder.encode_words(["owl"])  # "cat" goes
    assert asked == ["dog", "cat", "owl"]
    encoder.encode_words(["dog", "cat"])
    assert asked == ["dog", "cat", "owl", "cat"]


@pytest.mark.parametrize("name", SHAPES)
def test_the_shipped_graphs_are_those_the_builder_builds(name: str) -> None:
    assert module.graph_of(name) == encoder_graph.build(SHAPES[name]).SerializeToString(deterministic=True)


SMALL = {"hidden": 16, "inner": 24, "layers": 2, "heads": 2, "vocabulary": 50, "positions": 64}


def tiny(name: str, folder: Path) -> Any:
    """A random model of transformers in a small shape of this name, kept in a folder."""
    import torch
    from transformers import BertConfig, BertModel, MPNetConfig, MPNetModel

    kinds = {"minilm": (BertConfig, BertModel), "mpnet": (MPNetConfig, MPNetModel)}
    config, kind = kinds[name]
    torch.manual_seed(3)
    settings = {"hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 2, "num_attention_heads": 2}
    settings |= {"vocab_size": 50, "max_position_embeddings": 64, "initializer_range": 0.5}
    model = kind(config(layer_norm_eps=SHAPES[name].epsilon, **settings), add_pooling_layer=False).eval()
    model.save_pretrained(folder)
    return model


@pytest.mark.parametrize("name", SHAPES)
def test_an_encoder_tells_what_transformers_tells(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    model, shape = tiny(name, tmp_path), replace(SHAPES[name], **SMALL)
    monkeypatch.setitem(SHAPES, name, shape)
    monkeypatch.setattr(module, "graph_of", lambda _: encoder_graph.build(shape).SerializeToString())
    rows = [list(range(5, 5 + length)) for length in (40, 1, 7, 23)]  # farther than the near distances
    with torch.inference_mode():
        expected = [model(input_ids=torch.tensor([ids])).last_hidden_state[0].mean(0).numpy() for ids in rows]
    found = Encoder(name, tmp_path, longest=48, threads=1).vectors(rows, unit=False)
    np.testing.assert_allclose(found, np.stack(expected), atol=2e-5)
    units = Encoder(name, tmp_path, longest=48, threads=1).vectors(rows)
    np.testing.assert_allclose(units, found / np.linalg.norm(found, axis=1, keepdims=True), atol=2e-5)
    key = f"encoder.layer.1.{shape.query}.weight"
    changed = Encoder(name, tmp_path, longest=48, threads=1, added={key: np.eye(16, dtype=np.float32)})
    assert np.abs(changed.vectors(rows[:1], unit=False) - found[:1]).max() > 1e-3


@pytest.mark.skipif(not Path("/proc/self/smaps").exists(), reason="memory is read from Linux's /proc")
def test_sums_lie_in_a_file_that_is_let_go_from_memory() -> None:
    added = {f"encoder.layer.{i}.output.dense.weight": np.full((384, 1536), 0.01, np.float32) for i in range(6)}
    encoder = SentenceEncoder(threads=1, added=added)
    assert all((value == np.float32(0.01)).all() for value in added.values()), "what was added stays as it is"
    smaps = Path("/proc/self/smaps").read_text()
    size = sum(value.nbytes for value in added.values()) // 1024
    (held,) = re.findall(rf"\(deleted\)\nSize: +{size} kB\n(?:.*\n)*?Rss: +(\d+) kB", smaps)
    assert int(held) < size // 10
    assert np.isfinite(encoder.encode(["My dog died."])).all()


def test_importing_it_imports_neither_torch_nor_onnx() -> None:
    import subprocess
    import sys

    code = (
        "import sys; from attune.knowledge.keywords import keywords; keywords(['I fear cancer.']);"
        "print([name for name in ('torch', 'onnx', 'transformers', 'sklearn', 'scipy') if name in sys.modules])"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert said.stdout.strip() == "[]"


def broken(folder: Path, data: bytes) -> Path:
    shutil.copy(locate("minilm") / "tokenizer.json", folder)
    (folder / "model.safetensors").write_bytes(data)
    return folder


def test_a_folder_without_the_model_is_named(tmp_path: Path) -> None:
    with pytest.raises(MissingError, match=r"model.safetensors is not there; the default is the part 'minilm'"):
        SentenceEncoder(tmp_path)


@pytest.mark.parametrize("data", [b"", b"1234567", b"\x05" + b"\0" * 7 + b"{oops", b"\xff" * 64])
def test_a_file_that_is_no_model_is_refused(tmp_path: Path, data: bytes) -> None:
    with pytest.raises(DataError, match=r"model\.safetensors: not a whole safetensors file"):
        SentenceEncoder(broken(tmp_path, data))


def test_a_model_of_another_shape_is_refused_by_the_tensors_name(tmp_path: Path) -> None:
    header = json.dumps(
        {"embeddings.word_embeddings.weight": {"dtype": "F32", "shape": [4, 8], "data_offsets": [0, 128]}}
    ).encode()
    data = len(header).to_bytes(8, "little") + header + bytes(128)
    with pytest.raises(
        DataError, match=r"expected embeddings.word_embeddings.weight as F32 \[30522, 384\], found F32 \[4, 8\]"
    ):
        SentenceEncoder(broken(tmp_path, data))


def test_a_truncated_model_is_refused(tmp_path: Path) -> None:
    with open(locate("minilm") / "model.safetensors", "rb") as file:
        data = file.read(1_000_000)
    with pytest.raises(DataError, match="cut off at 1000000 bytes, inside embeddings"):
        SentenceEncoder(broken(tmp_path, data))


@pytest.mark.slow
def test_vectors_equal_those_of_sentence_transformers(encoder: SentenceEncoder) -> None:
    from sentence_transformers import SentenceTransformer

    reference = SentenceTransformer(str(locate("minilm")), device="cpu").encode(TEXTS)
    assert np.abs(encoder.encode(TEXTS) - reference).max() < 1e-4
