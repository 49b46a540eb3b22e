"""llama.cpp as it comes in `xllamacpp`: a quantised decoder, perhaps with an adapter on it, on the CPU and without torch.

Its server runs inside this process. It decodes several replies in one pass ("slots"), and a slot remembers the prompt that it read
last: a conversation that goes on is read from where it stopped, and candidates for one prompt read it together.

What it cannot do (beams, forbidden repetitions) is refused. The same seed gives the same reply as long as a prompt is read in
the same pieces; what was remembered, or decoded beside it, can change the last digits, and then now and then a token.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import secrets
import shutil
import tempfile
import threading
import weakref
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from queue import SimpleQueue
from typing import Any, Self

import numpy as np
from tokenizers import Tokenizer

from attune.errors import AttuneError, DataError, MissingError, SettingsError
from attune.generate.engines.base import Generated
from attune.generate.engines.fragments import Fragments
from attune.generate.settings import Decoding
from attune.generate.systems import TokenNll

Chunk = dict[str, Any]  # of an answer, in llama.cpp's words

NEVER = 0xFFFFFFFF  # the seed that llama.cpp takes for "any"
EMPTY = '""'  # in a grammar: nothing but the end
STOPPING = 1.0  # seconds that a stream which is closed waits for its last token, at most
MMAP_THRESHOLD = -3  # the number of this option of mallopt
LIKELY = 64  # tokens among which one that was chosen nearly always is


@dataclass
class Usage:
    """Tokens since the engine was opened."""

    read: int = 0
    """Of prompts, computed."""
    remembered: int = 0
    """Of prompts, taken from an earlier turn or another candidate."""
    said: int = 0


class LlamaEngine:
    """A GGUF file and the tokenizer of its decoder.

    >>> from attune.parts import locate
    >>> engine = LlamaEngine(locate("smollm2"), tokenizer, eos=2)  # doctest: +SKIP
    >>> "".join(engine.stream(tokenizer.encode("My dog").ids, Decoding(max_steps=8)))  # doctest: +SKIP
    ' is a 10-year-old'
    """

    name = "llama.cpp"

    def __init__(
        self,
        model: str | Path,
        tokenizer: Tokenizer,
        *,
        eos: int,
        adapter: str | Path | None = None,
        forbidden: Sequence[int] = (),
        slots: int = 8,
        context: int = 768,
        threads: int | None = None,
        remembered: int = 64,
    ) -> None:
        """`slots` replies are decoded together, each with at most `context` tokens of prompt and reply. `threads` are by
        default `OMP_NUM_THREADS`, else the physical cores. `remembered` megabytes keep prompts that lost their slot.
        """
        xllamacpp = _library()
        for file in (model, adapter) if adapter else (model,):
            _check(Path(file))
        self.tokenizer, self.eos, self.slots, self.context = tokenizer, eos, slots, context
        self.threads = threads or int(os.environ.get("OMP_NUM_THREADS", 0)) or physical_cores()
        self.usage = Usage()
        self._forbidden = [[token, False] for token in forbidden if token != eos]
        self._fragments = Fragments(tokenizer)
        self._closed, self._counting = threading.Event(), threading.Lock()
        self.socket = Path(tempfile.mkdtemp(prefix="attune-llama-")) / "llama.sock"
        self._tidy = weakref.finalize(self, shutil.rmtree, self.socket.parent, ignore_errors=True)  # at exit, too
        parameters = xllamacpp.CommonParams()
        parameters.model.path = str(model)
        if adapter:
            parameters.lora_adapters = [xllamacpp.CommonAdapterLoraInfo(str(adapter), 1.0)]
        parameters.n_ctx, parameters.n_parallel = slots * context, slots
        # Prompts, and replies that are decoded together, take all of them. One token at a time leaves one to who hears it:
        # threads that wait for each other at every step lose more by a third one between them than they gain.
        parameters.cpuparams_batch.n_threads, parameters.cpuparams.n_threads = self.threads, max(1, self.threads - 1)
        parameters.cache_ram_mib, parameters.fit_params, parameters.verbosity = remembered, False, -1
        parameters.slot_prompt_similarity = (
            0.25  # the words that begin every prompt do not make a conversation the same
        )
        # It also listens for HTTP, which cannot be switched off: on a socket that only this user can open, with a key.
        parameters.hostnames, parameters.n_threads_http = [str(self.socket)], 1
        self.key = secrets.token_hex(16)
        parameters.api_keys, parameters.ui, parameters.endpoint_slots = [self.key], False, False
        try:
            self._server: Any = xllamacpp.Server(parameters)
        except RuntimeError as error:
            self._tidy()
            beside = f" with the adapter {adapter}" if adapter else ""
            raise DataError(f"{model}{beside}: llama.cpp cannot open it ({error})") from None
        self._pool = ThreadPoolExecutor(slots, "llama")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        if not self._closed.is_set():
            self._closed.set()
            self._pool.shutdown(wait=True, cancel_futures=True)
            self._server = None
            self._tidy()

    # — saying —

    def generate(
        self,
        prompts: Sequence[Sequence[int]],
        decodings: Sequence[Decoding],
        seeds: Sequence[int],
        *,
        stop: threading.Event | None = None,
        scored: bool = True,
    ) -> list[Generated]:
        """Replies to all prompts, always scored: it costs nothing here.

        Rows of one prompt and decoding whose seeds follow each other read the prompt once.
        """
        left = threading.Event()

        def stopped() -> bool:
            return left.is_set() or (stop is not None and stop.is_set())

        asked = [[int(token) for token in prompt] for prompt in prompts]
        groups = list(self._groups(asked, decodings, seeds))
        futures = [
            self._pool.submit(self._candidates, asked[rows[0]], decodings[rows[0]], seed, len(rows), stopped)
            for seed, rows in groups
        ]
        found: list[Generated] = [Generated((), ())] * len(prompts)
        try:
            for (_, rows), future in zip(groups, futures, strict=True):
                for row, generated in zip(rows, future.result(), strict=True):
                    found[row] = generated
        finally:
            left.set()  # if this thread was interrupted
            for future in futures:
                future.cancel()
        return found

    def stream(self, prompt: Sequence[int], decoding: Decoding, seed: int = 0) -> Generator[str, None, None]:
        pieces: SimpleQueue[str | Exception | None] = SimpleQueue()
        left = threading.Event()

        def work() -> None:
            try:
                said = False

                def hear(chunk: Chunk) -> None:
                    nonlocal said
                    if text := chunk["choices"][0]["text"]:
                        said = True
                        pieces.put(text)

                self._ask(self._body(prompt, decoding, seed), hear, left.is_set)
                if not said and not left.is_set():
                    whole = self._not_empty(prompt, decoding, seed, left.is_set)
                    pieces.put(self.tokenizer.decode(list(whole.ids)))
                pieces.put(None)
            except Exception as error:
                pieces.put(error)

        future = self._pool.submit(work)
        try:
            while (piece := pieces.get()) is not None:
                if isinstance(piece, Exception):
                    raise piece
                yield piece
        finally:
            left.set()
            if not future.cancel():
                wait([future], STOPPING)  # so that who asks next finds the slot free, and in it what was read

    def _groups(
        self, prompts: Sequence[list[int]], decodings: Sequence[Decoding], seeds: Sequence[int]
    ) -> Iterator[tuple[int, list[int]]]:
        """Rows that one request can ask for: candidate i of a request is drawn with its seed + i."""
        rows: list[int] = []
        first = 0
        for row, seed in enumerate(seed % NEVER for seed in seeds):
            same = rows and (prompts[row], decodings[row]) == (prompts[rows[0]], decodings[rows[0]])
            if not (same and seed == first + len(rows) and len(rows) < self.slots):
                if rows:
                    yield first, rows
                rows, first = [], seed
            rows.append(row)
        if rows:
            yield first, rows

    def _candidates(
        self, prompt: list[int], decoding: Decoding, seed: int, count: int, stopped: Callable[[], bool]
    ) -> list[Generated]:
        found = self._tokens(self._body(prompt, decoding, seed) | {"n": count}, stopped)
        return [
            one if one.ids or stopped() else self._not_empty(prompt, decoding, seed + i, stopped)
            for i, one in enumerate(found)
        ]

    def _not_empty(
        self, prompt: Sequence[int], decoding: Decoding, seed: int, stopped: Callable[[], bool]
    ) -> Generated:
        """A reply whose first token is not the end."""
        body = self._body(prompt, decoding, seed)
        (first,) = self._tokens(body | {"max_tokens": 1, "logit_bias": [*self._forbidden, [self.eos, False]]}, stopped)
        if decoding.max_steps == 1:
            return first
        more = {"prompt": [*body["prompt"], *first.ids], "max_tokens": decoding.max_steps - 1}
        (rest,) = self._tokens(body | more, stopped)
        return Generated(first.ids + rest.ids, first.logprobs + rest.logprobs)

    def _body(self, prompt: Sequence[int], decoding: Decoding, seed: int) -> dict[str, Any]:
        """A request in llama.cpp's words. What is best is cut out of the whole distribution, as our own decoding does."""
        if "beam" in decoding.mode or decoding.block_ngram:
            what = f"mode {decoding.mode}" if "beam" in decoding.mode else "block_ngram"
            raise SettingsError(f"decoding: the engine llama.cpp does not offer {what}; the engine torch does")
        if len(prompt) >= self.context:
            raise DataError(f"a prompt of {len(prompt)} tokens leaves no room for a reply; a slot has {self.context}")
        greedy = decoding.mode == "greedy"
        return {
            "prompt": [int(token) for token in prompt],
            "max_tokens": decoding.max_steps,
            "samplers": ["temperature"] if greedy else ["temperature", "top_p", "top_k"],
            "temperature": 0.0 if greedy else decoding.temperature,
            "top_p": decoding.top_p,
            "top_k": decoding.top_k,
            "seed": seed % NEVER,
            "logit_bias": self._forbidden,
            "cache_prompt": True,
        }

    # — scoring —

    def nll(self, prompts: Sequence[Sequence[int]], continuations: Sequence[Sequence[int]]) -> list[TokenNll]:
        """The server tells no likelihoods of a prompt, so each continuation is said, every token being the only one allowed."""
        return list(self._pool.map(self._score, prompts, continuations))

    def _score(self, prompt: Sequence[int], continuation: Sequence[int]) -> TokenNll:
        said, wanted = [int(token) for token in prompt], [int(token) for token in continuation]
        if self.eos in wanted[:-1]:
            raise DataError("the end of a reply can only be its last token")
        total = 0.0
        for partial, run in groupby(wanted, self._fragments.is_part):
            tokens = list(run)
            if partial:  # a grammar does not take them
                total += sum(self._logprob([*said, *tokens[:i]], token) for i, token in enumerate(tokens))
            else:
                body = self._body(said, Decoding(max_steps=len(tokens)), 0) | {"logit_bias": []}
                words = [f"<[{token}]>" for token in tokens if token != self.eos]
                (found,) = self._tokens(body | {"grammar": f"root ::= {' '.join(words) or EMPTY}"}, self._closed.is_set)
                total += sum(found.logprobs)
            said += tokens
        return TokenNll(-total, len(wanted))

    def after(self, prompts: Sequence[Sequence[int]], tokens: Sequence[int]) -> np.ndarray:
        """A token that is not among the likeliest is taken for as likely as the last of them."""
        found = np.empty((len(prompts), len(tokens)))
        for row, likely in enumerate(self._pool.map(lambda prompt: self._likely(prompt, LIKELY), prompts)):
            least = min(likely.values(), default=0.0)
            found[row] = [likely.get(token, least) for token in tokens]
        return found

    # — asking —

    def _tokens(self, body: dict[str, Any], stopped: Callable[[], bool]) -> list[Generated]:
        """The candidates of one request. The parts of a character are not told apart by it, and asked for afterwards."""
        count = body.get("n", 1)
        ids: list[list[int]] = [[] for _ in range(count)]
        logprobs: list[list[float | None]] = [[] for _ in range(count)]

        def hear(chunk: Chunk) -> None:
            for choice in chunk["choices"]:
                said, likely = ids[choice["index"]], logprobs[choice["index"]]
                for entry in (choice["logprobs"] or {}).get("content", ()):
                    parts = self._fragments.before(entry["id"], bytes(entry["bytes"]))
                    said += [*parts, entry["id"]]
                    likely += [*(None for _ in parts), entry["logprob"]]

        self._ask(body | {"logprobs": 1}, hear, stopped)
        found = []
        for said, likely in zip(ids, logprobs, strict=True):
            known = [
                self._logprob([*body["prompt"], *said[:i]], said[i]) if value is None else value
                for i, value in enumerate(likely)
            ]
            found.append(Generated(tuple(token for token in said if token != self.eos), tuple(known)))
        return found

    def _logprob(self, prompt: list[int], token: int) -> float:
        """Of any one next token."""
        for width in (LIKELY, self.tokenizer.get_vocab_size()):
            if token in (found := self._likely(prompt, width)):
                return found[token]
        return float("-inf")

    def _likely(self, prompt: Sequence[int], width: int) -> dict[int, float]:
        """The most likely next tokens: only the end is allowed, and what else would be likely is told beside it."""
        found: dict[int, float] = {}

        def hear(chunk: Chunk) -> None:
            for entry in (chunk["choices"][0]["logprobs"] or {}).get("content", ()):
                found.update({likely["id"]: likely["logprob"] for likely in entry["top_logprobs"]})

        body = self._body(prompt, Decoding(max_steps=1), 0) | {"grammar": f"root ::= {EMPTY}", "logprobs": width}
        self._ask(body, hear, self._closed.is_set)
        return found

    def _ask(self, body: dict[str, Any], hear: Callable[[Chunk], None], stopped: Callable[[], bool]) -> None:
        """Send a request and hear its chunks until it ends or is stopped; stopped, its slots are free at once."""
        if self._closed.is_set():
            raise AttuneError("the engine llama.cpp is closed")
        trouble: list[Exception] = []

        def call(chunk: Chunk) -> bool:
            try:
                if "error" in chunk:
                    raise AttuneError(f"llama.cpp: {chunk['error'].get('message', chunk['error'])}")
                hear(chunk)
                if used := chunk.get("timings"):
                    self._count(used)
            except Exception as error:  # it must not pass through llama.cpp
                trouble.append(error)
                return True
            return stopped() or self._closed.is_set()

        self._server.handle_completions(body | {"stream": True}, call)
        if trouble:
            raise trouble[0]

    def _count(self, used: dict[str, Any]) -> None:
        with self._counting:
            self.usage.read += used["prompt_n"]
            self.usage.remembered += used["cache_n"]
            self.usage.said += used["predicted_n"]


def physical_cores() -> int:
    """Cores that this process may run on, siblings of one core counted once."""
    allowed = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set(range(os.cpu_count() or 1))
    cores = set()
    for number in allowed:
        place = Path(f"/sys/devices/system/cpu/cpu{number}/topology")
        try:
            cores.add(((place / "physical_package_id").read_text(), (place / "core_id").read_text()))
        except OSError:
            return len(allowed)
    return len(cores)


def _library() -> Any:
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # waiting threads leave the cores alone
    # glibc's own (others do not know it): what is large goes back to the system as soon as it is freed.
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).mallopt(MMAP_THRESHOLD, 1 << 17)
    try:
        import xllamacpp
    except ImportError as error:
        raise MissingError(
            f"the engine llama.cpp cannot be loaded ({error}); it needs the package xllamacpp and the system's OpenMP "
            "library (Debian: apt install libgomp1)"
        ) from None
    return xllamacpp


def _check(file: Path) -> None:
    """A GGUF file, or an error that says what it is instead."""
    if not file.is_file():
        raise MissingError(f"no GGUF file at {file}")
    with open(file, "rb") as opened:
        if opened.read(4) != b"GGUF":
            raise DataError(f"{file}: not a GGUF file")
