"""Memory that is freed goes back to the system."""

from __future__ import annotations

import ctypes

LARGE = 4 << 20  # bytes: blocks of this size are asked of the system one by one
_M_MMAP_THRESHOLD, _M_ARENA_MAX = -3, -8  # glibc's malloc.h


def give_back() -> bool:
    """From now on, large blocks go back to the system when they are freed. False: this system's allocator takes no such order.

    Batches of a pretrained decoder differ in length, and so do the blocks that they need. glibc keeps freed ones of up to 32 MB for
    later, between others that are still in use, so that a training grows to several times what it needs. What is smaller than
    `LARGE` stays cheap to ask for.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError, TypeError):  # not glibc
        return False
    return bool(mallopt(_M_MMAP_THRESHOLD, LARGE)) and bool(mallopt(_M_ARENA_MAX, 1))
