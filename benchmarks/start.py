"""How long it takes until one can talk, in a terminal as a person has it.

    second start    `attune chat` to its first prompt, when everything is fetched; median of --starts     target: <= 5 s
    fresh           with --fresh: `make chat` in a clone of what is committed here, with empty caches,
                    to its first prompt and to the whole first reply                                      <= 180 s

A start that is not counted goes before the second one, and fetches what is missing. --fresh fetches everything from the package
index and needs some gigabytes for a while; everything is removed at the end.

    python benchmarks/start.py [--system default] [--starts 3] [--fresh] [--json]
"""

from __future__ import annotations

import argparse
import json
import os
import pty
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from select import select

TREE = Path(__file__).parents[1]
PROMPT = b"you: "
SAID = "My old dog died last night."
PATIENCE = 1800  # seconds until a start is given up
OURS = ("ATTUNE_SYSTEM", "ATTUNE_ENGINE_URL", "ATTUNE_OFFLINE", "PYTHONPATH", "VIRTUAL_ENV", "MAKEFLAGS", "MAKELEVEL")
TARGETS = {"second start": 5, "fresh, to the first reply": 180}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--system", default="default", help="a run folder or a system's name; for the second start")
    parser.add_argument("--starts", type=int, default=3)
    parser.add_argument("--fresh", action="store_true", help="also a start from nothing")
    parser.add_argument("--json", action="store_true", help="print one object instead of a table")
    given = parser.parse_args()
    command = [sys.executable, "-m", "attune.cli.main", "chat", "--system", given.system]
    prompts = [start(command, Path.cwd(), os.environ)[0] for _ in range(1 + given.starts)]
    found = {"second start": statistics.median(prompts[1:])}
    if given.fresh:
        found |= fresh()
    if given.json:
        print(json.dumps(found))
        return
    print(f"{'seconds':30s} {'':>8s}   target")
    for what, value in found.items():
        reached = "reached" if value <= TARGETS.get(what, value) else "missed"
        target = f"<= {TARGETS[what]} ({reached})" if what in TARGETS else ""
        print(f"{what:30s} {value:8.1f}   {target}")


def fresh() -> dict[str, float]:
    """From a clone and nothing else; pip's cache, too, is empty."""
    with tempfile.TemporaryDirectory() as folder:
        clone, cache = Path(folder, "attune"), Path(folder, "cache")
        subprocess.run(["git", "clone", "-q", str(TREE), str(clone)], check=True)
        environment = {name: value for name, value in os.environ.items() if name not in OURS}
        environment |= {"XDG_CACHE_HOME": str(cache), "PIP_CACHE_DIR": str(cache / "pip")}
        environment |= {"ATTUNE_CACHE": str(cache / "attune")}
        prompt, reply = start(["make", "chat"], clone, environment, SAID)
    return {"fresh, to the prompt": prompt, "fresh, to the first reply": reply}


def start(command: Sequence[str], folder: Path, environment: Mapping[str, str], text: str = "") -> tuple[float, float]:
    """Seconds to the first prompt, and to the one after the reply to `text`, if there is one."""
    with terminal(command, folder, {**environment, "NO_COLOR": "1", "TERM": "xterm"}) as (process, screen):
        began = time.perf_counter()
        shown(screen, " ".join(command))
        prompt = reply = time.perf_counter() - began
        if text:
            os.write(screen, f"{text}\n".encode())
            shown(screen, " ".join(command))
            reply = time.perf_counter() - began
        os.write(screen, b"/quit\n")
        process.wait(60)
    return prompt, reply


@contextmanager
def terminal(
    command: Sequence[str], folder: Path, environment: Mapping[str, str]
) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """A process on a terminal of its own, and our end of that."""
    screen, there = pty.openpty()
    process = subprocess.Popen(
        command, cwd=folder, env=environment, stdin=there, stdout=there, stderr=there, start_new_session=True
    )
    os.close(there)
    try:
        yield process, screen
    finally:
        if process.poll() is None:
            os.killpg(process.pid, 9)  # make does not end what it started
        process.wait()
        os.close(screen)


def shown(screen: int, what: str) -> None:
    """Wait for a prompt of what runs there."""
    seen, until = b"", time.monotonic() + PATIENCE
    while PROMPT not in seen:
        try:
            more = os.read(screen, 4096) if select([screen], [], [], max(0.0, until - time.monotonic()))[0] else b""
        except OSError:  # the process has closed its end
            more = b""
        if not more:
            sys.exit(f"'{what}' shows no prompt:\n{seen[-2000:].decode(errors='replace')}")
        seen += more


if __name__ == "__main__":
    main()
