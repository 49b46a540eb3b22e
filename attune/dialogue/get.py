"""Fetch a corpus: a download that goes on where it stopped, a checksum, and an archive unpacked with care."""

from __future__ import annotations

import json
import shutil
import tarfile
import time
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path, PurePosixPath
from typing import IO, TYPE_CHECKING, TypeVar, cast
from urllib.parse import urlsplit

from attune.dialogue.corpora import Corpus
from attune.errors import AttuneError, DataError, MissingError
from attune.files import atomic_dir, atomic_write, sha256

if TYPE_CHECKING:
    import httpx

T = TypeVar("T")
Progress = Callable[[int, int | None], None]  # bytes so far, bytes in all if the server says so
PAUSES = (0.5, 1.0, 2.0, 4.0)  # seconds before each new attempt after a cut connection
_JUNK = {"__MACOSX", ".DS_Store"}


def get(corpus: Corpus, out: str | Path, *, url: str | None = None, progress: Progress | None = None) -> Path:
    """Fetch a corpus into its folder inside `out`; `url` names a mirror. What is there already is left alone."""
    folder = Path(out) / corpus.folder
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise AttuneError(f"{folder} is there already; remove it to fetch {corpus.name} again")
    url = url or corpus.url
    name = PurePosixPath(urlsplit(url).path).name or corpus.folder
    part = Path(out) / f"{name}.part"
    try:
        download(url, part, progress=progress)
    except MissingError as error:
        raise MissingError(f"{error}. By hand: get {name} from {corpus.page}, unpack it into {folder}") from None
    found = sha256(part)
    if corpus.sha256 and found not in corpus.sha256:
        _forget(part)
        raise DataError(f"{url}: expected the sha256 {' or '.join(corpus.sha256)}, found {found}; nothing was kept")
    try:
        with atomic_dir(folder) as new:
            unpack(part, new, name)
    except (tarfile.TarError, zipfile.BadZipFile, zlib.error, EOFError, RuntimeError) as error:
        raise DataError(f"{url}: cannot be unpacked ({error}); nothing was kept") from None
    finally:
        _forget(part)
    return folder


def download(url: str, part: Path, *, progress: Progress | None = None) -> None:
    """Download into `part`. What an earlier attempt left there is kept if the server's file is still the same."""
    import httpx

    problem: Exception | None = None
    with httpx.Client(follow_redirects=True, timeout=30, headers={"Accept-Encoding": "identity"}) as client:
        for pause in (0.0, *PAUSES):
            time.sleep(pause)
            before = _size(part)
            try:
                _continue(client, url, part, progress)
                return
            except (httpx.InvalidURL, httpx.UnsupportedProtocol):
                raise MissingError(f"not an address to fetch from: {url!r}") from None
            except httpx.HTTPStatusError as error:
                answer = f"{error.response.status_code} {error.response.reason_phrase}".strip()
                raise MissingError(f"{url} answers {answer}") from None
            except httpx.HTTPError as error:
                problem = error
                if isinstance(error, httpx.ConnectError) and not before:
                    break  # no network: waiting does not help
            except OSError as error:
                raise AttuneError(f"cannot write {part}: {(error.strerror or str(error)).lower()}") from None
    kept = f"; {_size(part):,} bytes are kept, run it again to go on" if _size(part) else ""
    raise MissingError(f"cannot fetch {url}: {problem or 'the connection was cut'}{kept}") from None


def _continue(client: httpx.Client, url: str, part: Path, progress: Progress | None) -> None:
    """One attempt: ask for what is missing, or for everything if the file there is now another."""
    import httpx

    start, known = _size(part), _known(part)
    headers = {"Range": f"bytes={start}-"} if start and known.get("url") == url else {}
    if headers and known.get("version"):
        headers["If-Range"] = str(known["version"])
    with client.stream("GET", url, headers=headers) as response:
        if headers and response.status_code == 416 and known.get("total") == start:
            return
        total = _total(response)
        goes_on = (
            response.status_code == 206
            and response.headers.get("Content-Range", "").startswith(f"bytes {start}-")
            and total == known.get("total")
        )
        if headers and not goes_on and response.status_code in (206, 416):
            _forget(part)  # another file by now, or a server that cannot go on
            raise httpx.RemoteProtocolError("the file on the server has changed")
        response.raise_for_status()
        if not goes_on:
            start = 0
            with atomic_write(_note(part)) as note:
                json.dump({"url": url, "version": _version(response), "total": total}, note)
        with part.open("ab" if goes_on else "wb") as file:
            for block in response.iter_raw():
                file.write(block)
                start += len(block)
                if progress:
                    progress(start, total)
    if total is not None and start != total:
        raise httpx.RemoteProtocolError(f"{start:,} of {total:,} bytes came")


def _version(response: httpx.Response) -> str | None:
    """What the server calls this version of the file; a weak ETag does not promise the same bytes."""
    tag: str | None = response.headers.get("ETag")
    return tag if tag and not tag.startswith("W/") else response.headers.get("Last-Modified")


def _total(response: httpx.Response) -> int | None:
    spoken = response.headers.get("Content-Range", "").rpartition("/")[2] or response.headers.get("Content-Length", "")
    return int(spoken) if spoken.isdecimal() else None


def _note(part: Path) -> Path:
    return part.with_name(f"{part.name}.json")


def _known(part: Path) -> dict[str, str | int | None]:
    try:
        known = json.loads(_note(part).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return known if isinstance(known, dict) else {}


def _size(part: Path) -> int:
    return part.stat().st_size if part.is_file() else 0


def _forget(part: Path) -> None:
    part.unlink(missing_ok=True)
    _note(part).unlink(missing_ok=True)


def unpack(archive: Path, folder: Path, name: str) -> None:
    """Unpack a zip or tar file, and zips inside it; any other file is put into the folder under its name.

    Only plain files are taken, and only those that stay inside the folder. A single folder around
    everything is left out.
    """
    if zipfile.is_zipfile(archive):
        _unzip(archive, folder)
    elif tarfile.is_tarfile(archive):
        with tarfile.open(archive) as tar:
            _write(
                folder,
                {m.name: m for m in tar.getmembers() if m.isfile()},
                lambda m: cast("IO[bytes]", tar.extractfile(m)),
            )
    else:
        shutil.copyfile(archive, folder / name)
    for inner in [path for path in folder.rglob("*.zip") if zipfile.is_zipfile(path)]:
        _unzip(inner, inner.parent, keep_top=True)
        inner.unlink()


def _unzip(archive: Path, folder: Path, *, keep_top: bool = False) -> None:
    with zipfile.ZipFile(archive) as bundle:
        members = {info.filename: info for info in bundle.infolist() if not info.is_dir()}
        _write(folder, members, bundle.open, keep_top=keep_top)


def _write(folder: Path, members: dict[str, T], opened: Callable[[T], IO[bytes]], *, keep_top: bool = False) -> None:
    paths = {name: PurePosixPath(name.replace("\\", "/")) for name in members}
    for name, path in paths.items():
        if path.is_absolute() or ".." in path.parts or ":" in path.parts[0]:
            raise DataError(f"the archive holds a file that would land outside its folder: {name!r}; nothing was kept")
    wanted = {name: path for name, path in paths.items() if not _JUNK & set(path.parts)}
    tops = {path.parts[0] for path in wanted.values()}
    inside = len(tops) == 1 and not keep_top and all(len(path.parts) > 1 for path in wanted.values())
    for name, path in wanted.items():
        target = folder.joinpath(*path.parts[inside:])
        target.parent.mkdir(parents=True, exist_ok=True)
        with opened(members[name]) as source, target.open("wb") as file:
            shutil.copyfileobj(source, file)
