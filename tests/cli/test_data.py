from __future__ import annotations

import functools
import json
import threading
import zipfile
from collections.abc import Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from attune.cli.main import run
from attune.dialogue.formats.plain import to_json
from attune.dialogue.types import Dialogue


def attune(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    """Exit code, output and errors of a command."""
    with pytest.raises(SystemExit) as done:
        run(["data", *arguments])
    captured = capsys.readouterr()
    return int(done.value.code or 0), captured.out, captured.err


@pytest.fixture
def corpus(tmp_path: Path, dialogues: list[Dialogue]) -> Path:
    (tmp_path / "train.jsonl").write_text("\n".join(map(to_json, dialogues)) + "\nbroken\n")
    return tmp_path


def test_check_prints_one_json_object(capsys: pytest.CaptureFixture[str], corpus: Path) -> None:
    code, out, err = attune(capsys, "check", str(corpus), "--json")
    found = json.loads(out)
    assert (code, err) == (0, "")
    assert found["splits"]["train"]["dialogues"] == 4
    assert found["splits"]["train"]["examples"] == {
        "all-turns": 11,
        "contexts-and-situations": 11,
        "feedback": 3,
        "labelled-turns": 0,
        "listener-turns": 7,
    }
    assert found["splits"]["train"]["bad_rows"] == 1


def test_check_prints_tables_and_the_count_of_bad_rows(capsys: pytest.CaptureFixture[str], corpus: Path) -> None:
    code, out, _ = attune(capsys, "check", str(corpus))
    assert code == 0
    assert "listener turns" in out
    assert "bad rows left out: 1" in out


def test_strict_stops_at_the_bad_row(capsys: pytest.CaptureFixture[str], corpus: Path) -> None:
    code, out, err = attune(capsys, "check", str(corpus), "--strict")
    assert (code, out) == (2, "")
    assert err.startswith("attune: error: ")
    assert "train.jsonl:5: not JSON" in err
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "is empty"),
        (b"\x89PNG\0\0", "binary"),
        (b"a,b,c\n1,2,3\n", "expected the columns conv_id"),
        (b"[" * 2_000_000, "no reader knows"),
        (b'{"turns": [' + b" " * 2_000_000, "a line of more than"),
        (b"conv_id,utterance_idx,context,prompt,speaker_idx,utterance,selfeval,tags\nx\n", "holds no dialogue"),
    ],
)
def test_files_that_are_no_corpus_give_one_line(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, content: bytes, reason: str
) -> None:
    path = tmp_path / ("a.csv" if b"," in content else "a.txt")
    path.write_bytes(content)
    code, out, err = attune(capsys, "check", str(path))
    assert (code, out) == (2, "")
    assert reason in err
    assert err.count("\n") == 1
    assert "Traceback" not in err


def test_ls_lists_corpora_readers_and_protocols(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = attune(capsys, "ls")
    assert code == 0
    assert all(name in out for name in ("empathetic-dialogues", "ed-csv", "listener-turns-v1"))
    listed = json.loads(attune(capsys, "ls", "--json")[1])
    assert set(listed) == {"corpora", "readers", "protocols"}
    assert set(listed["readers"]) == {"chat", "cornell", "dailydialog", "ed-csv", "ed-jsonl", "jsonl", "labelled"}
    assert all(corpus["licence"] for corpus in listed["corpora"])


@pytest.fixture
def mirror(tmp_path: Path) -> Iterator[str]:
    folder = tmp_path / "mirror"
    folder.mkdir()
    with zipfile.ZipFile(folder / "dd.zip", "w") as bundle:
        bundle.writestr("dd/train/dialogues_train.txt", "Hello . __eou__ Hi . __eou__\n")

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(folder)))
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/dd.zip"
    server.shutdown()
    server.server_close()


def test_get_shows_the_licence_fetches_and_the_corpus_can_be_checked(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, mirror: str
) -> None:
    code, out, _ = attune(capsys, "get", "dailydialog", "--out", str(tmp_path / "data"), "--url", mirror, "--yes")
    assert code == 0
    assert "CC BY-NC-SA 4.0" in out
    code, out, _ = attune(capsys, "check", str(tmp_path / "data" / "daily_dialog"), "--json")
    assert (code, json.loads(out)["splits"]["train"]["turns"]) == (0, 2)


def test_get_asks_for_the_licence_and_names_unknown_corpora(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, mirror: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin.isatty", lambda: False, raising=False)
    code, _, err = attune(capsys, "get", "dailydialog", "--out", str(tmp_path / "data"), "--url", mirror)
    assert code == 2
    assert "say --yes" in err
    assert not (tmp_path / "data").exists()
    code, _, err = attune(capsys, "get", "dailydialogue", "--out", str(tmp_path), "--yes")
    assert (code, "did you mean 'dailydialog'" in err) == (2, True)
