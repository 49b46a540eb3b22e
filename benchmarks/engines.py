"""The engines side by side: how fast they read and say, what they make of held-out replies, whether they say the same, memory.

    torch          fp32, the packaged weights multiplied out, the adapters worked into them: the reference
    adapter KIND   llama.cpp on the packaged Q4_1 file, the adapters beside it in this precision
    merged KIND    llama.cpp, the adapters worked into the weights and these quantised anew
    ctranslate2    int8, if that package is installed (it is no dependency)

Each engine runs in a process of its own. Speeds are given by the clock and, since cores are often shared, by the processor's
time (tokens per second of it, over all threads); saying is timed without reading the prompt. `same` and `begins alike` compare
greedy replies with torch's. Without --adapters random ones of a trained size are used.

    python benchmarks/engines.py [--adapters model.safetensors] [--text FILE] [--only NAME ...] [--examples 40] [--threads 2]

A text file has one turn a line; by default the held-out replies are EmpatheticDialogues' validation split below ATTUNE_DATA.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import psutil
from safetensors.numpy import load_file, save_file
from tokenizers import Tokenizer

from attune.dialogue.types import Turn
from attune.generate.engines.base import Engine, Generated
from attune.generate.settings import Decoding
from attune.generate.systems import TokenNll
from attune.models.prompt import NOTHING_KNOWN, Prompts
from attune.parts import locate

NAMES = ("torch", "adapter f16", "adapter q8_0", "merged q8_0", "merged q4_1", "merged q4_0", "ctranslate2")
PROMPT, SHORT, SAID, BATCH = (
    150,
    24,
    24,
    8,
)  # tokens of the prompt that is read, of one that is answered, of an answer; answers
EOS, OTHER = 0, 2  # <|endoftext|> stands for the end while speed is taken, so that no reply stops early


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--adapters", type=Path, help="model.safetensors of a run of attune")
    parser.add_argument("--rank", type=int, default=32, help="of random adapters, on the upper half of the layers")
    parser.add_argument("--text", type=Path)
    parser.add_argument("--only", nargs="*", default=list(NAMES), metavar="NAME")
    parser.add_argument("--examples", type=int, default=40)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--one", help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one:
        print(json.dumps(measure(arguments.one, arguments)))
        return
    with tempfile.TemporaryDirectory() as folder:
        arguments.folder = Path(folder)
        prepare(arguments)
        found = {}
        for name in arguments.only:
            command = [sys.executable, __file__, "--one", name, "--folder", folder, "--threads", str(arguments.threads)]
            done = subprocess.run(command, capture_output=True, text=True)
            if done.returncode:
                print(f"{name}: {(done.stderr.strip().splitlines() or ['failed'])[-1]}")
                continue
            found[name] = json.loads(done.stdout.splitlines()[-1])
            print(row(name, found[name], found.get("torch")), flush=True)
    print(
        f"\n{arguments.threads} threads, {arguments.examples} replies, prompts of {PROMPT} and {SHORT} tokens; load {psutil.getloadavg()[0]:.1f}"
    )


def row(name: str, found: dict[str, Any], reference: dict[str, Any] | None) -> str:
    speeds = "  ".join(f"{what} {found[what][0]:6.1f} ({found[what][1]:5.1f})" for what in ("read", "say 1", "say 8"))
    quality = f"ppl {found['ppl']:7.3f}" if found["ppl"] else "ppl     –  "
    if reference and found["ppl"]:
        quality += f" ({found['ppl'] / reference['ppl'] - 1:+.2%})"
    if reference:
        same = np.mean([a == b for a, b in zip(found["said"], reference["said"], strict=True)])
        alike = np.mean([common(a, b) / max(1, len(b)) for a, b in zip(found["said"], reference["said"], strict=True)])
        quality += f"  same {same:4.0%}, begins alike {alike:4.0%}"
    return f"{name:13s} {speeds} tokens/s (of CPU)  {quality}  {found['memory']} MB"


def common(one: list[int], other: list[int]) -> int:
    return next((i for i, (a, b) in enumerate(zip(one, other)) if a != b), min(len(one), len(other)))


def prepare(arguments: argparse.Namespace) -> None:
    """Adapters and held-out replies, the same for every engine."""
    from attune.models.pretrained import find_base

    base = find_base("smollm2", "decoder")
    tensors = load_file(arguments.adapters) if arguments.adapters else random_adapters(base.config, arguments.rank)
    tensors = {name: value for name, value in tensors.items() if "lora_" in name}
    save_file(tensors, arguments.folder / "adapters.safetensors")
    prompts = Prompts(Tokenizer.from_file(str(base.folder / "tokenizer.json")))
    pairs = []
    for context, response in dialogues(arguments.text):
        controls = [NOTHING_KNOWN] * (1 + sum(turn.role == "listener" for turn in context))
        pairs.append((prompts.prompt(context, controls), [*prompts.ids(response), prompts.eos]))
    step = max(1, len(pairs) // arguments.examples)
    (arguments.folder / "pairs.json").write_text(json.dumps(pairs[::step][: arguments.examples]))
    for file in ("config.json", "tokenizer.json"):  # so that only torch's own process imports it
        (arguments.folder / file).write_bytes((base.folder / file).read_bytes())


def random_adapters(config: Any, rank: int) -> dict[str, np.ndarray]:
    from attune.train.export_adapter import PLACES

    wide, narrow = config.hidden_size, config.num_key_value_heads * config.head_dim
    shapes = {"q_proj": (wide, wide), "k_proj": (narrow, wide), "v_proj": (narrow, wide), "o_proj": (wide, wide)}
    shapes |= dict.fromkeys(("gate_proj", "up_proj"), (config.intermediate_size, wide))
    shapes["down_proj"] = (wide, config.intermediate_size)
    rng = np.random.default_rng(0)
    found = {}
    for layer in range(config.num_hidden_layers // 2, config.num_hidden_layers):
        for place in PLACES:
            out, into = shapes[place.split(".")[1]]
            name = f"decoder.model.layers.{layer}.{place}.lora"
            found[f"{name}_A.default.weight"] = rng.normal(0, into**-0.5, (rank, into)).astype(np.float32)
            found[f"{name}_B.default.weight"] = rng.normal(0, 0.003 * rank**-0.5, (out, rank)).astype(np.float32)
    return found


def dialogues(text: Path | None) -> list[tuple[tuple[Turn, ...], str]]:
    if text:
        lines = [line.strip() for line in text.read_text(encoding="utf-8").splitlines() if line.strip()]
        return [((Turn("speaker", said),), answer) for said, answer in zip(lines[::2], lines[1::2])]
    from attune.train.data import corpus, load_examples, load_split

    examples = load_examples(load_split(corpus(None), "valid"), "listener-turns", "valid")
    return [(example.context, example.response.text) for example in examples]


def measure(name: str, arguments: argparse.Namespace) -> dict[str, Any]:
    pairs = json.loads((arguments.folder / "pairs.json").read_text())
    before = psutil.Process().memory_info().rss
    engine = opened(name, arguments, OTHER)
    found: dict[str, Any] = speeds(engine)
    engine.close()
    engine = opened(name, arguments, EOS)
    prompts, replies = [prompt for prompt, _ in pairs], [reply for _, reply in pairs]
    scored = engine.nll(prompts, replies)
    tokens = sum(one.tokens for one in scored)
    found["ppl"] = float(np.exp(sum(one.nll for one in scored) / tokens)) if tokens else None
    said = engine.generate(prompts, [Decoding(max_steps=20)] * len(prompts), [0] * len(prompts))
    found["said"] = [list(one.ids) for one in said]
    found["memory"] = (psutil.Process().memory_info().rss - before) >> 20
    engine.close()
    return found


def speeds(engine: Engine) -> dict[str, tuple[float, float]]:
    """Tokens a second by the clock and by the processor: reading a prompt, saying one reply, saying eight."""
    rng = np.random.default_rng(0)
    long_prompt = rng.integers(500, 40_000, (2, PROMPT)).tolist()
    drawn = rng.integers(500, 40_000, (BATCH, SHORT))
    drawn[:, -1] = drawn[0, -1]  # as the header of a reply ends; torch says together only what begins alike
    prompts = drawn.tolist()
    short, long = Decoding(max_steps=1), Decoding(max_steps=SAID + 1)
    engine.generate(long_prompt[:1], [short], [0])  # warm

    def timed(rows: list[list[int]], decoding: Decoding) -> np.ndarray:
        clock, processor = time.perf_counter(), time.process_time()
        engine.generate(rows, [decoding] * len(rows), [0] * len(rows))
        return np.array([time.perf_counter() - clock, time.process_time() - processor])

    found = {"read": PROMPT / timed(long_prompt[1:], short)}
    remembers = hasattr(engine, "usage")  # the prompt is not read again
    for count in (1, BATCH):
        rows = prompts[:count]
        first = timed(rows, short)
        whole = timed(rows, long)
        found[f"say {count}"] = count * (SAID + remembers) / (whole - first * (not remembers))
    return {what: tuple(value.tolist()) for what, value in found.items()}


def opened(name: str, arguments: argparse.Namespace, forbidden: int) -> Engine:
    tokenizer = Tokenizer.from_file(str(arguments.folder / "tokenizer.json"))
    end = OTHER if forbidden == EOS else EOS
    kind = name.split()[-1]
    openers: dict[str, Callable[[], Engine]] = {
        "torch": lambda: in_torch(arguments, tokenizer, end, forbidden),
        "ctranslate2": lambda: in_ctranslate2(arguments, tokenizer, end, forbidden),
        "adapter": lambda: in_llama(arguments, tokenizer, end, forbidden, kind, merge=False),
        "merged": lambda: in_llama(arguments, tokenizer, end, forbidden, kind, merge=True),
    }
    return openers[name.split()[0]]()


def with_adapters(arguments: argparse.Namespace) -> Any:
    """The decoder in torch with the adapters worked in, as a run is opened."""
    import torch

    from attune.models.pretrained import find_base
    from attune.models.pretrained.lora import add_lora, merge_lora

    torch.set_num_threads(arguments.threads)
    tensors = load_file(arguments.folder / "adapters.safetensors")
    layers = [int(name.split("layers.")[1].split(".")[0]) for name in tensors]
    decoder = find_base("smollm2", "decoder").load()
    rank = next(value.shape[0] for name, value in tensors.items() if "lora_A" in name)
    add_lora(decoder, rank, min(layers))
    state = {name.removeprefix("decoder."): torch.from_numpy(value) for name, value in tensors.items()}
    unknown = decoder.load_state_dict(state, strict=False).unexpected_keys
    assert not unknown, unknown
    merge_lora(decoder)
    return decoder


def in_torch(arguments: argparse.Namespace, tokenizer: Tokenizer, end: int, forbidden: int) -> Engine:
    from attune.generate.engines.torch import TorchEngine

    # nothing is remembered: the time that a prompt takes is subtracted when speed is taken
    engine = TorchEngine(with_adapters(arguments), tokenizer, eos=end, forbidden=[forbidden], remembered=0)
    if forbidden == OTHER:  # speed: it would read all again to tell how likely its replies were
        engine._nll = lambda prompts, said: [np.zeros(len(one)) for one in said]  # type: ignore[method-assign]
    return engine


def in_llama(
    arguments: argparse.Namespace, tokenizer: Tokenizer, end: int, forbidden: int, kind: str, merge: bool
) -> Engine:
    from attune.generate.engines.llama import LlamaEngine
    from attune.generate.engines.merged import write_merged
    from attune.train.export_adapter import write_adapter

    tensors = load_file(arguments.folder / "adapters.safetensors")
    rank = next(value.shape[0] for name, value in tensors.items() if "lora_A" in name)
    adapter = arguments.folder / "adapter.gguf"
    kept: Any = "f32" if merge else kind
    config = json.loads((arguments.folder / "config.json").read_text())
    write_adapter(adapter, tensors, config, 2.0 * rank, kept)
    settings: dict[str, Any] = {"eos": end, "forbidden": [forbidden], "threads": arguments.threads, "slots": BATCH}
    if not merge:
        return LlamaEngine(locate("smollm2"), tokenizer, adapter=adapter, context=512, **settings)
    model = arguments.folder / f"{kind}.gguf"
    if not model.is_file():
        write_merged(model, locate("smollm2"), [adapter], kind)
    return LlamaEngine(model, tokenizer, context=512, **settings)


def in_ctranslate2(arguments: argparse.Namespace, tokenizer: Tokenizer, end: int, forbidden: int) -> Engine:
    import ctranslate2

    model = arguments.folder / "ctranslate2"
    if not model.is_dir():
        from attune.models.pretrained import find_base

        state = with_adapters(arguments).state_dict()
        plain = {n.replace(".base_layer", ""): p for n, p in state.items() if "lora_" not in n}
        base = find_base("smollm2", "decoder")
        whole = base.load()
        whole.load_state_dict(plain)
        whole.save_pretrained(arguments.folder / "whole")
        base.tokenizer().save_pretrained(arguments.folder / "whole")
        converter = ctranslate2.converters.TransformersConverter(str(arguments.folder / "whole"))
        converter.convert(str(model), quantization="int8")
    generator = ctranslate2.Generator(str(model), compute_type="int8", intra_threads=arguments.threads)
    return CTranslate2Engine(generator, tokenizer, end, forbidden)


class CTranslate2Engine:
    """Greedy decoding and scoring alone: what is compared here."""

    def __init__(self, generator: Any, tokenizer: Tokenizer, eos: int, forbidden: int) -> None:
        self.generator, self.tokenizer, self.eos = generator, tokenizer, eos
        self.forbidden = [[str(tokenizer.id_to_token(forbidden))]]

    def generate(
        self, prompts: Any, decodings: Any, seeds: Any, *, stop: threading.Event | None = None
    ) -> list[Generated]:
        found = self.generator.generate_batch(
            [self._words(prompt) for prompt in prompts],
            max_length=decodings[0].max_steps,
            end_token=self.tokenizer.id_to_token(self.eos),
            suppress_sequences=self.forbidden,
            include_prompt_in_result=False,
            sampling_topk=1,
        )
        return [Generated(tuple(token for token in one.sequences_ids[0] if token != self.eos), ()) for one in found]

    def stream(self, prompt: Any, decoding: Decoding, seed: int = 0) -> Iterator[str]:
        raise NotImplementedError

    def nll(self, prompts: Any, continuations: Any) -> list[TokenNll]:
        rows = [self._words([*prompt, *said]) for prompt, said in zip(prompts, continuations, strict=True)]
        scored = self.generator.score_batch(rows, max_batch_size=8)
        return [
            TokenNll(-sum(one.log_probs[-len(said) :]), len(said))
            for one, said in zip(scored, continuations, strict=True)
        ]

    def close(self) -> None:
        self.generator.unload_model()

    def _words(self, ids: Any) -> list[str]:
        return [str(self.tokenizer.id_to_token(token)) for token in ids]


if __name__ == "__main__":
    main()
