"""The system `attune` without torch: the perceiver on onnxruntime, the decoder on llama.cpp, as `attune export` writes them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer

from attune.emotion.wording import WORDING
from attune.errors import DataError
from attune.generate.attune import PERCEIVER, AttuneSystem, shown
from attune.generate.controls import Concepts, ContextControls, Ear
from attune.generate.engines.llama import LlamaEngine
from attune.generate.engines.merged import merged
from attune.generate.engines.perceiver import LightPerceiver
from attune.generate.systems import intact, needed, run_decoding
from attune.knowledge.recall import ConceptRecall
from attune.models.prompt import Prompts
from attune.parts import PARTS, locate

ADAPTER = "adapter.gguf"
MORE = "adapter-more.gguf"  # what a later training added to it, if it did (`lora_fixed`)
ROOM = 768  # tokens of a conversation that are read, at least; a talk goes on longer than what a decoder was trained on


def open_light(path: Path, name: str) -> AttuneSystem:
    """Open the folder that `attune export` wrote; its files are checked against the sums in its configuration."""
    config = json.loads((path / "config.json").read_text(encoding="utf-8"))
    files = (*adapters(config), f"{PERCEIVER}/model.safetensors", "decoder/tokenizer.json")
    needed(path, *files)
    intact(path, *files, *([words] if (path / (words := f"{PERCEIVER}/{WORDING}")).is_file() else []))
    decoder = decoder_part(config)
    tokenizer = Tokenizer.from_file(str(path / "decoder" / "tokenizer.json"))
    longest = max(ROOM, config["longest"])
    prompts = Prompts(tokenizer, config["control_tokens"], longest)
    decoding = run_decoding(path)
    special = [i for i, token in tokenizer.get_added_tokens_decoder().items() if token.special and i != prompts.eos]
    engine = LlamaEngine(
        merged(locate(decoder), [path / file for file in adapters(config)]),
        tokenizer,
        eos=prompts.eos,
        forbidden=[*special, *range(tokenizer.get_vocab_size(), config["vocabulary"])],
        context=longest + decoding.max_steps + 24,
    )
    ear = Ear(engine, prompts, shown(config))
    recall = Concepts(ConceptRecall(lenient=True)) if config["concepts"] else None
    controls = ContextControls(LightPerceiver(path / PERCEIVER), recall, ear, config.get("decoder_share", 0.0))
    return AttuneSystem(config, engine, prompts, controls, decoding, name, path, concurrent=True)


def adapters(config: Mapping[str, Any]) -> list[str]:
    """The files of an export that are worked into its decoder."""
    return [ADAPTER, MORE] if config.get("lora_fixed") else [ADAPTER]


def decoder_part(config: Mapping[str, Any]) -> str:
    """The part that an export's adapters stand on; an error says that they were trained on something else."""
    name, trained_on = str(config["decoder"]), str(config["checksum"])
    if trained_on not in PARTS[name].files.values():
        raise DataError(f"the adapters were trained on other weights of '{name}' ({trained_on[:12]}…) than the part's")
    return name
