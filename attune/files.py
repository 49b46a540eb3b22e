"""Where things are kept, and how a file is written so that nothing half-written is ever left behind."""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import platformdirs

from attune.errors import AttuneError


def cache_dir() -> Path:
    """The user's cache folder of Attune: `ATTUNE_CACHE`, or the platform's usual place. It need not exist yet."""
    chosen = os.environ.get("ATTUNE_CACHE")
    return Path(chosen).expanduser() if chosen else Path(platformdirs.user_cache_dir("attune"))


def data_dir() -> Path | None:
    """The folder of corpora, `ATTUNE_DATA`, if it is set and exists."""
    chosen = os.environ.get("ATTUNE_DATA")
    path = Path(chosen).expanduser() if chosen else None
    return path if path is not None and path.is_dir() else None


def default_system() -> Path:
    """The folder of the system that is opened when none is named: `ATTUNE_SYSTEM`, or the one in this package."""
    chosen = os.environ.get("ATTUNE_SYSTEM")
    return Path(chosen).expanduser() if chosen else Path(__file__).parent / "data" / "default-system"


def sha256(path: Path) -> str:
    """The checksum of a file, in hexadecimal."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@contextmanager
def atomic_write(path: Path | str, mode: str = "w") -> Iterator[IO[Any]]:
    """Open a file that appears under its name only when the block ends well; text is UTF-8 with plain newlines.

    A device such as ``/dev/stdout`` is written to directly; a link is followed.

    >>> folder = Path(tempfile.mkdtemp())
    >>> with atomic_write(folder / "note.txt") as file:
    ...     _ = file.write("whole")
    >>> (folder / "note.txt").read_text()
    'whole'
    """
    if mode not in ("w", "wb"):
        raise ValueError(f"atomic_write opens for writing ('w' or 'wb'), not {mode!r}")
    text = {} if mode == "wb" else {"encoding": "utf-8", "newline": "\n"}
    target = Path(os.path.realpath(path))
    if target.exists() and not target.is_file() and not target.is_dir():
        with open(target, mode, **text) as file:  # type: ignore[call-overload]
            yield file
        return
    with _says_unwritable(path):
        if target.is_dir():
            raise IsADirectoryError(errno.EISDIR, "it is a folder")
        target.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(prefix=f".{target.name}.", suffix=".part", dir=target.parent)
    part = Path(name)
    try:
        with _says_full(path, part), os.fdopen(handle, mode, **text) as file:  # type: ignore[call-overload]
            yield file
            file.flush()
            os.fsync(file.fileno())
        with _says_unwritable(path):
            part.chmod(target.stat().st_mode & 0o777 if target.exists() else 0o666 & ~_umask())
            os.replace(part, target)
    finally:
        part.unlink(missing_ok=True)


@contextmanager
def atomic_dir(path: Path | str) -> Iterator[Path]:
    """A new folder to fill; it takes the place of `path` (and of what was there) only when the block ends well.

    >>> folder = Path(tempfile.mkdtemp()) / "run"
    >>> with atomic_dir(folder) as new:
    ...     _ = (new / "config.yaml").write_text("seed: 0")
    >>> [file.name for file in folder.iterdir()]
    ['config.yaml']
    """
    target = Path(os.path.realpath(path))
    with _says_unwritable(path):
        if target.exists() and not target.is_dir():
            raise NotADirectoryError(errno.ENOTDIR, "it is a file, not a folder")
        target.parent.mkdir(parents=True, exist_ok=True)
        part = Path(tempfile.mkdtemp(prefix=f".{target.name}.", suffix=".part", dir=target.parent))
    try:
        with _says_full(path, part):
            yield part
        with _says_unwritable(path):
            part.chmod(0o777 & ~_umask())
            _replace_dir(part, target)
    finally:
        shutil.rmtree(part, ignore_errors=True)


def _replace_dir(new: Path, target: Path) -> None:
    """Put `new` in the place of `target`; what was there comes back if that fails."""
    if not target.exists():
        os.replace(new, target)
        return
    old = Path(tempfile.mkdtemp(prefix=f".{target.name}.", suffix=".old", dir=target.parent))
    os.replace(target, old)
    try:
        os.replace(new, target)
    except OSError:
        os.replace(old, target)
        raise
    shutil.rmtree(old, ignore_errors=True)


@contextmanager
def _says_unwritable(path: Path | str) -> Iterator[None]:
    """Every OSError in the block becomes one line: `path` cannot be written, and why."""
    try:
        yield
    except OSError as error:
        raise AttuneError(f"cannot write {path}: {(error.strerror or str(error)).lower()}") from error


_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EIO}


@contextmanager
def _says_full(path: Path | str, part: Path) -> Iterator[None]:
    """Round the caller's own block: only what concerns the new file is about `path`; the rest passes through."""
    try:
        yield
    except OSError as error:
        ours = error.filename is not None and str(error.filename).startswith(str(part))
        if error.errno in _FULL or ours:
            raise AttuneError(f"cannot write {path}: {(error.strerror or str(error)).lower()}") from error
        raise


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
