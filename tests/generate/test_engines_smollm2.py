"""llama.cpp on the packaged decoder, against torch on the same weights multiplied out."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer

from attune.generate.engines.llama import Chunk, LlamaEngine
from attune.generate.engines.torch import TorchEngine
from attune.generate.settings import Decoding
from attune.models.pretrained import find_base
from attune.models.pretrained.lora import add_lora
from attune.parts import locate
from attune.train.export_adapter import write_adapter
from tests.generate.test_engines_llama import tokenized
from tests.generate.tiny import adapters

pytestmark = pytest.mark.slow

EOS = 2
SAID = [
    ("My old dog died on Monday.", "I'm so sorry to hear that. How old was she?"),
    ("I finally got the job!", "Congratulations! You must be so proud of yourself."),
    ("There was a 2nd noise at 3:15, then 120 more…", "Oh no, that sounds scary. Are you safe?"),
    ("A stranger paid for my lunch.", "How kind of them! 😀 Did you thank them?"),
]
TEXTS = [
    *(text for pair in SAID for text in pair),
    "I was 19, and it cost $1,299.99 — can you believe it?",
    "  two spaces  and 12  numbers\n\n\ttabs",
    "naïve café, «guillemets», 你好, 🎉🎉, e\u0301",
    "don't you'll I'VE it's we'd",
]


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return Tokenizer.from_file(str(find_base("smollm2", "decoder").folder / "tokenizer.json"))


@pytest.fixture(scope="module")
def reference(tokenizer: Tokenizer) -> TorchEngine:
    decoder = find_base("smollm2", "decoder").load()
    add_lora(decoder, 16, 22)
    generator = torch.Generator().manual_seed(1)
    for name, parameter in decoder.named_parameters():
        if "lora_" in name:
            size = parameter.shape[1] ** -0.5
            parameter.data.normal_(0, size if "lora_A" in name else 0.02 * size, generator=generator)
    return TorchEngine(decoder, tokenizer, eos=EOS)


@pytest.fixture(scope="module")
def engine(
    reference: TorchEngine, tokenizer: Tokenizer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[LlamaEngine]:
    path: Path = tmp_path_factory.mktemp("adapter") / "adapter.gguf"
    decoder = reference.model.decoder
    write_adapter(path, adapters(decoder), decoder.config.to_dict(), 32, "q8_0")
    with LlamaEngine(locate("smollm2"), tokenizer, eos=EOS, adapter=path, slots=8, context=256) as opened:
        yield opened


def prompts(tokenizer: Tokenizer) -> list[list[int]]:
    form = "<|im_start|>user\n{}<|im_end|>\n<|im_start|>assistant\n"
    return [tokenizer.encode(form.format(said), add_special_tokens=False).ids for said, _ in SAID]


def test_likelihoods_differ_by_less_than_one_in_a_hundred(
    engine: LlamaEngine, reference: TorchEngine, tokenizer: Tokenizer
) -> None:
    replies = [[*tokenizer.encode(reply, add_special_tokens=False).ids, EOS] for _, reply in SAID]
    ours, theirs = (one.nll(prompts(tokenizer), replies) for one in (engine, reference))
    total, expected = sum(one.nll for one in ours), sum(one.nll for one in theirs)
    assert total == pytest.approx(expected, rel=0.01)
    np.testing.assert_allclose(
        [one.nll for one in ours], [one.nll for one in theirs], rtol=0.1
    )  # single replies are a few tokens


def test_greedy_replies_begin_alike(engine: LlamaEngine, reference: TorchEngine, tokenizer: Tokenizer) -> None:
    decodings, seeds = [Decoding(max_steps=8)] * len(SAID), [0] * len(SAID)
    ours, theirs = (one.generate(prompts(tokenizer), decodings, seeds) for one in (engine, reference))
    assert sum(one.ids[:4] == other.ids[:4] for one, other in zip(ours, theirs, strict=True)) >= len(SAID) - 1


def test_a_reply_is_as_likely_as_it_was_when_it_was_said(engine: LlamaEngine, tokenizer: Tokenizer) -> None:
    ask = "<|im_start|>user\nWrite three emojis for joy.<|im_end|>\n<|im_start|>assistant\n"
    prompt = tokenizer.encode(ask, add_special_tokens=False).ids
    (said,) = engine.generate([prompt], [Decoding(max_steps=12)], [0])
    (scored,) = engine.nll([prompt], [said.ids])
    assert -sum(said.logprobs[: len(said.ids)]) == pytest.approx(scored.nll, rel=0.02, abs=0.05)


def test_its_own_tokenizer_is_that_of_the_decoder(engine: LlamaEngine, tokenizer: Tokenizer) -> None:
    different = [text for text in TEXTS if tokenized(engine, text) != tokenizer.encode(text).ids]
    # some versions of transformers leave out that digits are split off first; it shows where several spaces stand before a number
    assert set(different) <= {"  two spaces  and 12  numbers\n\n\ttabs"}


def test_eight_replies_are_decoded_side_by_side(engine: LlamaEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    """What it saves depends on the CPU, so nothing is timed."""
    heard: list[int] = []
    ask = engine._ask

    def listen(body: dict[str, Any], hear: Callable[[Chunk], None], stopped: Callable[[], bool]) -> None:
        def note(chunk: Chunk) -> None:
            heard.append(threading.get_ident())
            hear(chunk)

        ask(body, note, stopped)

    monkeypatch.setattr(engine, "_ask", listen)
    rows = np.random.default_rng(2).integers(500, 40_000, (8, 8)).tolist()
    engine.generate(rows, [Decoding(max_steps=48)] * 8, [0] * 8)
    open_at = [sum(one in heard[:i] and one in heard[i:] for one in set(heard)) for i in range(len(heard))]
    assert max(open_at) >= 4, "replies that had begun and not ended, at any one moment"


def test_a_stream_begun_again_reads_nothing_twice(tokenizer: Tokenizer) -> None:
    prompt = tokenizer.encode("My sister and I walked along the river, and then it began to rain. " * 6).ids
    sampled = Decoding("nucleus", max_steps=12, top_k=5)
    with LlamaEngine(locate("smollm2"), tokenizer, eos=EOS, slots=4, context=256) as opened:
        for seed in range(2):
            stream = opened.stream(prompt, sampled, seed)
            next(stream)
            stream.close()
        list(opened.stream(prompt, sampled, 2))
        assert opened.usage.read <= 1, "what a stream that was left had read is in its slot"
        assert opened.usage.remembered >= len(prompt) - 1
