from __future__ import annotations

import hashlib
import io
import tarfile
import threading
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from attune.dialogue import get as getting
from attune.dialogue.corpora import CORPORA, Corpus
from attune.dialogue.get import download, get, unpack
from attune.errors import AttuneError, DataError, MissingError


@dataclass
class Server:
    """A file server that knows ranges, and cuts the connection after `cut_after` bytes while `cuts` last."""

    content: bytes = b""
    etag: str | None = '"one"'
    ranges: bool = True
    cuts: int = 0
    cut_after: int = 0
    status: int = 200
    asked: list[str | None] = field(default_factory=list)  # the Range of every request
    sent: int = 0
    url: str = ""


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    state = Server()
    monkeypatch.setattr(getting, "PAUSES", (0.0, 0.0, 0.0, 0.0))

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            wanted = self.headers.get("Range")
            state.asked.append(wanted)
            if state.status != 200:
                self.send_error(state.status)
                return
            start = 0
            if wanted and state.ranges and self.headers.get("If-Range", state.etag) == state.etag:
                start = int(wanted.removeprefix("bytes=").removesuffix("-"))
            if start >= len(state.content) > 0:
                self.send_response(416)
                self.send_header("Content-Range", f"bytes */{len(state.content)}")
                self.end_headers()
                return
            body = state.content[start:]
            self.send_response(206 if start else 200)
            if start:
                self.send_header("Content-Range", f"bytes {start}-{len(state.content) - 1}/{len(state.content)}")
            if state.etag:
                self.send_header("ETag", state.etag)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if state.cuts > 0:
                state.cuts -= 1
                body = body[: state.cut_after]
            self.wfile.write(body)
            state.sent += len(body)

        def log_message(self, *_: object) -> None:
            pass

    http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
    state.url = f"http://127.0.0.1:{http.server_port}"
    yield state
    http.shutdown()
    http.server_close()


def zipped(**files: bytes | str) -> bytes:
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as bundle:
        for name, content in files.items():
            bundle.writestr(name, content)
    return data.getvalue()


def tarred(*members: tuple[tarfile.TarInfo, bytes]) -> bytes:
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w:gz") as tar:
        for info, content in members:
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return data.getvalue()


def corpus_at(server: Server, name: str, sha256: tuple[str, ...] = ()) -> Corpus:
    return Corpus("toy", "a toy", f"{server.url}/{name}", "free", "http://toy.example", "toy_folder", 0.1, sha256)


def everything(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


BLOB = bytes(range(256)) * 400


def test_a_corpus_is_fetched_checked_unpacked_and_nothing_else_is_left(server: Server, tmp_path: Path) -> None:
    server.content = tarred((tarfile.TarInfo("top/train.csv"), b"train"), (tarfile.TarInfo("top/sub/x.txt"), b"x"))
    seen: list[tuple[int, int | None]] = []
    corpus = corpus_at(server, "toy.tar.gz", ("0" * 64, hashlib.sha256(server.content).hexdigest()))
    folder = get(corpus, tmp_path / "new" / "data", progress=lambda done, total: seen.append((done, total)))
    assert folder == tmp_path / "new" / "data" / "toy_folder"
    assert everything(tmp_path / "new") == {"data/toy_folder/train.csv": b"train", "data/toy_folder/sub/x.txt": b"x"}
    assert seen[-1] == (len(server.content), len(server.content))


def test_zips_inside_a_zip_are_unpacked_and_junk_is_left_out(server: Server, tmp_path: Path) -> None:
    inner = zipped(**{"train/dialogues_train.txt": "Hi . __eou__"})
    server.content = zipped(
        **{"dd/train.zip": inner, "dd/readme.txt": "r", "__MACOSX/dd/._x": "junk", "dd/.DS_Store": "j"}
    )
    folder = get(corpus_at(server, "dd.zip"), tmp_path)
    assert everything(folder) == {"readme.txt": b"r", "train/dialogues_train.txt": b"Hi . __eou__"}


def test_a_file_that_is_no_archive_is_kept_as_it_is(server: Server, tmp_path: Path) -> None:
    server.content = b"plain text"
    folder = get(corpus_at(server, "other.csv.gz"), tmp_path, url=f"{server.url}/edges.csv.gz?x=1")
    assert everything(folder) == {"edges.csv.gz": b"plain text"}


def test_a_cut_connection_goes_on_where_it_stopped(server: Server, tmp_path: Path) -> None:
    server.content, server.cuts, server.cut_after = BLOB, 2, 30_000
    part = tmp_path / "blob.part"
    download(f"{server.url}/blob", part)
    assert part.read_bytes() == BLOB
    assert server.asked == [None, "bytes=30000-", "bytes=60000-"]
    assert server.sent == len(BLOB)


def test_a_download_given_up_is_kept_and_the_next_run_goes_on(server: Server, tmp_path: Path) -> None:
    server.content, server.cuts, server.cut_after = BLOB, 5, 10_000
    corpus = corpus_at(server, "blob.bin", (hashlib.sha256(BLOB).hexdigest(),))
    with pytest.raises(
        MissingError, match=r"50,000 bytes are kept, run it again to go on.*By hand: get blob.bin from http://toy"
    ):
        get(corpus, tmp_path)
    assert not (tmp_path / "toy_folder").exists()
    assert everything(get(corpus, tmp_path)) == {"blob.bin": BLOB}
    assert server.asked[-1] == "bytes=50000-"
    assert server.sent == len(BLOB)


@pytest.mark.parametrize("etag", ['"one"', None, 'W/"weak"'])
def test_a_file_that_changed_meanwhile_is_fetched_anew(server: Server, tmp_path: Path, etag: str | None) -> None:
    server.content, server.cuts, server.cut_after, server.etag = BLOB, 5, 10_000, etag
    part = tmp_path / "blob.part"
    with pytest.raises(MissingError):
        download(f"{server.url}/blob", part)
    server.content = b"something else" * 5_000
    server.etag = '"two"' if etag == '"one"' else etag
    download(f"{server.url}/blob", part)
    assert part.read_bytes() == server.content


def test_a_server_without_ranges_sends_all_of_it_again(server: Server, tmp_path: Path) -> None:
    server.content, server.cuts, server.cut_after, server.ranges = BLOB, 1, 10_000, False
    download(f"{server.url}/blob", tmp_path / "blob.part")
    assert (tmp_path / "blob.part").read_bytes() == BLOB


def test_a_finished_download_is_not_fetched_again(server: Server, tmp_path: Path) -> None:
    server.content = BLOB
    for _ in range(2):
        download(f"{server.url}/blob", tmp_path / "blob.part")
    assert server.sent == len(BLOB)
    assert (tmp_path / "blob.part").read_bytes() == BLOB


def test_another_address_does_not_continue_the_part_of_the_first(server: Server, tmp_path: Path) -> None:
    server.content = BLOB
    (tmp_path / "blob.part").write_bytes(b"who knows what")
    download(f"{server.url}/blob", tmp_path / "blob.part")
    assert (tmp_path / "blob.part").read_bytes() == BLOB
    assert server.asked == [None]


def test_a_wrong_checksum_leaves_nothing_behind(server: Server, tmp_path: Path) -> None:
    server.content = zipped(a="a")
    with pytest.raises(DataError, match=f"expected the sha256 {'0' * 64}, found"):
        get(corpus_at(server, "toy.zip", ("0" * 64,)), tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["../evil.txt", "/evil.txt", "a/../../evil.txt", "..\\evil.txt", "c:/evil.txt"])
def test_files_that_would_land_outside_are_refused(server: Server, tmp_path: Path, name: str) -> None:
    for content in (zipped(**{"top/good.txt": "g", name: "evil"}), tarred((tarfile.TarInfo(name), b"evil"))):
        server.content, server.etag = content, None
        with pytest.raises(DataError, match="outside its folder"):
            get(corpus_at(server, "toy.zip"), tmp_path / "out")
        assert everything(tmp_path) == {}


def test_links_and_devices_in_an_archive_are_not_unpacked(tmp_path: Path) -> None:
    link = tarfile.TarInfo("top/link")
    link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
    (tmp_path / "a.tar.gz").write_bytes(tarred((tarfile.TarInfo("top/x"), b"x"), (link, b"")))
    (tmp_path / "out").mkdir()
    unpack(tmp_path / "a.tar.gz", tmp_path / "out", "a.tar.gz")
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["x"]


def test_a_broken_archive_leaves_nothing_behind(server: Server, tmp_path: Path) -> None:
    whole = tarred((tarfile.TarInfo("x"), bytes(range(256)) * 4000))
    server.content = whole[: len(whole) // 2]
    with pytest.raises(DataError, match="cannot be unpacked"):
        get(corpus_at(server, "toy.tar.gz"), tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_what_is_there_already_is_left_alone(server: Server, tmp_path: Path) -> None:
    (tmp_path / "toy_folder").mkdir()
    (tmp_path / "toy_folder" / "mine.txt").write_text("mine")
    with pytest.raises(AttuneError, match="is there already; remove it"):
        get(corpus_at(server, "toy.zip"), tmp_path)
    assert server.asked == []


def test_no_network_and_bad_answers_say_what_to_do_by_hand(server: Server, tmp_path: Path) -> None:
    by_hand = r"By hand: get toy\.zip from http://toy\.example, unpack it into .*toy_folder"
    corpus = corpus_at(server, "toy.zip")
    server.status = 404
    with pytest.raises(MissingError, match=f"answers 404 Not Found. {by_hand}"):
        get(corpus, tmp_path / "out")
    for url in ("http://127.0.0.1:9/toy.zip", "nonsense://x/toy.zip", "http://"):
        with pytest.raises(MissingError, match="By hand"):
            get(corpus, tmp_path / "out", url=url)
    assert not (tmp_path / "out").exists()


def test_an_output_that_cannot_be_written_is_named(server: Server, tmp_path: Path) -> None:
    server.content = b"x"
    (tmp_path / "file").write_text("not a folder")
    with pytest.raises(AttuneError, match="cannot write"):
        get(corpus_at(server, "toy.zip"), tmp_path / "file" / "out")


def test_every_corpus_says_its_licence_and_where_it_comes_from() -> None:
    assert {"empathetic-dialogues", "dailydialog", "cornell-movie", "conceptnet5"} <= set(CORPORA)
    for name, corpus in CORPORA.items():
        assert corpus.name == name
        assert corpus.licence
        assert corpus.url.startswith("http")
        assert corpus.page.startswith("http")
        assert all(len(known) == 64 and int(known, 16) for known in corpus.sha256)
    assert len({corpus.folder for corpus in CORPORA.values()}) == len(CORPORA)
