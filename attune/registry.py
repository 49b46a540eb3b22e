"""One generic registry for everything that can be extended (DESIGN 4).

An entry is either an object or a lazy placeholder — ``"package.module:attribute"``, or ``"package.module"`` when
importing the module registers the name — so that listing the systems imports none of them. Names that
nobody registered get a did-you-mean error.

>>> shapes = Registry[type]("shape")
>>> @shapes.register("circle")
... class Circle: ...
>>> shapes["circle"] is Circle
True
>>> shapes["circel"]
Traceback (most recent call last):
...
attune.errors.SettingsError: unknown shape 'circel'; did you mean 'circle'? Available: circle
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Mapping
from typing import Generic, TypeVar

from attune.errors import SettingsError, did_you_mean

T = TypeVar("T")


class Registry(Mapping[str, T], Generic[T]):
    """Names to objects; a string ``"module:attribute"`` is imported when first asked for."""

    def __init__(self, noun: str, lazy: Mapping[str, str] | None = None) -> None:
        self.noun = noun
        self._entries: dict[str, T | str] = dict(lazy or {})

    def register(self, name: str) -> Callable[[T], T]:
        """Decorator: put an object under a name. The same name twice is an error unless it fills a placeholder."""

        def put(entry: T) -> T:
            present = self._entries.get(name)
            if present is not None and not isinstance(present, str) and present is not entry:
                raise SettingsError(f"{self.noun} '{name}' is registered twice")
            self._entries[name] = entry
            return entry

        return put

    def __getitem__(self, name: str) -> T:
        try:
            entry = self._entries[name]
        except KeyError:
            raise SettingsError(did_you_mean(name, self._entries, self.noun)) from None
        if isinstance(entry, str):
            module, _, attribute = entry.partition(":")
            imported = importlib.import_module(module)
            entry = getattr(imported, attribute) if attribute else self._entries[name]
            if isinstance(entry, str):
                raise SettingsError(f"{module} does not register the {self.noun} '{name}'")
            self._entries[name] = entry
        return entry

    def __contains__(self, name: object) -> bool:
        return name in self._entries

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(self._entries))

    def __len__(self) -> int:
        return len(self._entries)
