from __future__ import annotations

import math
import os
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import httpx
import numpy as np
import pytest
import torch

from attune.errors import AttuneError, DataError, MissingError, SettingsError
from attune.generate.engines import ENGINES
from attune.generate.engines.fragments import Fragments
from attune.generate.engines.llama import LlamaEngine, physical_cores
from attune.generate.engines.torch import TorchEngine
from attune.generate.settings import Decoding
from tests.generate import tiny

GREEDY = Decoding(max_steps=12)
SAMPLED = Decoding("nucleus", max_steps=12, top_k=8, top_p=0.9, temperature=1.2)
TEXTS = ["My old dog", "I finally got the job! What", "Oh no! Can you call", "A stranger paid for my lunch. How"]
TOKENIZER = tiny.tokenizer()
EOS = TOKENIZER.token_to_id("<|im_end|>")
PARTS = [token for token in range(TOKENIZER.get_vocab_size()) if Fragments(TOKENIZER).is_part(token)]
PROMPTS = [TOKENIZER.encode(text).ids for text in TEXTS]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return tiny.files(tmp_path_factory.mktemp("gguf"))


@pytest.fixture(scope="module")
def engine(files: tuple[Path, Path]) -> Iterator[LlamaEngine]:
    settings = {"forbidden": PARTS, "slots": 4, "context": 256, "threads": 1}
    with LlamaEngine(files[0], TOKENIZER, eos=EOS, adapter=files[1], **settings) as opened:
        yield opened


@pytest.fixture(scope="module")
def reference() -> TorchEngine:
    return TorchEngine(tiny.with_adapters(), TOKENIZER, eos=EOS, forbidden=PARTS)


def test_llama_cpp_and_torch_agree_on_every_likelihood(engine: LlamaEngine, reference: TorchEngine) -> None:
    said = [[*TOKENIZER.encode(" died on Monday. I'm so sorry 😀, naïve").ids, EOS]] * len(PROMPTS)
    ours, theirs = engine.nll(PROMPTS, said), reference.nll(PROMPTS, said)
    assert [one.tokens for one in ours] == [one.tokens for one in theirs] == [len(said[0])] * len(PROMPTS)
    np.testing.assert_allclose([one.nll for one in ours], [one.nll for one in theirs], rtol=2e-3)


def test_what_comes_next_is_as_likely_as_in_torch(engine: LlamaEngine, reference: TorchEngine) -> None:
    tokens = [TOKENIZER.encode(text).ids[0] for text in (" died", " you", ".")]
    ours, theirs = engine.after(PROMPTS, tokens), reference.after(PROMPTS, tokens)
    assert ours.shape == theirs.shape == (len(PROMPTS), 3)
    likely = theirs >= np.sort(reference.after(PROMPTS, range(TOKENIZER.get_vocab_size())), 1)[:, -40:-39]
    assert likely.any()
    np.testing.assert_allclose(ours[likely], theirs[likely], atol=5e-3)
    assert (ours[~likely] >= theirs[~likely] - 5e-3).all(), "what is not told is at most as likely as what is"
    alone = reference.nll(PROMPTS, [[tokens[0]]] * len(PROMPTS))
    np.testing.assert_allclose(theirs[:, 0], [-one.nll for one in alone], atol=1e-4)


def test_the_adapter_is_what_makes_them_agree(files: tuple[Path, Path], reference: TorchEngine) -> None:
    said = [TOKENIZER.encode(" died on Monday.").ids]
    with LlamaEngine(files[0], TOKENIZER, eos=EOS, slots=1, context=256, threads=1) as bare:
        (without,) = bare.nll(PROMPTS[:1], said)
    plain = TorchEngine(tiny.decoder(), TOKENIZER, eos=EOS)
    assert without.nll == pytest.approx(plain.nll(PROMPTS[:1], said)[0].nll, rel=2e-3)
    assert abs(without.nll - reference.nll(PROMPTS[:1], said)[0].nll) > 0.1


def test_greedy_replies_and_their_logprobs_are_those_of_torch(engine: LlamaEngine, reference: TorchEngine) -> None:
    count = len(PROMPTS)
    ours = engine.generate(PROMPTS, [GREEDY] * count, [0] * count)
    theirs = reference.generate(PROMPTS, [GREEDY] * count, [0] * count)
    assert [one.ids for one in ours] == [one.ids for one in theirs]
    for one, other in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(one.logprobs, other.logprobs, atol=3e-2)  # llama.cpp remembers in half precision


def test_a_seed_fixes_a_reply_alone_or_among_candidates(engine: LlamaEngine) -> None:
    prompt = PROMPTS[1]
    before = engine.usage.read
    together = engine.generate([prompt] * 4, [SAMPLED] * 4, [7, 8, 9, 10])
    assert engine.usage.read - before <= len(prompt) + 3, "the candidates read their prompt once"
    alone = [engine.generate([prompt], [SAMPLED], [seed])[0] for seed in (7, 8, 9, 10)]
    assert [one.ids for one in together] == [one.ids for one in alone]
    assert len({one.ids for one in together}) > 1


def test_sampling_cuts_the_distribution_where_torch_does(engine: LlamaEngine, reference: TorchEngine) -> None:
    decoding = Decoding("nucleus", max_steps=1, top_k=4, top_p=0.6, temperature=1.5)
    prompt = PROMPTS[2]
    with torch.no_grad():
        logits = reference.model.decoder(torch.tensor([prompt])).logits[0, -1] / decoding.temperature
    logits[[EOS, *PARTS]] = -math.inf  # a reply is not empty
    shares, order = logits.softmax(-1).sort(descending=True)
    allowed = order[: min(4, int((shares.cumsum(0) - shares < 0.6).sum()))].tolist()
    assert len(allowed) > 1
    draws = 160
    said = engine.generate([prompt] * draws, [decoding] * draws, range(draws))
    counts = Counter(one.ids[0] for one in said)
    assert set(counts) <= set(allowed)
    best = float(shares[0] / shares[: len(allowed)].sum())
    assert counts[allowed[0]] / draws == pytest.approx(best, abs=4 * math.sqrt(best * (1 - best) / draws))


def test_forbidden_tokens_are_never_said_and_no_reply_is_empty(files: tuple[Path, Path]) -> None:
    word = TOKENIZER.encode("a").ids[0]
    assert len(PARTS) > 100
    forbidden = [token for token in range(TOKENIZER.get_vocab_size()) if token not in (word, EOS)]
    with LlamaEngine(files[0], TOKENIZER, eos=EOS, forbidden=forbidden, slots=2, context=256, threads=1) as opened:
        count = len(PROMPTS)
        for decoding in (Decoding(max_steps=3), Decoding("nucleus", max_steps=3, temperature=9.0)):
            for one in opened.generate(PROMPTS, [decoding] * count, range(count)):
                assert one.ids
                assert set(one.ids) == {word}
                assert len(one.logprobs) == len(one.ids) + (len(one.ids) < 3)
            assert "".join(opened.stream(PROMPTS[0], decoding)).startswith("a")


def test_a_conversation_that_goes_on_is_read_from_where_it_stopped(engine: LlamaEngine) -> None:
    first = TOKENIZER.encode("I hear steps upstairs, but I'm alone. " * 5).ids
    (reply,) = engine.generate([first], [GREEDY], [0])
    engine.generate([PROMPTS[0]], [GREEDY], [0])  # somebody else talks meanwhile
    more = TOKENIZER.encode(" My sister is coming.").ids
    read, remembered = engine.usage.read, engine.usage.remembered
    engine.generate([[*first, *reply.ids, *more]], [GREEDY], [0])
    assert engine.usage.remembered - remembered >= len(first)
    assert engine.usage.read - read <= len(more) + len(reply.ids)


def test_a_conversation_that_lost_its_slot_is_remembered_too(files: tuple[Path, Path]) -> None:
    with LlamaEngine(files[0], TOKENIZER, eos=EOS, slots=1, context=256, threads=1) as opened:
        first = TOKENIZER.encode("I hear steps upstairs, but I'm alone. " * 5).ids
        opened.generate([first], [GREEDY], [0])
        opened.generate([TOKENIZER.encode("A stranger paid for my lunch. " * 6).ids], [GREEDY], [0])
        remembered = opened.usage.remembered
        opened.generate([[*first, *PROMPTS[0]]], [GREEDY], [0])
        assert opened.usage.remembered - remembered >= len(first) - 1


def test_the_pieces_of_a_stream_are_the_reply(engine: LlamaEngine) -> None:
    for decoding in (GREEDY, SAMPLED):
        (whole,) = engine.generate([PROMPTS[0]], [decoding], [5])
        pieces = list(engine.stream(PROMPTS[0], decoding, 5))
        assert "".join(pieces) == TOKENIZER.decode(list(whole.ids))
        assert len(pieces) > 1


def test_a_stream_that_is_left_frees_its_slot(files: tuple[Path, Path]) -> None:
    endless = Decoding(max_steps=400)
    word = TOKENIZER.encode("a").ids[0]
    only = [token for token in range(TOKENIZER.get_vocab_size()) if token != word]
    # the end is only avoided by chance in a stream of a random model: forbid every word but one, and the rest is endless
    with LlamaEngine(files[0], TOKENIZER, eos=-1, forbidden=only, slots=1, context=480, threads=1) as opened:
        stream = opened.stream(PROMPTS[0], endless)
        assert next(stream) == "a"
        stream.close()
        (one,) = opened.generate([PROMPTS[1]], [Decoding(max_steps=2)], [0])
        assert len(one.ids) == 2
        assert opened.usage.said < 300, "the stream went on although nobody listened"


def test_what_is_stopped_comes_back_as_far_as_it_got(files: tuple[Path, Path]) -> None:
    word = TOKENIZER.encode("a").ids[0]
    only = [token for token in range(TOKENIZER.get_vocab_size()) if token != word]
    stop = threading.Event()
    with LlamaEngine(files[0], TOKENIZER, eos=-1, forbidden=only, slots=1, context=480, threads=1) as opened:
        threading.Timer(0.05, stop.set).start()
        found = opened.generate([PROMPTS[0]] * 3, [Decoding(max_steps=450)] * 3, [0, 5, 9], stop=stop)
        assert min(len(one.ids) for one in found) < 450


def test_closing_waits_for_nothing_but_stops_what_is_under_way(files: tuple[Path, Path]) -> None:
    opened = LlamaEngine(files[0], TOKENIZER, eos=EOS, slots=1, context=256, threads=1)
    stream = opened.stream(PROMPTS[0], Decoding(max_steps=200))
    next(stream)
    started = time.monotonic()
    opened.close()
    opened.close()
    assert time.monotonic() - started < 5
    with pytest.raises((AttuneError, RuntimeError)):
        opened.generate([PROMPTS[0]], [GREEDY], [0])


def test_its_own_tokenizer_is_that_of_the_decoder(engine: LlamaEngine) -> None:
    texts = [*TEXTS, "I'll pay 1,250 pounds;  then 3 more\n\n", "naïve 😀 «quoted»", " leading and trailing "]
    for text in texts:
        assert tokenized(engine, text) == TOKENIZER.encode(text).ids


def tokenized(engine: LlamaEngine, text: str) -> list[int]:
    """By llama.cpp itself."""
    transport = httpx.HTTPTransport(uds=str(engine.socket))
    with httpx.Client(transport=transport, headers={"Authorization": f"Bearer {engine.key}"}) as client:
        answer = client.post("http://llama/tokenize", json={"content": text, "parse_special": False})
        assert answer.status_code == 200, answer.text
        return list(answer.json()["tokens"])


def test_nobody_without_the_key_is_answered(engine: LlamaEngine) -> None:
    transport = httpx.HTTPTransport(uds=str(engine.socket))
    with httpx.Client(transport=transport) as client:
        assert client.post("http://llama/tokenize", json={"content": "a"}).status_code == 401
    assert engine.socket.parent.stat().st_mode & 0o077 == 0


def test_parts_of_a_character_are_found_again() -> None:
    fragments = Fragments(TOKENIZER)
    ids = TOKENIZER.encode("é").ids
    assert len(ids) == 2
    assert fragments.before(ids[1], "é".encode()) == ids[:1]
    assert all(map(fragments.is_part, ids))
    word = TOKENIZER.encode("dog").ids[-1]
    assert fragments.before(word, b"g") == []
    assert not fragments.is_part(word)


def test_what_it_cannot_do_is_refused_in_one_line(engine: LlamaEngine, tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="does not offer mode beam; the engine torch does"):
        engine.generate([PROMPTS[0]], [Decoding("beam", beams=2)], [0])
    with pytest.raises(SettingsError, match="block_ngram"):
        list(engine.stream(PROMPTS[0], Decoding(block_ngram=3)))
    with pytest.raises(DataError, match="300 tokens leaves no room"):
        engine.generate([[5] * 300], [GREEDY], [0])
    with pytest.raises(AttuneError, match="invalid tokens"):
        engine.generate([[10**6]], [GREEDY], [0])
    with pytest.raises(DataError, match="last token"):
        engine.nll([PROMPTS[0]], [[EOS, 5]])
    with pytest.raises(MissingError, match="no GGUF file"):
        LlamaEngine(tmp_path / "none.gguf", TOKENIZER, eos=EOS)
    (tmp_path / "bad.gguf").write_bytes(b"pickle")
    with pytest.raises(DataError, match="not a GGUF file"):
        LlamaEngine(tmp_path / "bad.gguf", TOKENIZER, eos=EOS)


def test_a_file_that_is_cut_off_and_an_adapter_of_another_shape_are_errors(
    files: tuple[Path, Path], tmp_path: Path
) -> None:
    cut = tmp_path / "cut.gguf"
    cut.write_bytes(files[0].read_bytes()[:9000])
    with pytest.raises(DataError, match="cannot open it"):
        LlamaEngine(cut, TOKENIZER, eos=EOS)
    with pytest.raises(DataError, match="with the adapter"):
        LlamaEngine(files[0], TOKENIZER, eos=EOS, adapter=files[0])


def test_engines_are_found_by_name() -> None:
    assert ENGINES["llama.cpp"] is LlamaEngine
    assert ENGINES["torch"] is TorchEngine
    assert physical_cores() >= 1


def test_who_forgets_to_close_an_engine_leaves_no_folder_behind(files: tuple[Path, Path], tmp_path: Path) -> None:
    script = f"""
from tests.generate import tiny
from attune.generate.engines.llama import LlamaEngine
engine = LlamaEngine({str(files[0])!r}, tiny.tokenizer(), eos={EOS}, slots=1, context=64, threads=1)
assert engine.socket.exists()
"""
    subprocess.run([sys.executable, "-c", script], check=True, env={**os.environ, "TMPDIR": str(tmp_path)})
    assert not list(tmp_path.iterdir())
