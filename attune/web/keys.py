"""API keys, kept as hashes in a small text file: `name <TAB> sha256 <TAB> when`, one a line.

A key is 32 random bytes, so a plain SHA-256 of it cannot be searched; it is shown once, when it is made. A running
server sees a changed file at the next request.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import re
import secrets
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from filelock import FileLock

from attune.errors import DataError, MissingError, SettingsError, did_you_mean
from attune.files import atomic_write

_NAME = re.compile(r"[\w.@-]{1,64}")


class Key(NamedTuple):
    """What is kept of a key."""

    name: str
    digest: str
    created: str


class KeyFile:
    """The keys of a server.

    >>> import tempfile
    >>> keys = KeyFile(Path(tempfile.mkdtemp()) / "keys.txt")
    >>> secret = keys.add("phone-app")
    >>> keys.owner(secret), keys.owner("guess")
    ('phone-app', None)
    """

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)
        self._seen: tuple[int, int, int] | None = None
        self._keys: list[Key] = []

    def add(self, name: str) -> str:
        """Make a key; what is returned is nowhere kept."""
        if not _NAME.fullmatch(name):
            raise SettingsError(f"a key's name has 1 to 64 letters, digits and . _ @ -, not {name[:80]!r}")
        secret = f"attune-{secrets.token_urlsafe(32)}"
        with self._lock():
            keys = self.all()
            if any(key.name == name for key in keys):
                raise SettingsError(
                    f"there is a key '{name}' in {self.path} already; remove it first, or choose a name"
                )
            now = datetime.now(UTC).isoformat(timespec="seconds")
            self._write([*keys, Key(name, _digest(secret), now)])
        return secret

    def remove(self, name: str) -> None:
        """Forget a key; whoever has it is refused from now on."""
        with self._lock():
            keys = self.all()
            if all(key.name != name for key in keys):
                raise SettingsError(did_you_mean(name, [key.name for key in keys], "key"))
            self._write([key for key in keys if key.name != name])

    def owner(self, secret: str) -> str | None:
        """The name of the key that this is, if it is one; it takes the same time for every guess."""
        digest, found = _digest(secret), None
        for key in self.all():
            if hmac.compare_digest(key.digest, digest):
                found = key.name
        return found

    def all(self) -> list[Key]:
        """All keys. The file is read again when it has changed; a file that has gone holds none."""
        try:
            state = os.stat(self.path)
        except FileNotFoundError:
            self._seen, self._keys = None, []
            return []
        seen = (state.st_mtime_ns, state.st_size, state.st_ino)
        if seen != self._seen:
            self._keys = [self._parsed(number, line) for number, line in self._lines()]
            self._seen = seen
        return self._keys

    def checked(self) -> KeyFile:
        """The same, or an error if it holds no key at all."""
        if not self.all():
            raise MissingError(f"no keys in {self.path}; make one: attune serve keys add NAME --keys {self.path}")
        return self

    def _lines(self) -> list[tuple[int, str]]:
        lines = self.path.read_text(encoding="utf-8", errors="replace").splitlines()
        return [(number, line) for number, line in enumerate(lines, 1) if line.strip() and not line.startswith("#")]

    def _parsed(self, number: int, line: str) -> Key:
        parts = line.split("\t")
        if len(parts) != 3 or not _NAME.fullmatch(parts[0]) or not re.fullmatch(r"[0-9a-f]{64}", parts[1]):
            raise DataError(
                f"{self.path}:{number}: expected 'name <TAB> sha256 <TAB> when', as attune serve keys writes it"
            )
        return Key(*parts)

    def _lock(self) -> FileLock:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        return FileLock(self.path.with_name(f".{self.path.name}.lock"))

    def _write(self, keys: Sequence[Key]) -> None:
        if not self.path.exists():
            os.close(os.open(self.path, os.O_CREAT | os.O_WRONLY, 0o600))  # its mode is kept from here on
        with atomic_write(self.path) as file:
            file.writelines("\t".join(key) + "\n" for key in keys)


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()
