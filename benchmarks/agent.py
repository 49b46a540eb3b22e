"""How long the agent takes to answer, stage by stage, beside the same base model that chats plainly in llama.cpp.

    full reply      one candidate: median of each stage, and of all                            target: <= 1,200 ms
    first text      of a stream: cold (the first of a process), warm (turns 2 to 9 of a        cold <= 1,500 ms
                    conversation), and at its tenth turn                                        warm, tenth <= 500 ms
    new tokens      of the prompt that were read at each of the turns 2 to 10                   <= 30
    ranked          the system's own number of candidates, the best of which is said
    resident        memory of the process with one candidate a reply, and when several were     one: <= 1,200 MB
                    ranked too

Agent and plain model run one after the other, each in a process of its own; both answer the same turns, at most `--tokens` long. The
plain model reads the conversation in its own chat form and nothing else: no emotion, concepts, label or guard. No context is answered
twice, so that nothing of it is known beforehand.

    python benchmarks/agent.py [--system default] [--base FILE.gguf] [--replies 12] [--tokens 20] [--json]
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from attune.dialogue.types import ROLES, Turn
from attune.errors import AttuneError
from attune.respond.replies import STAGES

TALK = (
    "My old dog died last night.",
    "She was fourteen. I had her since I was at school.",
    "Yes, the whole house is so quiet now.",
    "My sister loved her too, she cried on the phone.",
    "We want to bury her under the apple tree.",
    "I keep hearing her at the door.",
    "No, I have not slept much.",
    "Maybe I will go for a walk, as we always did.",
    "There is a lake behind the wood.",
    "Thank you, it is good to talk about her.",
)
CONTEXTS = (
    "I finally got the job I wanted!",
    "My neighbour plays loud music every night.",
    "I hear steps upstairs, but I am alone.",
    "A stranger paid for my lunch today.",
    "I failed my driving test again.",
    "My best friend moved to another country.",
    "I found the ring that my grandmother gave me.",
    "My boss took the praise for my work.",
)
TARGETS = {
    "full reply": 1200,
    "first text, cold": 1500,
    "first text, warm": 500,
    "first text, turn 10": 500,
    "resident, MB": 1200,
}
NEW = 30  # tokens of a prompt that a turn reads, at most


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--system", default="default", help="a run folder or a system's name")
    parser.add_argument("--base", default=None, help="the base model; default: the part smollm2")
    parser.add_argument("--replies", type=int, default=12)
    parser.add_argument("--tokens", type=int, default=20)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--measure", choices=["agent", "plain"], default=None, help=argparse.SUPPRESS)
    parser.add_argument("--tokenizer", default=None, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.measure:
        measure = {"agent": agent, "plain": plain}[arguments.measure]
        try:
            print(json.dumps(measure(arguments)))
        except (AttuneError, ImportError) as error:
            print(json.dumps({"missing": str(error)}))
        return
    ours = in_a_process("agent", arguments)
    if "missing" in ours:
        sys.exit(ours["missing"])
    base = in_a_process("plain", arguments)
    if arguments.json:
        print(json.dumps({"agent": ours, "plain": base}, indent=1))
    else:
        show(ours, base)


def in_a_process(what: str, arguments: argparse.Namespace) -> dict[str, Any]:
    command = [sys.executable, __file__, "--measure", what, "--system", arguments.system]
    command += ["--replies", str(arguments.replies), "--tokens", str(arguments.tokens)]
    if what == "plain":
        try:
            command += ["--base", arguments.base or str(packaged()), "--tokenizer", str(tokenizer(arguments.system))]
        except AttuneError as error:
            return {"missing": str(error)}
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


# ------------------------------------------------------------------------------------------------------ the agent


def agent(arguments: argparse.Namespace) -> dict[str, Any]:
    """What the agent takes; its own way of decoding, but no longer than the plain model."""
    from attune.respond.agent import load

    started = time.perf_counter()
    one = load(arguments.system, count=1)
    one.warm_up()  # as `attune chat` does while the person types
    opened = time.perf_counter() - started
    several = int(getattr(one.system, "count", 4)) if one.speaker else 1
    one.system.decoding = replace(one.system.decoding, max_steps=arguments.tokens)
    first: list[float] = []
    read: list[int] = []
    turns: list[Turn] = []
    for text in TALK:
        turns.append(Turn("speaker", text))
        before = tokens_read(one.system)
        stream = one.reply(turns, seed=0, stream=True)
        for _ in stream:
            pass
        first.append(stream.reply.timings["first"])
        read.append(tokens_read(one.system) - before)
        turns.append(Turn("listener", stream.reply.text))
    found = {"opening": 1000 * opened, **first_texts(first)}
    replies = [one.reply(context, seed=seed) for seed, context in contexts(range(arguments.replies))]
    found |= {"full reply": median(reply.timings["total"] for reply in replies)}
    found |= {f"  {stage}": median(reply.timings[stage] for reply in replies) for stage in STAGES}
    memory = resident()
    one.count = several
    further = range(arguments.replies, 2 * arguments.replies)
    ranked = [one.reply(context, seed=seed) for seed, context in contexts(further)]
    found |= {f"ranked, best of {several}": median(reply.timings["total"] for reply in ranked)}
    words = statistics.fmean(len(reply.text.split()) for reply in replies)
    found |= {"resident, MB": memory, "resident, ranked, MB": resident(), "words in a reply": words}
    return found | {"name": one.name, "new tokens": read[1:]}


# ------------------------------------------------------------------------------------------------- the plain model


def plain(arguments: argparse.Namespace) -> dict[str, Any]:
    """The same turns, in the base model's own chat form."""
    from tokenizers import Tokenizer

    from attune.generate.engines import ENGINES
    from attune.generate.settings import Decoding
    from attune.models.prompt import NOTHING_KNOWN, Prompts

    words = Tokenizer.from_file(arguments.tokenizer)
    prompts = Prompts(words)
    started = time.perf_counter()
    engine = ENGINES["llama.cpp"](arguments.base, words, eos=prompts.eos)
    opened = time.perf_counter() - started
    decoding = Decoding("nucleus", max_steps=arguments.tokens, top_k=5, top_p=0.9)

    def asked(turns: Sequence[Turn]) -> list[int]:
        listeners = sum(turn.role == "listener" for turn in turns)
        return prompts.prompt(tuple(turns), [NOTHING_KNOWN] * (listeners + 1))

    first: list[float] = []
    read: list[int] = []
    turns: list[Turn] = []
    for text in TALK:
        turns.append(Turn("speaker", text))
        started, said, before = time.perf_counter(), "", engine.usage.read
        for piece in engine.stream(asked(turns), decoding, 0):
            if not said:
                first.append(1000 * (time.perf_counter() - started))
            said += piece
        read.append(engine.usage.read - before)
        turns.append(Turn("listener", said))
    whole, lengths = [], []
    for seed, context in contexts(range(arguments.replies)):
        started = time.perf_counter()
        (reply,) = engine.generate([asked([Turn(ROLES[0], context)])], [decoding], [seed])
        whole.append(1000 * (time.perf_counter() - started))
        lengths.append(len(prompts.text(reply.ids).split()))
    memory = resident()
    engine.close()
    found = {"opening": 1000 * opened, **first_texts(first), "full reply": median(whole), "  say": median(whole)}
    found |= {"resident, MB": memory, "words in a reply": statistics.fmean(lengths)}
    return found | {"name": "plain", "new tokens": read[1:]}


def packaged() -> Path:
    from attune.parts import locate

    return locate("smollm2")


def tokenizer(system: str) -> Path:
    """The base model's: a run of the system attune has it; else the unpacked part's."""
    from attune.respond.opening import folder_of

    own = folder_of(system) / "decoder" / "tokenizer.json"
    if own.is_file():
        return own
    from attune.models.pretrained.bases import find_base

    return find_base("smollm2", "decoder").folder / "tokenizer.json"


# ------------------------------------------------------------------------------------------------------- numbers


def contexts(numbers: Iterable[int]) -> Iterator[tuple[int, str]]:
    """A context for each number, none twice, with a seed."""
    for number in numbers:
        yield number, f"{CONTEXTS[number % len(CONTEXTS)]} It was {number + 2} days ago."


def first_texts(first: Sequence[float]) -> dict[str, float]:
    return {
        "first text, cold": first[0],
        "first text, warm": median(first[1:9]),
        "first text, turn 10": first[9],
    }


def tokens_read(system: Any) -> int:
    """Of prompts, since the system was opened; 0 for one whose engine does not count them."""
    usage = getattr(getattr(system, "engine", None), "usage", None)
    return usage.read if usage else 0


def median(values: Any) -> float:
    return float(statistics.median(values))


def resident() -> float:
    """Megabytes of this process now."""
    import psutil

    return float(psutil.Process().memory_info().rss) / 1e6


def show(ours: dict[str, Any], base: dict[str, Any]) -> None:
    name = ours["name"]
    print(f"{'milliseconds':24s} {name[:12]:>12s} {'plain':>12s} {'ratio':>8s}   target")
    for what, value in ours.items():
        if what in ("name", "new tokens"):
            continue
        other = base.get(what)
        against = f"{other:12,.1f} {value / other:7.2f}×" if other else f"{'':12s} {'':8s}"
        target = (
            f"<= {TARGETS[what]:,} ({'reached' if value <= TARGETS[what] else 'missed'})" if what in TARGETS else ""
        )
        print(f"{what:24s} {value:12,.1f} {against}   {target}")
    for whose in (ours, base):
        if any(read := whose.get("new tokens", [])):
            told = "reached" if max(read) <= NEW else "missed"
            print(f"new tokens, turns 2-10   {' '.join(map(str, read))} ({whose['name']})   <= {NEW} ({told})")
    if "missing" in base:
        print(f"the plain model could not be measured: {base['missing']}")


if __name__ == "__main__":
    main()
