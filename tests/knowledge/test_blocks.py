from __future__ import annotations

import gzip
import lzma
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from attune.errors import DataError, MissingError
from attune.knowledge.blocks import text_blocks


@pytest.mark.parametrize("pack", [bytes, gzip.compress, lzma.compress], ids=["plain", "gzip", "xz"])
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=30)
@given(
    lines=st.lists(st.binary(max_size=40).map(lambda line: line.replace(b"\n", b"")), min_size=1, max_size=40),
    size=st.integers(50, 200),
)
def test_blocks_are_the_whole_file_cut_at_lines(
    tmp_path: Path, pack: Callable[[bytes], bytes], lines: list[bytes], size: int
) -> None:
    content = b"".join(line + b"\n" for line in lines)
    assume(not content.startswith((b"\x1f\x8b", b"\xfd7zXZ")))  # a plain file that says it is packed
    (tmp_path / "file").write_bytes(pack(content))
    blocks = list(text_blocks(tmp_path / "file", size))
    assert b"".join(block.data for block in blocks) == content
    at = 1
    for block in blocks:
        assert (block.line, block.lines) == (at, block.data.count(b"\n"))
        at += block.lines
    assert blocks[-1].consumed == (tmp_path / "file").stat().st_size


def test_a_last_line_without_a_newline_gets_one(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"one\ntwo")
    assert [(block.data, block.line) for block in text_blocks(tmp_path / "file")] == [(b"one\n", 1), (b"two\n", 2)]


def test_gzip_files_in_a_row_are_one_file(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(gzip.compress(b"one\n") + gzip.compress(b"two\n"))
    assert b"".join(block.data for block in text_blocks(tmp_path / "file")) == b"one\ntwo\n"


@pytest.mark.parametrize("pack", [gzip.compress, lzma.compress])
def test_a_file_that_is_cut_short_says_after_which_line(tmp_path: Path, pack: Callable[[bytes], bytes]) -> None:
    content = b"".join(b"%d %d\n" % (i, i * i * 7919 % 10007) for i in range(50_000))
    (tmp_path / "file").write_bytes(pack(content)[:-5_000])
    with pytest.raises(DataError, match=r"cut short after line \d+") as error:
        list(text_blocks(tmp_path / "file", 10_000))
    line = int(str(error.value).split("after line ")[1].split()[0])
    assert 20_000 < line < 50_000


def test_a_flipped_byte_in_a_gzip_file_is_noticed(tmp_path: Path) -> None:
    packed = bytearray(gzip.compress(b"".join(b"%d\n" % i for i in range(9_999))))
    packed[len(packed) // 2] ^= 0xFF
    (tmp_path / "file").write_bytes(packed)
    with pytest.raises(DataError, match="damaged"):
        list(text_blocks(tmp_path / "file"))


def test_a_file_without_lines_is_not_read_into_memory(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"x" * 10_000)
    with pytest.raises(DataError, match="not a text file"):
        list(text_blocks(tmp_path / "file", 100))


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(MissingError, match="nowhere"):
        list(text_blocks(tmp_path / "nowhere"))
