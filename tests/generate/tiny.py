"""The tiny random Llama of the tests as a GGUF file, and low-rank adapters for it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import torch
from tokenizers import Tokenizer
from transformers import AutoModelForCausalLM

from attune.models.pretrained.lora import add_lora
from attune.train.export_adapter import PLACES, interleaved, write_adapter
from tests.pretrained import part

RANK = 4


def decoder() -> Any:
    return AutoModelForCausalLM.from_pretrained(part("llama"), dtype=torch.float32).eval()


def tokenizer() -> Tokenizer:
    return Tokenizer.from_file(str(Path(part("llama")) / "tokenizer.json"))


def with_adapters(first: int = 1) -> Any:
    """The decoder with random adapters on its layers from `first` on."""
    model = decoder()
    add_lora(model, RANK, first)
    generator = torch.Generator().manual_seed(3)
    for name, parameter in model.named_parameters():
        if "lora_" in name:
            parameter.data.normal_(0, 0.3, generator=generator)
    return model.eval()


def adapters(model: Any) -> dict[str, np.ndarray]:
    """Its adapters, named as in a run's `model.safetensors`."""
    return {f"decoder.{name}": p.detach().numpy() for name, p in model.named_parameters() if "lora_" in name}


def write_model(path: Path, model: Any) -> None:
    """A Llama of transformers as GGUF, in single precision."""
    config, state = model.config, {name: value.detach().numpy() for name, value in model.state_dict().items()}
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_block_count(config.num_hidden_layers)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_rope_dimension_count(config.head_dim)
    writer.add_rope_freq_base(config.rope_parameters["rope_theta"])
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    _write_vocabulary(writer, config)
    writer.add_tensor("token_embd.weight", state["model.embed_tokens.weight"])
    writer.add_tensor("output_norm.weight", state["model.norm.weight"])
    for i in range(config.num_hidden_layers):
        layer = f"model.layers.{i}"
        writer.add_tensor(f"blk.{i}.attn_norm.weight", state[f"{layer}.input_layernorm.weight"])
        writer.add_tensor(f"blk.{i}.ffn_norm.weight", state[f"{layer}.post_attention_layernorm.weight"])
        for ours, theirs in PLACES.items():
            value = state[f"{layer}.{ours}.weight"]
            if theirs in ("attn_q", "attn_k"):
                heads = config.num_attention_heads if theirs == "attn_q" else config.num_key_value_heads
                value = np.ascontiguousarray(interleaved(value, heads))
            writer.add_tensor(f"blk.{i}.{theirs}.weight", value)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _write_vocabulary(writer: gguf.GGUFWriter, config: Any) -> None:
    settings = json.loads((Path(part("llama")) / "tokenizer.json").read_text())
    words = sorted(settings["model"]["vocab"], key=settings["model"]["vocab"].__getitem__)
    special = {token["id"] for token in settings["added_tokens"]}
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("smollm")
    writer.add_token_list(words)
    kinds = [gguf.TokenType.CONTROL if i in special else gguf.TokenType.NORMAL for i in range(len(words))]
    writer.add_token_types(kinds)
    writer.add_token_merges([" ".join(pair) for pair in settings["model"]["merges"]])
    writer.add_bos_token_id(config.bos_token_id)
    writer.add_eos_token_id(config.eos_token_id)
    writer.add_add_bos_token(False)
    writer.add_add_space_prefix(False)


def files(folder: Path) -> tuple[Path, Path]:
    """The tiny model and its adapter as GGUF files."""
    write_model(folder / "model.gguf", decoder())
    model = with_adapters()
    write_adapter(folder / "adapter.gguf", adapters(model), model.config.to_dict(), 2 * RANK, "f32")
    return folder / "model.gguf", folder / "adapter.gguf"
