from __future__ import annotations

import ctypes
import subprocess
import sys

import pytest

from attune.train import memory

KEPT = """
import ctypes, sys, psutil
from attune.train.memory import LARGE, give_back
if sys.argv[1] == "give back":
    assert give_back()
libc, size = ctypes.CDLL(None), 2 * LARGE
libc.malloc.restype, libc.malloc.argtypes, libc.free.argtypes = ctypes.c_void_p, [ctypes.c_size_t], [ctypes.c_void_p]
libc.free(libc.malloc(size))  # from here on, left to itself, glibc keeps blocks of this size
before, large, small = psutil.Process().memory_info().rss, [], []
for _ in range(20):
    large.append(libc.malloc(size))
    ctypes.memset(large[-1], 1, size)
    small.append(libc.malloc(100_000))  # stands behind it and stays
for block in large:
    libc.free(block)
print((psutil.Process().memory_info().rss - before) / (20 * size))
"""


def kept(how: str) -> float:
    """The share of what was freed that a process still holds."""
    done = subprocess.run([sys.executable, "-c", KEPT, how], capture_output=True, text=True, check=True)
    return float(done.stdout)


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "mallopt"), reason="not glibc")
def test_large_blocks_go_back_to_the_system_between_small_ones_that_stay() -> None:
    assert kept("leave alone") > 0.5
    assert kept("give back") < 0.1


def test_another_allocator_is_left_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory.ctypes, "CDLL", lambda _: object())
    assert memory.give_back() is False
