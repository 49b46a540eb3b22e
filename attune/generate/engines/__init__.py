"""What says a reply token by token. `llama.cpp` and `torch` are :class:`Engine`; `remote` speaks through a server.

>>> ENGINES["lama.cpp"]
Traceback (most recent call last):
...
attune.errors.SettingsError: unknown engine 'lama.cpp'; did you mean 'llama.cpp'? Available: llama.cpp, remote, torch
"""

from __future__ import annotations

from typing import Any

from attune.generate.engines.base import Engine, Generated
from attune.registry import Registry

ENGINES: Registry[Any] = Registry(
    "engine",
    {
        "llama.cpp": "attune.generate.engines.llama:LlamaEngine",
        "torch": "attune.generate.engines.torch:TorchEngine",
        "remote": "attune.generate.engines.remote:RemoteSystem",
    },
)

__all__ = ["ENGINES", "Engine", "Generated"]
