"""Small untrained systems for tests: every registered one, on the four dialogues of conftest."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from attune.dialogue.protocols import examples
from attune.dialogue.types import Dialogue, Example
from attune.dialogue.vocabulary import build_tokenizer, singletons
from attune.generate.neural import WordSystem, word_codec
from attune.generate.pretrained import PretrainedSystem, TorchAttune
from attune.generate.settings import Decoding
from attune.generate.torch_labeller import TorchLabeller
from attune.models import SYSTEMS
from attune.models.layers.gated import GatedCrossAttention
from attune.models.pretrained.exchange import KNOWLEDGE, Knowledge
from attune.train.data import count_words
from tests.pretrained import part, scratch

SMALL = {"d_model": 16, "heads": 2, "ffn": 32}


def small_system(name: str, dialogues: Sequence[Dialogue], **model: Any) -> Any:
    """An untrained system of the smallest size, of any family."""
    torch.manual_seed(1)
    return SMALLEST[SYSTEMS[name].family](name, dialogues, **model)


def _words(name: str, dialogues: Sequence[Dialogue], **model: Any) -> WordSystem:
    """Its scores are sharpened so that decoding has something to choose."""
    model_class = SYSTEMS[name]
    config = model_class.config_class(**{**SMALL, **model})
    counts = count_words(dialogues)
    if config.bag:
        config.bag_labels = ["afraid", "grateful", "proud", "sad"]
        counts.update(dict.fromkeys(config.bag_labels, 2))
    tokenizer = build_tokenizer(counts)
    config.vocab_size = tokenizer.get_vocab_size()
    system = model_class(config)
    with torch.no_grad():
        system.output_layer(torch.zeros(1, config.d_model))[1].mul_(4)
    codec = word_codec(system, tokenizer, singletons(counts, tokenizer))
    return WordSystem(system, codec, name, Decoding(max_steps=8))


def _classifier(name: str, dialogues: Sequence[Dialogue], **model: Any) -> TorchLabeller:
    kind = SYSTEMS[name]
    return TorchLabeller(*kind.fresh(kind.config_class(**{"encoder": part("bert"), "pooling": "mean", **model})), name)


def _pretrained(name: str, dialogues: Sequence[Dialogue], **model: Any) -> PretrainedSystem:
    """On tiny random parts; what it knows about a context is made up here, and of different lengths."""
    kind = SYSTEMS[name]
    KNOWLEDGE.register("toy")(toy_knowledge)
    usual = {"encoder": "roberta", "decoder": "gpt2", "knowledge": "toy", "knowledge_tokens": 24}
    chosen = {key: value for key, value in usual.items() if hasattr(kind.config_class, key)} | model
    for role in {"encoder", "decoder"} & chosen.keys():
        chosen[role] = chosen[role] and part(chosen[role])
    network, codec = kind.fresh(kind.config_class(**chosen))
    with torch.no_grad():
        for layer in network.modules():
            if isinstance(layer, GatedCrossAttention):
                layer.gate += 0.5  # as after some training: the memory is seen
    speak_up(network)
    return PretrainedSystem(network, codec, name, Decoding(max_steps=8))


def _perceiver(name: str, dialogues: Sequence[Dialogue], **model: Any) -> PretrainedSystem:
    kind = SYSTEMS[name]
    network, codec = kind.fresh(kind.config_class(**{"encoder": part("bert"), "pooling": "mean", **model}))
    return PretrainedSystem(network, codec, name, Decoding())


def _attune(name: str, dialogues: Sequence[Dialogue], **model: Any) -> TorchAttune:
    """On tiny random parts; what it recalls, if it is to, is made up here."""
    kind = SYSTEMS[name]
    chosen = {"decoder": part("llama"), "decoder_frozen": 1, "lora_rank": 8, "concepts": 0, **model}
    network, codec = kind.fresh(kind.config_class(**chosen))
    speak_up(network)
    perceiver = _perceiver("perceiver", dialogues)
    system = TorchAttune(network, codec, name, Decoding(max_steps=8), perceiver)
    folder = scratch("perceiver")
    perceiver.model.save_pretrained(folder)
    perceiver.codec.save(folder)
    codec.beside = {"perceiver": folder}
    if system.controls.recall:
        system.controls.recall = lambda contexts: [tuple(context[-1].text.split()[1::2][:5]) for context in contexts]
    return system


@torch.no_grad()
def speak_up(network: torch.nn.Module) -> None:
    """As after some training: the adapters say something."""
    for name, parameter in network.named_parameters():
        if "lora_B" in name:
            parameter.normal_(0, 0.3)


def toy_knowledge() -> Knowledge:
    return lambda known: ["; ".join(example.context[-1].text.split()[1::2][:5]) for example in known]


SMALLEST: dict[str, Callable[..., Any]] = {"word": _words, "classifier": _classifier, "pretrained": _pretrained}
SMALLEST |= {"perceiver": _perceiver, "attune": _attune}
SILENT = ("classifier", "perceiver")  # families that do not reply


def test_examples(dialogues: Sequence[Dialogue]) -> list[Example]:
    return list(examples(dialogues, "listener-turns"))


test_examples.__test__ = False  # type: ignore[attr-defined]

# Systems that reply, with settings that change how; and then those that do not.
VARIANTS: list[tuple[str, dict[str, Any]]] = [
    *((name, {}) for name in SYSTEMS if SYSTEMS[name].family not in SILENT),
    ("transformer", {"copy": True}),
    ("transformer", {"norm": "pre", "vector_size": 6}),
    ("emoprepend", {"prepend": "emotion", "prepend_k": 2}),
    ("emoprepend", {"ensemble": "emotion"}),
    ("emoprepend", {"tie_embeddings": True, "vector_size": 6}),
    ("roberta-gpt2", {"encoder": "bert", "decoder": "llama", "pooling": "mean"}),
    ("roberta-gpt2", {"decoder": "llama", "decoder_frozen": 1, "knowledge": "none"}),
    ("kemp-lm", {"decoder": "llama", "decoder_frozen": 1}),
    ("kemp-lm", {"decoder": "llama", "graph": False}),
    ("attune", {"emotion": False, "label": False}),
    ("moel", {"norm": "pre", "top_k": 2, "tie_embeddings": True}),
    ("mime", {"norm": "pre", "prepend": "emotion"}),
    ("kemp", {"context_encoder": False, "norm": "pre"}),
    ("kemp", {"emotional_decoder": False, "decoder_layers": 2, "prepend": "emotion"}),
    ("empdg", {"emotion_words": False, "norm": "pre"}),
]
EVERY: list[tuple[str, dict[str, Any]]] = [
    *VARIANTS,
    ("roberta-gpt2", {"decoder": None}),
    *((name, {}) for name in SYSTEMS if SYSTEMS[name].family in SILENT),
]


def variant_id(variant: tuple[str, dict[str, Any]]) -> str:
    name, settings = variant
    return "-".join([name, *(f"{key}={value}" for key, value in settings.items())])
