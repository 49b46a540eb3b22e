"""Attune: an open toolkit and a running system for empathetic dialogue."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from attune.generate.saying import Tone as Tone
    from attune.respond.agent import load as load

__version__ = "0.1.0"

_LAZY = {"load": "attune.respond.agent", "Tone": "attune.generate.saying"}


def __getattr__(name: str) -> object:
    """`attune.load` and `attune.Tone` are imported when they are first asked for."""
    if name not in _LAZY:
        raise AttributeError(f"module 'attune' has no attribute '{name}'")
    return getattr(importlib.import_module(_LAZY[name]), name)
