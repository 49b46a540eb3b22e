from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from peft import LoraConfig
from peft.tuners.lora import Linear
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM

from attune.errors import AttuneError, DataError, MissingError, SettingsError
from attune.files import cache_dir
from attune.models.classifier_41 import Classifier41, Classifier41Config
from attune.models.pretrained import find_base
from attune.models.pretrained.attention import GROUPED, grouped_attention
from attune.models.pretrained.lora import QuickLinear, add_lora
from attune.models.pretrained.model import freeze_below, layers_of
from attune.models.pretrained.tokens import EncoderTokens
from attune.parts import PARTS
from tests.pretrained import DECODERS, ENCODERS, part


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    """A checkpoint folder of a user's own."""
    return Path(shutil.copytree(part("bert"), tmp_path / "mine"))


@pytest.mark.parametrize("kind", ENCODERS)
def test_an_encoder_is_opened_from_its_folder(kind: str) -> None:
    base = find_base(part(kind), "encoder")
    assert (base.config.model_type, len(base.checksum)) == (kind, 64)
    ids = torch.tensor([base.tokenizer()("I got the job, and I am glad of it!").input_ids])
    assert ids.shape[1] > 5, "the tokenizer's own truncation is switched off"
    assert base.load()(input_ids=ids).last_hidden_state.shape[-1] == 16


def test_a_gpt2_decoder_gets_cross_attention_and_a_llama_has_none() -> None:
    gpt2, llama = (find_base(part(kind), "decoder").load() for kind in DECODERS)
    assert any("crossattention" in name for name, _ in gpt2.named_parameters())
    assert not any("cross" in name for name, _ in llama.named_parameters())


@pytest.mark.parametrize(
    ("name", "role", "said"),
    [
        ("minilm", "decoder", "the decoder is 'smollm2'"),
        ("smollm2", "encoder", "the encoder is 'minilm'"),
        ("tiny gpt2", "encoder", r"given as encoder but is a decoder \(gpt2\)"),
        ("tiny llama", "encoder", "is a decoder"),
        ("tiny bert", "decoder", r"given as decoder but is an encoder \(bert\)"),
        ("tiny roberta", "decoder", "is an encoder"),
        ("./nowhere", "encoder", "no folder at ./nowhere; an encoder is the packaged 'minilm'"),
        ("minilm!", "encoder", "did you mean 'minilm'"),
    ],
)
def test_a_wrong_name_or_the_wrong_kind_says_what_to_give_instead(name: str, role: str, said: str) -> None:
    if name.startswith("tiny "):
        name = part(name.removeprefix("tiny "))
    with pytest.raises(AttuneError, match=said):
        find_base(name, role)  # type: ignore[arg-type]


@pytest.mark.parametrize("variable", ["HF_HUB_OFFLINE", "ATTUNE_OFFLINE"])
def test_a_hub_name_without_a_network_says_what_to_do(
    variable: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    import huggingface_hub.constants as hub

    monkeypatch.setattr(hub, "HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr(hub, "HF_HUB_OFFLINE", variable == "HF_HUB_OFFLINE")
    monkeypatch.setenv(variable, "1")
    with pytest.raises(
        MissingError, match=r"hub cannot be reached .* use another: a decoder is the packaged 'smollm2'"
    ):
        find_base("nobody/has-this-one", "decoder")


@pytest.mark.parametrize("file", ["config.json", "model.safetensors", "tokenizer.json"])
def test_a_folder_that_lacks_a_file_says_which(file: str, mine: Path) -> None:
    (mine / file).unlink()
    with pytest.raises(MissingError, match=f"the folder .* lacks {file}"):
        find_base(str(mine), "encoder")


def test_pickled_weights_are_not_opened(mine: Path) -> None:
    (mine / "model.safetensors").rename(mine / "pytorch_model.bin")
    with pytest.raises(MissingError, match="pickle, which is never opened"):
        find_base(str(mine), "encoder")


def test_weights_that_do_not_fit_are_an_error_and_not_left_random(mine: Path) -> None:
    tensors = load_file(mine / "model.safetensors")
    del tensors["encoder.layer.1.output.dense.weight"]
    save_file(tensors, mine / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(DataError, match=r"lack 1 tensors .* such as encoder.layer.1.output.dense.weight"):
        find_base(str(mine), "encoder").load()
    (mine / "model.safetensors").write_bytes(b"\0" * 64)
    with pytest.raises(DataError, match="encoder"):
        find_base(str(mine), "encoder").load()
    (mine / "config.json").write_text("{")
    with pytest.raises(DataError, match=r"config\.json"):
        find_base(str(mine), "encoder")


def test_a_part_whose_checksum_differs_is_not_used(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("ATTUNE_CACHE", str(tmp_path))
    monkeypatch.setenv("ATTUNE_OFFLINE", "1")
    folder = cache_dir() / "parts" / f"minilm-{PARTS['minilm'].version}"
    for file in PARTS["minilm"].kept.values():
        (folder / file).parent.mkdir(parents=True, exist_ok=True)
        (folder / file).write_text("not it")
    with pytest.raises(MissingError, match=r"part 'minilm' is damaged .*; run: attune setup minilm"):
        find_base("minilm", "encoder")


def small(**settings: object) -> tuple[Classifier41, object]:
    torch.manual_seed(0)
    return Classifier41.fresh(Classifier41Config(**{"encoder": part("bert"), "pooling": "mean", **settings}))


def test_a_run_keeps_what_was_trained_and_takes_the_rest_from_its_base(tmp_path: Path, mine: Path) -> None:
    whole, _ = small(encoder=str(mine))
    light, codec = small(encoder=str(mine), encoder_frozen=1)
    batch = codec.collate(codec.encode_texts(["My old dog died.", "Lovely!"]))  # type: ignore[attr-defined]
    for model, folder in ((whole, tmp_path / "whole"), (light, tmp_path / "light")):
        with torch.no_grad():
            for parameter in model.parameters():
                if parameter.requires_grad:
                    parameter += 0.01
        model.save_pretrained(folder)
        again = Classifier41.from_pretrained(folder)
        assert torch.equal(again.eval().logits(batch), model.eval().logits(batch))
    names = [set(load_file(tmp_path / name / "model.safetensors")) for name in ("whole", "light")]
    assert names[1] < names[0]
    assert names[0] - names[1] == {name for name in names[0] if ".embeddings." in name or ".layer.0." in name}
    shutil.rmtree(mine)
    Classifier41.from_pretrained(tmp_path / "whole")
    with pytest.raises(MissingError, match="no folder at"):
        Classifier41.from_pretrained(tmp_path / "light")


def test_another_base_than_the_one_trained_on_is_refused(tmp_path: Path, mine: Path) -> None:
    model, _ = small(encoder=str(mine), encoder_frozen=1)
    model.save_pretrained(tmp_path / "run")
    tensors = {name: value + 1 for name, value in load_file(mine / "model.safetensors").items()}
    save_file(tensors, mine / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(DataError, match=r"checksum .* trained on"):
        Classifier41.from_pretrained(tmp_path / "run")


def test_damaged_or_foreign_weights_of_a_run_are_reported(tmp_path: Path) -> None:
    model, _ = small()
    model.save_pretrained(tmp_path)
    save_file({"other": torch.zeros(1)}, tmp_path / "model.safetensors")
    with pytest.raises(DataError, match="not the weights of this configuration"):
        Classifier41.from_pretrained(tmp_path)
    (tmp_path / "model.safetensors").write_bytes(b"\0" * 64)
    with pytest.raises(DataError, match="cannot be read"):
        Classifier41.from_pretrained(tmp_path)


def test_the_configuration_of_a_run_holds_no_weights_and_names_its_bases(tmp_path: Path) -> None:
    model, _ = small()
    model.save_pretrained(tmp_path)
    told = json.loads((tmp_path / "config.json").read_text())
    assert told["model_type"] == "attune-classifier-41"
    assert told["encoder"] == part("bert")
    assert told["bases"]["encoder"]["config"]["model_type"] == "bert"


@pytest.mark.parametrize(("lower", "trained"), [(0, 2), (1, 1), (2, 0)])
@pytest.mark.parametrize("kind", [*ENCODERS, "gpt2"])
def test_only_the_layers_above_are_trained(kind: str, lower: int, trained: int) -> None:
    model = find_base(part(kind), "decoder" if kind == "gpt2" else "encoder").load()
    freeze_below(model, lower)
    layers = layers_of(model)
    free = [all(p.requires_grad for p in layer.parameters()) for layer in layers]
    assert free == [i >= lower for i in range(2)]
    assert sum(free) == trained
    assert model.get_input_embeddings().weight.requires_grad == (lower == 0)
    freeze_below(model, lower, embeddings=True)
    assert not model.get_input_embeddings().weight.requires_grad
    assert [all(p.requires_grad for p in layer.parameters()) for layer in layers] == free
    with pytest.raises(SettingsError, match="3 layers cannot be frozen"):
        freeze_below(model, 3)


def test_lower_layers_and_new_parts_learn_at_their_own_rates() -> None:
    model, _ = small(layer_decay=0.5, new_rate=10.0)
    groups = {group["factor"]: {id(p) for p in group["params"]} for group in model.parameter_groups()}
    assert sorted(groups) == [0.25, 0.5, 1.0, 10.0]
    assert groups[10.0] == {id(p) for p in model.head.parameters()}
    assert id(model.encoder.get_input_embeddings().weight) in groups[0.25]
    assert sum(map(len, groups.values())) == len(list(model.parameters()))


def test_a_context_is_cls_and_every_turn_with_an_end_and_keeps_its_last_tokens() -> None:
    base = find_base(part("roberta"), "encoder")
    tokenizer = base.tokenizer()
    tokens = EncoderTokens(tokenizer, 100, base.config.to_dict())
    first, end = tokenizer.cls_token_id, tokenizer.sep_token_id
    inner = [tokenizer(text, add_special_tokens=False).input_ids for text in ("I'm sad.", "Oh no!")]
    assert tokens.ids(["I'm sad.", "Oh no!"]).tolist() == [first, *inner[0], end, *inner[1], end]
    cut = EncoderTokens(tokenizer, 4, base.config.to_dict()).ids(["I'm sad.", "Oh no!"])
    assert cut.tolist() == [first, *inner[1], end][:1] + [*inner[1], end][-3:]
    batch = tokens.batch([np.array([5, 6]), np.array([7])])
    assert batch["context"].tolist() == [[5, 6], [7, tokenizer.pad_token_id]]
    assert batch["real"].tolist() == [[True, True], [True, False]]
    with pytest.raises(SettingsError, match="from 2 to 512"):
        EncoderTokens(tokenizer, 513, base.config.to_dict())


@pytest.mark.parametrize("biased", [True, False])
def test_a_quick_adapted_layer_says_and_learns_what_pefts_own_does(biased: bool) -> None:
    torch.manual_seed(0)
    base = torch.nn.Linear(12, 20, bias=biased)
    layer = QuickLinear(base, "default", LoraConfig(r=3, lora_alpha=6), r=3, lora_alpha=6)
    layer.lora_B["default"].weight.data.normal_()
    base.requires_grad_(False)
    x = torch.randn(2, 5, 12, requires_grad=True)
    leaves = [x, layer.lora_A["default"].weight, layer.lora_B["default"].weight]
    ours, theirs = layer(x), Linear.forward(layer, x)
    assert "Adapted" in type(ours.grad_fn).__name__
    torch.testing.assert_close(ours, theirs)
    pull = torch.randn_like(ours)
    for one, other in zip(*(torch.autograd.grad((y * pull).sum(), leaves) for y in (ours, theirs)), strict=True):
        torch.testing.assert_close(one, other)
    with torch.no_grad():
        layer.merge()
        torch.testing.assert_close(layer(x), ours)


def test_in_bf16_an_adapted_layer_is_near_itself_and_its_adapters_get_full_gradients() -> None:
    torch.manual_seed(0)
    model = find_base(part("llama"), "decoder").load()
    add_lora(model, 2, 0)
    adapters = [(name, p) for name, p in model.named_parameters() if p.requires_grad]
    for name, p in adapters:
        if "lora_B" in name:
            p.data.normal_(std=0.1)
    ids = torch.randint(0, 50, (2, 9))
    exact = model(input_ids=ids).logits
    with torch.autocast("cpu", torch.bfloat16):
        rounded = model(input_ids=ids).logits
    assert 0 < (exact - rounded).abs().mean() < 0.03
    both = [torch.autograd.grad(y.float().logsumexp(-1).sum(), [p for _, p in adapters]) for y in (exact, rounded)]
    for (name, _), one, other in zip(adapters, *both, strict=True):
        assert other.dtype == torch.float32
        assert torch.nn.functional.cosine_similarity(one.flatten(), other.flatten(), 0) > 0.98, name


@pytest.mark.parametrize("bits", [True, False], ids=["seen or not", "added"])
def test_heads_that_share_keys_see_what_they_would_with_keys_of_their_own(bits: bool) -> None:
    draw = torch.Generator().manual_seed(0)
    query = torch.randn(2, 6, 3, 4, generator=draw)
    key, value = (torch.randn(2, 2, 5, 4, generator=draw) for _ in range(2))
    seen = torch.rand(2, 1, 3, 5, generator=draw) < 0.6
    seen[..., 0] = True
    mask = seen if bits else torch.zeros(2, 1, 3, 5).masked_fill(~seen, -1e30)
    found, weights = grouped_attention(torch.nn.Identity(), query, key, value, mask, scaling=0.3)
    own_key, own_value = (part.repeat_interleave(3, dim=1) for part in (key, value))
    wanted = torch.nn.functional.scaled_dot_product_attention(query, own_key, own_value, attn_mask=mask, scale=0.3)
    torch.testing.assert_close(found, wanted.transpose(1, 2))
    assert not weights[~seen.expand_as(weights)].any()


def test_a_decoder_with_grouped_attention_says_and_learns_what_it_did_without() -> None:
    plain, grouped = (AutoModelForCausalLM.from_pretrained(part("llama"), dtype=torch.float32) for _ in range(2))
    grouped.set_attn_implementation(GROUPED)
    ids = torch.arange(24).view(2, 12)
    for model in (plain, grouped):
        model(input_ids=ids, labels=ids).loss.backward()
    torch.testing.assert_close(grouped(input_ids=ids).logits, plain(input_ids=ids).logits, atol=1e-5, rtol=1e-4)
    for one, other in zip(grouped.parameters(), plain.parameters(), strict=True):
        torch.testing.assert_close(one.grad, other.grad, atol=1e-6, rtol=1e-3)
