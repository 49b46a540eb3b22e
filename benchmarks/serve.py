"""How much a server of Attune bears: several clients against one, errors, and whether its memory stays flat.

    python benchmarks/serve.py                             the default system, 16 clients for 3 minutes
    python benchmarks/serve.py --system runs/kemp --seconds 30
    python benchmarks/serve.py --url http://127.0.0.1:8000 a server that runs already

Clients ask, wait for the reply, and ask again; one that is answered 429 comes back when it was told to. No talk comes twice,
so that each is really worked out, and what a server remembers of talks grows as it would. Clients share the machine with the
server. Everything is measured in one run; what counts is the ratio.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import IO

import httpx

TALKS = [
    ["I finally got the job! {name} called on {day}; they chose me out of {number}."],
    ["My old dog {name} died on {day}, after {number} weeks of illness, and the house is so quiet."],
    [
        "I have an exam on {day}, together with {name} and {number} others.",
        "Are you prepared?",
        "I studied for {number} days, but I cannot sleep.",
    ],
    [
        "My best friend {name} forgot my birthday on {day}. I turned {number}.",
        "Oh no. Did you tell her?",
        "No, I am too hurt to call {name}.",
    ],
    ["A stranger paid {number} dollars for my lunch on {day}. Her name was {name}."],
    ["I hear steps upstairs, but I am alone until {day}, and {name} lives {number} miles away."],
    [
        "We are expecting our first child in {number} weeks, on a {day}! She will be called {name}.",
        "Congratulations!",
        "Thank you! I am happy about {name}, and a little afraid.",
    ],
    ["I lied to my sister {name} about {number} dollars, and on {day} she found out."],
]
NAMES = ("Ada", "Alice", "Anna", "Clara", "Daisy", "Elena", "Emma", "Fiona", "Grace", "Hannah", "Iris", "Jane", "Julia")
NAMES += ("Laura", "Leila", "Lena", "Luna", "Maria", "Maya", "Mina", "Nora", "Paula", "Rosa", "Ruby", "Sara", "Zoe")
DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")


def talks(seed: int) -> Iterator[list[str]]:
    """Talks that differ from their first turn on, so that nothing of one is known from another."""
    draw, told = random.Random(seed), set()
    while True:
        talk, name, day, number = draw.choice(TALKS), draw.choice(NAMES), draw.choice(DAYS), draw.randrange(12, 100)
        texts = [text.format(name=name, day=day, number=number) for text in talk]
        if texts[0] not in told:
            told.add(texts[0])
            yield texts


@dataclass
class Load:
    """What some clients saw."""

    clients: int
    seconds: float = 0.0
    took: list[float] = field(default_factory=list)  # seconds of each reply
    refused: int = 0  # 429
    errors: list[str] = field(default_factory=list)

    @property
    def rate(self) -> float:
        return len(self.took) / self.seconds

    def centile(self, share: float) -> float:
        ordered = sorted(self.took)
        return ordered[min(len(ordered) - 1, int(share * len(ordered)))]

    def row(self) -> dict[str, float]:
        return {
            "clients": self.clients,
            "seconds": round(self.seconds, 1),
            "replies": len(self.took),
            "replies_per_second": round(self.rate, 2),
            "median_s": round(statistics.median(self.took), 3),
            "p95_s": round(self.centile(0.95), 3),
            "refused_429": self.refused,
            "errors": len(self.errors),
        }


async def load(url: str, told: Iterator[list[str]], clients: int, seconds: float, least: int = 0) -> Load:
    """Let clients talk for a time, and until there are `least` replies; each request takes the next of the talks."""
    seen = Load(clients)
    limits = httpx.Limits(max_connections=clients)
    async with httpx.AsyncClient(base_url=url, timeout=120, limits=limits) as http:
        started = time.perf_counter()

        async def talk() -> None:
            while time.perf_counter() - started < seconds or len(seen.took) < least:
                await ask(http, seen, next(told))

        await asyncio.gather(*(talk() for _ in range(clients)))
        seen.seconds = time.perf_counter() - started
    return seen


async def ask(http: httpx.AsyncClient, seen: Load, texts: list[str]) -> None:
    messages = [{"role": ("user", "assistant")[i % 2], "content": text} for i, text in enumerate(texts)]
    began = time.perf_counter()
    try:
        answer = await http.post("/v1/chat/completions", json={"messages": messages, "store": False})
    except httpx.HTTPError as error:
        seen.errors.append(repr(error))
        return
    if answer.status_code == 429:
        seen.refused += 1
        await asyncio.sleep(float(answer.headers["retry-after"]))
    elif answer.status_code != 200 or not answer.json()["choices"][0]["message"]["content"]:
        seen.errors.append(f"{answer.status_code}: {answer.text[:200]}")
    else:
        seen.took.append(time.perf_counter() - began)


def metric(url: str, name: str) -> float:
    """A number of the server's own /metrics, summed over its labels."""
    lines = httpx.get(f"{url}/metrics", timeout=60).text.splitlines()
    return sum(float(line.rsplit(" ", 1)[1]) for line in lines if re.match(rf"{name}(\{{|\s)", line))


def resident(url: str) -> float:
    return metric(url, "process_resident_memory_bytes") / 1e6


@contextmanager
def server(system: str) -> Iterator[str]:
    """A server of this machine, in a process of its own."""
    command = [sys.executable, "-m", "attune.cli.main", "serve", "--port", "0", "--system", system]
    with tempfile.TemporaryFile("w+") as log:
        process = subprocess.Popen(command, stderr=log)
        try:
            yield waited_for(process, log)
        finally:
            process.terminate()
            process.wait(60)


def waited_for(process: subprocess.Popen[bytes], log: IO[str]) -> str:
    """The address of a server, once it answers."""
    while process.poll() is None:
        log.seek(0)
        if found := re.search(r" at (http://\S+)", log.read()):
            try:
                httpx.get(f"{found[1]}/health", timeout=5).raise_for_status()
                return found[1]
            except httpx.HTTPError:
                pass
        time.sleep(0.2)
    log.seek(0)
    raise SystemExit(f"the server did not start: {log.read().strip()}")


def measure(url: str, told: Iterator[list[str]], clients: int, seconds: float, requests: int) -> dict[str, object]:
    """One client, then several; then more until `requests` were answered, with the memory before and after."""
    warm = asyncio.run(load(url, told, clients, 0, least=max(2 * clients, requests // 10)))
    one = asyncio.run(load(url, told, 1, seconds))
    before = metric(url, "attune_batch_size_sum"), metric(url, "attune_batch_size_count")
    memory = [resident(url)]
    many = asyncio.run(load(url, told, clients, seconds))
    batches = metric(url, "attune_batch_size_count") - before[1]
    batch = (metric(url, "attune_batch_size_sum") - before[0]) / batches
    memory.append(resident(url))
    further = Load(clients)
    while len(many.took) + len(further.took) < requests:
        more = asyncio.run(load(url, told, clients, 0, least=min(200, requests - len(many.took) - len(further.took))))
        further.took += more.took
        further.errors += more.errors
        memory.append(resident(url))
    return {
        "loads": [one.row(), many.row()],
        "throughput_ratio": round(many.rate / one.rate, 2),
        "mean_batch": round(batch, 2),
        "requests_for_memory": len(many.took) + len(further.took),
        "memory_mb": [round(amount, 1) for amount in memory],
        "memory_change_percent": round(100 * (memory[-1] / memory[0] - 1), 2),
        "errors": (warm.errors + one.errors + many.errors + further.errors)[:5],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--system", default="default", help="a run folder or a registered system")
    parser.add_argument("--url", help="a server that runs already, instead of one of its own")
    parser.add_argument("--clients", type=int, default=16)
    parser.add_argument("--seconds", type=float, default=180, help="for one client, and again for all")
    parser.add_argument("--requests", type=int, default=2000, help="over which the memory is watched")
    parser.add_argument(
        "--seed", type=int, default=0, help="draws the talks; another for a server that has heard these"
    )
    parser.add_argument("--json", action="store_true", help="print one object instead of a table")
    given = parser.parse_args()
    told = talks(given.seed)
    if given.url:
        found = measure(given.url, told, given.clients, given.seconds, given.requests)
    else:
        with server(given.system) as url:
            found = measure(url, told, given.clients, given.seconds, given.requests)
    if given.json:
        print(json.dumps(found))
    else:
        show(found)
    if found["errors"]:
        sys.exit(1)


def show(found: dict[str, object]) -> None:
    loads = found["loads"]
    assert isinstance(loads, list)
    for name in loads[0]:
        print(f"{name.replace('_', ' '):20}" + "".join(f"{load[name]:>12,}" for load in loads))
    for name, unit in (
        ("throughput_ratio", " ×"),
        ("mean_batch", " replies in a pass"),
        ("memory_change_percent", " %"),
    ):
        print(f"{name.replace('_', ' '):20}{found[name]:>12}{unit}")
    print(f"resident memory, MB  {found['memory_mb']} over {found['requests_for_memory']:,} replies")
    print(f"errors but 429       {found['errors'] or 'none'}")


if __name__ == "__main__":
    main()
