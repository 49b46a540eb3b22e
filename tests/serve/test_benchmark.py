"""A short run of the load benchmark, on an agent whose pass takes as long for one reply as for sixteen."""

from __future__ import annotations

import json
import runpy
import subprocess
import sys
from itertools import islice
from pathlib import Path

import pytest

import attune

TREE = Path(attune.__file__).parents[1]


def test_no_talk_of_the_load_and_no_context_of_the_agent_comes_twice() -> None:
    """Else what is remembered of it would be measured, and what is remembered would not grow."""
    talks = runpy.run_path(str(TREE / "benchmarks" / "serve.py"))["talks"]
    openings = [talk[0] for talk in islice(talks(0), 5000)]
    assert len(set(openings)) == 5000
    assert not any("{" in text for talk in islice(talks(1), 500) for text in talk)
    assert next(talks(0))[0] == openings[0] != next(talks(1))[0]
    contexts = runpy.run_path(str(TREE / "benchmarks" / "agent.py"))["contexts"]
    assert len({text for _, text in contexts(range(500))}) == 500


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_sixteen_clients_are_served_together_without_errors_in_flat_memory() -> None:
    server = subprocess.Popen(
        [sys.executable, "-m", "tests.serve.fake", "--latency", "0.2"],
        cwd=TREE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        assert server.stdout is not None
        url = server.stdout.readline().strip()
        program = [sys.executable, "benchmarks/serve.py", "--url", url]
        options = ["--seconds", "5", "--requests", "600", "--json"]
        done = subprocess.run([*program, *options], cwd=TREE, capture_output=True, text=True)
    finally:
        server.kill()
        server.wait()
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(done.stdout)
    assert found["errors"] == []
    assert found["throughput_ratio"] >= 2
    assert found["mean_batch"] > 2
    assert abs(found["memory_change_percent"]) <= 5, found["memory_mb"]
