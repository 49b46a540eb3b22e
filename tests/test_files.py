"""Nothing half-written is ever left behind, and the caller's own errors are not mistaken for ours."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from attune.errors import AttuneError
from attune.files import atomic_dir, atomic_write, cache_dir, data_dir, sha256


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(content=st.binary())
def test_what_is_written_is_what_is_read(tmp_path: Path, content: bytes) -> None:
    with atomic_write(tmp_path / "a.bin", "wb") as file:
        file.write(content)
    assert (tmp_path / "a.bin").read_bytes() == content
    assert names(tmp_path) == ["a.bin"]


def test_the_file_is_not_there_before_the_block_ends(tmp_path: Path) -> None:
    with atomic_write(tmp_path / "deep" / "a.txt") as file:
        file.write("x")
        file.flush()
        assert not (tmp_path / "deep" / "a.txt").exists()
    assert (tmp_path / "deep" / "a.txt").read_text() == "x"


def test_an_error_in_the_block_keeps_the_old_file_and_leaves_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("old")
    with pytest.raises(ZeroDivisionError), atomic_write(tmp_path / "a.txt") as file:
        file.write("new")
        _ = 1 / 0
    assert names(tmp_path) == ["a.txt"]
    assert (tmp_path / "a.txt").read_text() == "old"


def test_a_folder_in_the_way_is_a_one_line_error(tmp_path: Path) -> None:
    with pytest.raises(AttuneError, match=r"cannot write .*: it is a folder") as caught, atomic_write(tmp_path):
        pass
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("write", [atomic_write, atomic_dir])
def test_a_parent_that_is_a_file_is_a_one_line_error(tmp_path: Path, write: type) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(AttuneError, match="cannot write"), write(tmp_path / "file" / "below"):
        pass


def test_a_full_disk_is_told_and_nothing_is_left(tmp_path: Path) -> None:
    with pytest.raises(AttuneError, match="no space left"), atomic_write(tmp_path / "a") as file:
        file.write("x")
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    assert names(tmp_path) == []


def test_the_callers_own_errors_pass_through_unchanged(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError), atomic_write(tmp_path / "a"):
        open(tmp_path / "input")
    with pytest.raises(ConnectionResetError), atomic_dir(tmp_path / "b"):
        raise ConnectionResetError(errno.ECONNRESET, "reset")
    assert names(tmp_path) == []


def test_new_files_have_ordinary_rights_and_old_ones_keep_theirs(tmp_path: Path) -> None:
    plain = tmp_path / "plain"
    plain.write_text("")
    with atomic_write(tmp_path / "new") as file:
        file.write("x")
    assert (tmp_path / "new").stat().st_mode == plain.stat().st_mode
    plain.chmod(0o600)
    with atomic_write(plain) as file:
        file.write("y")
    assert stat.S_IMODE(plain.stat().st_mode) == 0o600


def test_a_link_is_followed_and_a_device_is_written_to_directly(tmp_path: Path) -> None:
    (tmp_path / "real").write_text("old")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    with atomic_write(tmp_path / "link") as file:
        file.write("new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_text() == "new"
    os.mkfifo(tmp_path / "pipe")
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    with atomic_write(tmp_path / "pipe") as file:
        file.write("through")
    assert os.read(reader, 100) == b"through"
    os.close(reader)
    assert stat.S_ISFIFO((tmp_path / "pipe").stat().st_mode)


def test_only_writing_modes_are_taken(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="'a'"), atomic_write(tmp_path / "a", "a"):
        pass


def test_a_folder_replaces_the_old_one_only_when_it_is_whole(tmp_path: Path) -> None:
    run = tmp_path / "run"
    with atomic_dir(run) as new:
        (new / "one").write_text("1")
    with pytest.raises(ZeroDivisionError), atomic_dir(run) as new:
        (new / "two").write_text("2")
        _ = 1 / 0
    assert names(run) == ["one"]
    with atomic_dir(run) as new:
        (new / "two").write_text("2")
        assert names(run) == ["one"]
    assert names(run) == ["two"]
    assert names(tmp_path) == ["run"]


def test_the_old_folder_comes_back_when_the_swap_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = tmp_path / "run"
    with atomic_dir(run) as new:
        (new / "one").write_text("1")
    replace = os.replace

    def failing(source: str, target: str) -> None:
        if str(source).endswith(".part"):
            raise OSError(errno.EIO, "input/output error")
        replace(source, target)

    monkeypatch.setattr(os, "replace", failing)
    with pytest.raises(AttuneError, match="input/output"), atomic_dir(run) as new:
        (new / "two").write_text("2")
    assert names(run) == ["one"]
    assert names(tmp_path) == ["run"]


def test_the_checksum_is_sha256(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"abc")
    assert sha256(tmp_path / "a") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"


def test_the_folders_come_from_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ATTUNE_CACHE", str(tmp_path / "cache"))
    assert cache_dir() == tmp_path / "cache"
    monkeypatch.delenv("ATTUNE_CACHE")
    assert cache_dir().name == "attune"
    monkeypatch.setenv("ATTUNE_DATA", str(tmp_path / "absent"))
    assert data_dir() is None
    monkeypatch.setenv("ATTUNE_DATA", str(tmp_path))
    assert data_dir() == tmp_path
    monkeypatch.delenv("ATTUNE_DATA")
    assert data_dir() is None
