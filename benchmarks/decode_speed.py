"""How much faster greedy decoding of a test set is than decoding it the way public code does (FACTS A.0).

    public   one context at a time, no cache, logits at every position, always 51 steps
    attune   batches of like length, cache, a reply stops at its end

The public way is timed on a sample, since it takes more than an hour for the whole test set.

    python benchmarks/decode_speed.py --run runs/emoprepend-tuned [--sample 20] [--data DIR]
"""

from __future__ import annotations

import argparse
import resource
import time

import torch
from torch.nn import functional as F

from attune.generate.neural import WordSystem
from attune.generate.settings import Decoding
from attune.generate.systems import open_system
from attune.models.codec import BOS
from attune.train.data import corpus, load_examples, load_split

STEPS = 51


@torch.inference_mode()
def public_way(system: WordSystem, contexts: list) -> None:  # type: ignore[type-arg]
    for context in contexts:
        read = system.model.encode(system.codec.collate(system.codec.encode_contexts([context])))
        tokens = torch.full((1, 1), BOS)
        for _ in range(STEPS):
            cache = system.model.start(read)
            logits = F.linear(*system.model.output_layer(system.model.decode(tokens, cache)))
            tokens = torch.cat([tokens, logits[:, -1:].argmax(-1)], 1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--run", required=True)
    parser.add_argument("--sample", type=int, default=20)
    parser.add_argument("--data", default=None)
    arguments = parser.parse_args()
    system = open_system(arguments.run)
    assert isinstance(system, WordSystem)
    examples = load_examples(load_split(corpus(arguments.data), "test"), "listener-turns", "test")
    contexts = [example.context for example in examples]
    sample = contexts[:: max(1, len(contexts) // arguments.sample)][: arguments.sample]
    public_way(system, sample[:1])
    started = time.perf_counter()
    public_way(system, sample)
    slow = (time.perf_counter() - started) / len(sample)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    started = time.perf_counter()
    said = system.reply(contexts, decoding=Decoding("greedy", max_steps=30))
    whole = time.perf_counter() - started
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    print(f"{system.name}: {len(contexts)} contexts, {torch.get_num_threads()} threads")
    print(
        f"public  {slow * 1000:9.1f} ms a reply   {slow * len(contexts) / 60:7.1f} min the test set (from {len(sample)})"
    )
    print(
        f"attune  {whole / len(contexts) * 1000:9.1f} ms a reply   {whole / 60:7.1f} min the test set   ({len(said)} replies)"
    )
    print(f"ratio   {slow * len(contexts) / whole:9.1f} ×")
    print(f"peak resident memory: {before} MB before, {after} MB after decoding the test set")


if __name__ == "__main__":
    main()
