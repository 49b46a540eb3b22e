"""The system `attune` without torch: the perceiver on onnxruntime, the decoder on llama.cpp, as `attune export` writes them."""

from __future__ import annotations

import json
from pathlib import Path

from tokenizers import Tokenizer

from attune.errors import DataError
from attune.files import sha256
from attune.generate.attune import PERCEIVER, AttuneSystem, shown
from attune.generate.controls import Concepts, ContextControls, Ear
from attune.generate.engines.llama import LlamaEngine
from attune.generate.engines.merged import merged
from attune.generate.engines.perceiver import LightPerceiver
from attune.generate.systems import needed, run_decoding
from attune.models.prompt import Prompts
from attune.parts import locate

ADAPTER = "adapter.gguf"
ROOM = 768  # tokens of a conversation that are read, at least; a talk goes on longer than what a decoder was trained on


def open_light(path: Path, name: str) -> AttuneSystem:
    """Open the folder that `attune export` wrote; its files are checked against the sums in its configuration."""
    needed(path, ADAPTER, f"{PERCEIVER}/model.safetensors", "decoder/tokenizer.json")
    config = json.loads((path / "config.json").read_text(encoding="utf-8"))
    for file, expected in config["files"].items():
        if sha256(path / file) != expected:
            raise DataError(f"{path / file}: its checksum is not the one in config.json; fetch or export it again")
    tokenizer = Tokenizer.from_file(str(path / "decoder" / "tokenizer.json"))
    longest = max(ROOM, config["longest"])
    prompts = Prompts(tokenizer, config["control_tokens"], longest)
    decoding = run_decoding(path)
    special = [i for i, token in tokenizer.get_added_tokens_decoder().items() if token.special and i != prompts.eos]
    engine = LlamaEngine(
        merged(locate(config["decoder"]), path / ADAPTER),
        tokenizer,
        eos=prompts.eos,
        forbidden=[*special, *range(tokenizer.get_vocab_size(), config["vocabulary"])],
        context=longest + decoding.max_steps + 24,
    )
    ear = Ear(engine, prompts, shown(config))
    recall = Concepts() if config["concepts"] else None
    controls = ContextControls(LightPerceiver(path / PERCEIVER), recall, ear, config.get("decoder_share", 0.0))
    return AttuneSystem(config, engine, prompts, controls, decoding, name, path, concurrent=True)
