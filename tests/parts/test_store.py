"""Only verified files get into the cache, whatever goes wrong on the way."""

from __future__ import annotations

import hashlib
import io
import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from attune.errors import AttuneError, MissingError
from attune.parts import PARTS, download, locate, state, store

WORDS = {"toy_lexicon/data/words.csv": b"word,valence\njoy,0.9\n", "toy_lexicon/code.py": b"raise SystemExit('run!')"}


def kept(tmp_path: Path) -> list[str]:
    root = tmp_path / "cache" / "parts"
    return sorted(path.name for path in root.iterdir() if not path.name.endswith(".lock")) if root.exists() else []


def test_a_missing_part_is_fetched_and_only_its_named_file_is_kept(tmp_path, make_wheel, make_part) -> None:
    make_wheel("toy-lexicon", WORDS)
    part = make_part("words", {k: v for k, v in WORDS.items() if k.endswith(".csv")})
    assert state(part) == "missing"
    path = locate("words")
    assert path.read_bytes() == WORDS["toy_lexicon/data/words.csv"]
    assert state(part, thorough=True) == "ready"
    assert kept(tmp_path) == ["words-1.0"]
    assert sorted(file.name for file in path.parent.iterdir()) == [".checked.json", "words.csv"]


def test_a_part_of_several_files_is_a_folder(make_wheel, make_part) -> None:
    files = {"toy_lexicon/m/config.json": b"{}", "toy_lexicon/m/1_Pooling/config.json": b"{ }"}
    make_wheel("toy-lexicon", files)
    make_part("model", files)
    folder = locate("model")
    assert (folder / "config.json").read_bytes() == b"{}"
    assert (folder / "1_Pooling" / "config.json").read_bytes() == b"{ }"


def test_a_part_that_is_there_needs_no_index(make_wheel, make_part) -> None:
    wheel = make_wheel("toy-lexicon", WORDS)
    make_part("words", {"toy_lexicon/data/words.csv": WORDS["toy_lexicon/data/words.csv"]})
    first = locate("words")
    wheel.unlink()
    assert locate("words", fetch=False) == first


def test_two_parts_of_one_package_are_downloaded_once(make_wheel, make_part) -> None:
    files = {"toy_lexicon/a.csv": b"a", "toy_lexicon/b.csv": b"b"}
    wheel = make_wheel("toy-lexicon", files)
    make_part("a", {"toy_lexicon/a.csv": b"a"})
    make_part("b", {"toy_lexicon/b.csv": b"b"})
    locate("a")
    wheel.unlink()
    assert locate("b").read_bytes() == b"b"


def archive_in_volumes(make_wheel, files: dict[str, bytes], volumes: int) -> None:
    with io.BytesIO() as buffer:
        with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
            for inside, content in files.items():
                archive.writestr(inside, content)
        whole = buffer.getvalue()
    size = -(-len(whole) // volumes)
    for i in range(volumes):
        number = f"{i + 1:03}"
        make_wheel(f"toy-{number}", {f"toy_{number}/a.zip.{number}": whole[i * size : (i + 1) * size]})


IN_VOLUMES = {"package": "toy-{volume}", "volumes": 3, "archive": "toy_{volume}/a.zip.{volume}"}


def test_a_part_in_volumes_is_joined(tmp_path, make_wheel, make_part) -> None:
    files = {"m/config.json": b"{}", "m/weights.bin": os.urandom(3000)}
    archive_in_volumes(make_wheel, files, 3)
    part = make_part("model", files, **IN_VOLUMES)
    told: list[tuple[str, int]] = []
    folder = locate("model", progress=lambda name, done: told.append((name, done)))
    assert {name: (folder / name.removeprefix("m/")).read_bytes() for name in files} == files
    assert kept(tmp_path) == ["model-1.0"]
    assert part.requirement == "toy-001…003==1.0"
    assert {name for name, _ in told} <= {"toy-001==1.0", "toy-002==1.0", "toy-003==1.0"}


def test_a_volume_that_is_not_there_is_named(tmp_path, make_wheel, make_part) -> None:
    files = {"m/weights.bin": os.urandom(3000)}
    archive_in_volumes(make_wheel, files, 2)
    make_part("model", files, **IN_VOLUMES)
    with pytest.raises(MissingError, match=r"toy-003==1\.0"):
        locate("model")
    assert kept(tmp_path) == []


def test_volumes_that_make_no_archive_are_told(tmp_path, make_wheel, make_part) -> None:
    for number in ("001", "002", "003"):
        make_wheel(f"toy-{number}", {f"toy_{number}/a.zip.{number}": b"none"})
    make_part("model", {"m/weights.bin": b"x"}, **IN_VOLUMES)
    with pytest.raises(AttuneError, match="part 'model'"):
        locate("model")
    assert kept(tmp_path) == []


def test_another_checksum_names_both_sums_and_keeps_nothing(tmp_path, make_wheel, make_part) -> None:
    make_wheel("toy-lexicon", {"toy_lexicon/a.csv": b"changed"})
    part = make_part("a", {"toy_lexicon/a.csv": b"original"})
    with pytest.raises(AttuneError) as caught:
        locate("a")
    message = str(caught.value)
    assert part.files["toy_lexicon/a.csv"] in message
    assert hashlib.sha256(b"changed").hexdigest() in message
    assert "\n" not in message
    assert kept(tmp_path) == []


def test_a_damaged_file_is_fetched_again(make_wheel, make_part) -> None:
    make_wheel("toy-lexicon", {"toy_lexicon/a.csv": b"good"})
    part = make_part("a", {"toy_lexicon/a.csv": b"good"})
    locate("a").write_bytes(b"bad!")
    assert state(part) == "damaged"
    with pytest.raises(MissingError, match=r"damaged .* attune setup a"):
        locate("a", fetch=False)
    assert locate("a").read_bytes() == b"good"


def test_a_file_changed_without_a_trace_is_found_by_the_thorough_check(make_wheel, make_part) -> None:
    make_wheel("toy-lexicon", {"toy_lexicon/a.csv": b"good"})
    part = make_part("a", {"toy_lexicon/a.csv": b"good"})
    path = locate("a")
    assert state(part) == "ready"
    stat = path.stat()
    path.write_bytes(b"evil")
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    assert state(part, thorough=True) == "damaged"


def test_offline_says_which_command_fetches(make_part, index, monkeypatch) -> None:
    make_part("a", {"toy_lexicon/a.csv": b"a"})
    monkeypatch.setenv("ATTUNE_OFFLINE", "1")
    with pytest.raises(MissingError, match=r"ATTUNE_OFFLINE .* attune setup a"):
        locate("a")


def test_a_package_the_index_lacks_is_told_in_one_line(tmp_path, make_part, index) -> None:
    make_part("a", {"toy_lexicon/a.csv": b"a"})
    with pytest.raises(MissingError, match=r"cannot fetch toy-lexicon==1\.0: .* does not have it") as caught:
        locate("a")
    assert "\n" not in str(caught.value)
    assert kept(tmp_path) == []


def test_an_index_that_cannot_be_reached_is_told_as_that(make_part, index, monkeypatch) -> None:
    monkeypatch.delenv("PIP_NO_INDEX")
    monkeypatch.delenv("PIP_FIND_LINKS")
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
    make_part("a", {"toy_lexicon/a.csv": b"a"})
    with pytest.raises(MissingError, match="cannot be reached"):
        locate("a")


def test_a_wheel_without_the_file_is_told(tmp_path, make_wheel, make_part) -> None:
    make_wheel("toy-lexicon", {"toy_lexicon/other.csv": b"a"})
    make_part("a", {"toy_lexicon/a.csv": b"a"})
    with pytest.raises(AttuneError, match=r"toy-lexicon==1\.0 has no such file.*toy_lexicon/a\.csv"):
        locate("a")
    assert kept(tmp_path) == []


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ("/usr/bin/python3: No module named pip", "has no pip"),
        ("ERROR: Could not install packages: [Errno 28] No space left on device", "disk is full"),
        ("noise\nERROR: something odd\nmore noise", "pip failed: something odd"),
        ("", "pip said nothing"),
    ],
)
def test_what_pip_says_becomes_one_line(said: str, expected: str) -> None:
    message = str(download._explained("toy==1", said))
    assert expected in message
    assert "\n" not in message


def test_a_cache_that_cannot_be_written_is_told(tmp_path, make_part, index, monkeypatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("ATTUNE_CACHE", str(tmp_path / "file"))
    make_part("a", {"toy_lexicon/a.csv": b"a"})
    with pytest.raises(AttuneError, match="cannot keep part 'a'"):
        locate("a")


def test_what_a_killed_process_left_is_cleared(tmp_path, make_wheel, make_part) -> None:
    left = tmp_path / "cache" / "parts" / ".toy-lexicon.download" / "wheels"
    left.mkdir(parents=True)
    (left / "half.whl").write_bytes(b"half")
    make_wheel("toy-lexicon", {"toy_lexicon/a.csv": b"a"})
    make_part("a", {"toy_lexicon/a.csv": b"a"})
    locate("a")
    assert kept(tmp_path) == ["a-1.0"]


def test_progress_is_told_while_it_downloads(make_wheel, make_part) -> None:
    make_wheel("toy-lexicon", {"toy_lexicon/a.csv": b"a"})
    make_part("a", {"toy_lexicon/a.csv": b"a"})
    heard: list[tuple[str, int]] = []
    locate("a", progress=lambda package, done: heard.append((package, done)))
    assert {package for package, _ in heard} == {"toy-lexicon==1.0"}


def test_two_processes_at_once_download_once(tmp_path, make_wheel, make_part) -> None:
    make_wheel("toy-lexicon", {"toy_lexicon/a.csv": b"a"})
    part = make_part("a", {"toy_lexicon/a.csv": b"a"})
    code = (
        "import sys; from attune.parts import PARTS, Part, locate, store\n"
        f"PARTS.register('a')(Part('a', 'toy-lexicon', '1.0', {dict(part.files)!r}, 'MIT', True, '', 0.1))\n"
        "was = store.download\n"
        "store.download = lambda *a: (print('downloaded'), was(*a))[1]\n"
        "print(locate('a').read_text())"
    )
    processes = [
        subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    said = [process.communicate(timeout=60) for process in processes]
    assert [process.returncode for process in processes] == [0, 0], said
    assert sum("downloaded" in out for out, _ in said) == 1
    assert all(out.splitlines()[-1] == "a" for out, _ in said)
    assert kept(tmp_path) == ["a-1.0"]


@pytest.mark.slow
def test_a_real_part_comes_from_the_index(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("ATTUNE_CACHE", str(tmp_path / "cache"))
    words = json.loads(locate("nrc-emotion").read_text(encoding="utf-8"))
    assert len(words) == 6468
    assert "fear" in words["abandon"]
    assert store.state(PARTS["nrc-emotion"], thorough=True) == "ready"
