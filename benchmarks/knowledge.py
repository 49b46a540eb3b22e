"""How fast knowledge is looked up, extracted and indexed, beside what it has to reach.

    look-ups      neighbours of a word, one by one and in batches, warm; also read out as objects
    live turn     CKECE (keywords included) and the graph of a context not seen before, on one core, warm
    annotation    contexts per second of one process, and what that means for EmpatheticDialogues on two cores
    indexing      a made-up file in ConceptNet 5's format: lines per second and peak memory, in a process of its own

Contexts come from EmpatheticDialogues (`--data`, or ATTUNE_DATA); without it, from sentences made up of concepts. Times are wall
clock; `cpu` is what the process itself used, which is what counts when others use the cores.

    python benchmarks/knowledge.py [--quick] [--lines 10000000] [--english 0.3] [--contexts 500] [--data DIR]
"""

from __future__ import annotations

import argparse
import os
import random
import re
import resource
import statistics
import subprocess
import sys
import tempfile
import time
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

from attune.dialogue.protocols import examples
from attune.dialogue.readers import read
from attune.dialogue.types import Context, Turn
from attune.files import data_dir
from attune.knowledge.annotate import Annotator, context_text
from attune.knowledge.build import build, default_index
from attune.knowledge.ckece import Ckece
from attune.knowledge.graph import GraphBuilder
from attune.knowledge.index import ConceptIndex
from attune.knowledge.stopwords import STOP_WORDS

ED_CONTEXTS = 51_251  # listener turns of the three splits


def row(what: str, value: float, unit: str, target: str = "", cpu: float | None = None) -> None:
    by_cpu = "" if cpu is None else f"(cpu: {cpu:,.1f})" if cpu < 1000 else f"(cpu: {cpu:,.0f})"
    number = f"{value:,.0f}" if value >= 1000 else f"{value:,.2f}"
    print(f"{what:58s} {number:>12s} {unit:10s} {by_cpu:20s} {target}", flush=True)


def rate(count: int, work: Callable[[], object]) -> tuple[float, float]:
    """The best of three: how many a second, by the clock and by CPU time."""
    clock, cpu = [], []
    for _ in range(3):
        started, used = time.perf_counter(), time.process_time()
        work()
        clock.append(time.perf_counter() - started)
        cpu.append(time.process_time() - used)
    return count / min(clock), count / min(cpu)


def contexts_of(data: str | None, count: int, index: ConceptIndex) -> list[Context]:
    folder = Path(data) if data else (data_dir() or Path()) / "empathetic_dialogues"
    if folder.is_dir():
        every = [example.context for example in examples(read(folder, split="valid"))]
        return random.Random(1).sample(every, min(count, len(every)))
    chance = random.Random(1)
    words = [word for i in chance.sample(range(len(index)), 20_000) if " " not in (word := index.concept(i))]
    made = (f"I feel {a} about the {b}. My {c} saw {d} and {e}!" for a, b, c, d, e in zip(*[iter(words)] * 5))
    return [(Turn("speaker", text),) for text, _ in zip(made, range(count))]


def look_ups(index: ConceptIndex, contexts: Sequence[Context], count: int) -> None:
    chance = random.Random(0)
    concepts = [index.concept(chance.randrange(len(index))) for _ in range(count)]
    spoken = [word for context in contexts for word in context_text(context).lower().split() if word.isalpha()]
    spoken = chance.choices([word for word in spoken if word not in STOP_WORDS], k=count)
    for name, words in (("concepts drawn evenly", concepts), ("words of contexts", spoken)):
        degree = statistics.fmean(len(index.neighbours(word)) for word in words)
        print(f"-- {name}: {degree:.1f} neighbours on average")
        few = words[: count // 20]
        alone = rate(count, lambda words=words: [index.neighbours(word) for word in words])  # type: ignore[misc]
        row("look-ups one by one", alone[0], "/s", ">= 100,000", alone[1])
        together = rate(count, lambda words=words: index.neighbours_many(words))  # type: ignore[misc]
        row("look-ups batched", together[0], "/s", ">= 1,000,000", together[1])
        objects = rate(len(few), lambda few=few: [list(index.neighbours(word)) for word in few])  # type: ignore[misc]
        row("one by one, every neighbour read out as an object", objects[0], "/s", "", objects[1])
        gathered = rate(len(few), lambda few=few: index.neighbours_many(few).concepts)  # type: ignore[misc]
        row("batched, every neighbour gathered into an array", gathered[0], "/s", "", gathered[1])


def live_turns(index: ConceptIndex, contexts: Sequence[Context]) -> None:
    ckece, graphs = Ckece(index), GraphBuilder(index)
    half = len(contexts) // 2
    ckece.extract([context_text(context) for context in contexts[:half]])
    for context in contexts[:half]:
        graphs(context)
    for name, limit, work in (
        ("CKECE of a live turn", "<= 60 ms", lambda context: ckece.extract([context_text(context)])),
        ("graph of a live turn", "<= 5 ms", graphs),
    ):
        clock, cpu = [], []
        for context in contexts[half:]:
            started, used = time.perf_counter(), time.process_time()
            work(context)
            clock.append(1000 * (time.perf_counter() - started))
            cpu.append(1000 * (time.process_time() - used))
        row(f"{name}, median", statistics.median(clock), "ms", limit, statistics.median(cpu))
        row(f"{name}, 95 of 100", statistics.quantiles(clock, n=20)[-1], "ms", "", statistics.quantiles(cpu, n=20)[-1])


def annotation(contexts: Sequence[Context]) -> None:
    annotator = Annotator()
    warm = contexts[: len(contexts) // 4]
    annotator(warm)
    rest = contexts[len(warm) :]
    started, used = time.perf_counter(), time.process_time()
    for i in range(0, len(rest), 128):
        annotator(rest[i : i + 128])
    clock, cpu = time.perf_counter() - started, time.process_time() - used
    row("annotation by one process", len(rest) / clock, "contexts/s", "", len(rest) / cpu)
    minutes = [ED_CONTEXTS / 2 * seconds / len(rest) / 60 for seconds in (clock, cpu)]
    row(f"-> {ED_CONTEXTS:,} contexts on two cores", minutes[0], "min", "<= 20 min", minutes[1])


# ------------------------------------------------------------------------------------------------- indexing

_SYLLABLES = ("ka", "lo", "mi", "ter", "an", "so", "ve", "ri", "pla", "ne", "du", "ist")
_LANGUAGES = ("fr", "de", "ja", "es", "ru", "la", "fi", "pt")
_RELATIONS = ("RelatedTo", "RelatedTo", "IsA", "Synonym", "FormOf", "Causes", "UsedFor", "HasContext", "AtLocation")
_WEIGHTS = ("1.0", "1.0", "1.0", "2.0", "0.5", "3.4641016151377544", "2.8284271247461903")


def assertions_file(path: Path, lines: int, english: float) -> None:
    """Lines as in ConceptNet 5.7, in random order; a concept is the more frequent the earlier it was invented."""
    chance = random.Random(0)
    words = []
    for i in range(1_200_000):
        word, rest = "", i
        while not word or rest:
            word += _SYLLABLES[rest % 12]
            rest //= 12
        words.append(f"{word}_{words[i // 7]}" if i % 3 == 2 else f"{word}/n" if i % 3 else word)
    packing = zlib.compressobj(1, wbits=31)
    with open(path, "wb") as file:
        for start in range(0, lines, 50_000):
            count = min(50_000, lines - start)
            columns = (
                ["en" if chance.random() < english else chance.choice(_LANGUAGES) for _ in range(count)],
                chance.choices(_RELATIONS, k=count),
                [words[int(len(words) * chance.random() ** 2)] for _ in range(count)],
                [words[int(len(words) * chance.random() ** 2)] for _ in range(count)],
                chance.choices(_WEIGHTS, k=count),
            )
            block = "".join(
                f'/a/[/r/{r}/,/c/{c}/{h}/,/c/{c}/{t}/]\t/r/{r}\t/c/{c}/{h}\t/c/{c}/{t}\t{{"dataset": "/d/wiktionary/en", '
                f'"license": "cc:by-sa/4.0", "sources": [{{"contributor": "/s/resource/wiktionary/en", '
                f'"process": "/s/process/wikiparsec/2"}}], "weight": {w}}}\n'
                for c, r, h, t, w in zip(*columns)
            )
            file.write(packing.compress(block.encode()))
        file.write(packing.flush())


def indexing(lines: int, english: float) -> None:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "assertions.csv.gz")
        assertions_file(file, lines, english)
        arguments = [sys.executable, __file__, "--index", str(file)]
        said = subprocess.run(arguments, capture_output=True, text=True, check=True).stdout.split()
    seconds, cpu, megabytes, concepts, kept = map(float, said)
    print(f"-- {lines:,} lines, {kept:,.0f} different English assertions of {concepts:,.0f} concepts")
    row("indexing", lines / seconds, "lines/s", ">= 250,000", lines / cpu)
    row("peak resident memory", megabytes, "MB", "< 1,000")


def index_and_say(file: Path) -> None:
    """What the process of its own does."""
    started, used = time.perf_counter(), time.process_time()
    index = build("conceptnet5", file.parent / "index", file)
    clock, cpu = time.perf_counter() - started, time.process_time() - used
    status = Path("/proc/self/status")  # getrusage would count the parent's memory at the fork
    found = re.search(r"VmHWM:\s+(\d+)", status.read_text()) if status.exists() else None
    memory = (int(found[1]) if found else resource.getrusage(resource.RUSAGE_SELF).ru_maxrss) / 1024
    print(clock, cpu, memory, index.meta["concepts"], index.meta["assertions"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a few seconds of each instead of minutes")
    parser.add_argument("--lines", type=int, default=10_000_000)
    parser.add_argument("--english", type=float, default=0.3, help="share of English lines; about 0.1 in the real file")
    parser.add_argument("--contexts", type=int, default=500)
    parser.add_argument("--data", default=None)
    parser.add_argument("--index", type=Path, default=None, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.index:
        index_and_say(arguments.index)
        return
    if arguments.quick:
        arguments.lines, arguments.contexts = min(arguments.lines, 500_000), min(arguments.contexts, 120)
    index = default_index()
    contexts = contexts_of(arguments.data, arguments.contexts, index)
    look_ups(index, contexts, 20_000 if arguments.quick else 200_000)
    live_turns(index, contexts[: max(40, len(contexts) // 2)])
    annotation(contexts)
    indexing(arguments.lines, arguments.english)


if __name__ == "__main__":
    main()
