from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from attune.errors import DataError, MissingError
from attune.knowledge import vectors as module
from attune.knowledge.vectors import WordVectors, load_vectors

GLOVE = "fear 1 0 0\npanic 0.8 0.6 0\nblood 0 1 0\ncell 0 0 2\nnothing 0 0 0\n"


@pytest.fixture
def glove(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ATTUNE_CACHE", str(tmp_path / "cache"))
    path = tmp_path / "glove.3d.txt"
    path.write_text(GLOVE)
    return path


@pytest.fixture(scope="module")
def static() -> WordVectors:
    return load_vectors()


def test_a_glove_file_gives_its_vectors(glove: Path) -> None:
    table = load_vectors(glove)
    assert table["fear"].tolist() == [1, 0, 0]
    assert table.cosine("fear", "panic") == pytest.approx(0.8)
    assert "panic" in table
    assert "Panic" in table


def test_an_unknown_word_has_no_vector_and_a_cosine_of_0(glove: Path) -> None:
    table = load_vectors(glove)
    assert table.get("violin") is None
    assert table.cosine("fear", "violin") == 0
    assert table.cosine("fear", "nothing") == 0
    with pytest.raises(KeyError, match="violin"):
        table["violin"]


def test_a_phrase_is_the_mean_of_its_known_words(glove: Path) -> None:
    table = load_vectors(glove)
    assert table["blood cell"].tolist() == [0, 0.5, 1]
    assert table["blood_cell"].tolist() == [0, 0.5, 1]
    assert table["white blood"].tolist() == [0, 1, 0]


def test_many_cosines_at_once_are_the_single_ones(glove: Path, static: WordVectors) -> None:
    others = ["panic", "blood", "blood cell", "violin", "nothing", ""]
    for table in (load_vectors(glove), static):
        assert table.cosines("fear", others) == pytest.approx(
            [table.cosine("fear", other) for other in others], abs=1e-6
        )
        assert table.cosines("fear", []).shape == (0,)


def test_the_text_is_converted_once_and_again_when_it_changes(glove: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[Path] = []
    original = module._read
    monkeypatch.setattr(module, "_read", lambda path: read.append(path) or original(path))
    for _ in range(2):
        load_vectors.cache_clear()
        assert load_vectors(glove).cosine("fear", "panic") == pytest.approx(0.8)
    assert len(read) == 1
    glove.write_text(GLOVE.replace("0.8 0.6", "0.6 0.80"))
    load_vectors.cache_clear()
    assert load_vectors(glove).cosine("fear", "panic") == pytest.approx(0.6)
    assert len(read) == 2


def test_gz_and_fasttexts_header_and_words_with_spaces_are_read(glove: Path, tmp_path: Path) -> None:
    path = tmp_path / "wiki.vec.gz"
    path.write_bytes(gzip.compress(b"2 3\n. . . 1 0 0\nfear 0 1 0\nfear 9 9 9\n"))
    table = load_vectors(path)
    assert table["fear"].tolist() == [0, 1, 0]  # the first counts
    assert table.word(". . .") is not None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "holds no word vectors"),
        ("5 3\n", "holds no word vectors"),
        ("fear 1 0 0\npanic 1 0\n", r":2: expected a word and 3 numbers, found 'panic 1 0"),
        ("fear 1 0 0\npanic 1 x 0\n", r":2: expected a word and 3 numbers"),
        ("fear\n", r":1: expected a word and"),
        ("fear 1 0 nan\n", r":1: the vector is not finite"),
    ],
)
def test_a_bad_file_is_named_with_its_line_and_leaves_nothing_behind(glove: Path, text: str, message: str) -> None:
    glove.write_text(text)
    with pytest.raises(DataError, match=message):
        load_vectors(glove)
    left = glove.parent / "cache" / "vectors"
    assert not left.exists() or not list(left.iterdir())


@pytest.mark.parametrize("damage", [lambda data: data[:-20], lambda data: data[:30] + b"oops" + data[34:]])
def test_a_truncated_or_damaged_gz_is_an_error(glove: Path, tmp_path: Path, damage: Callable[[bytes], bytes]) -> None:
    path = tmp_path / "cut.txt.gz"
    path.write_bytes(damage(gzip.compress(GLOVE.encode() * 100)))
    with pytest.raises(DataError, match="cannot read word vectors"):
        load_vectors(path)


def test_a_missing_file_names_the_default_that_serves(tmp_path: Path) -> None:
    with pytest.raises(MissingError, match=r"glove\.txt; get GloVe .* default static vectors serve"):
        load_vectors(tmp_path / "glove.txt")


def test_the_default_vectors_know_every_word_and_what_is_near(static: WordVectors) -> None:
    assert static["blorfiness"].shape == (256,)
    assert static.cosine("fear", "scared") > 0.4 > static.cosine("fear", "violin")
    assert static.cosine("fear", "fear") == pytest.approx(1)
    assert static.get("") is None
    assert load_vectors() is load_vectors()


def test_a_word_of_several_pieces_is_their_mean(static: WordVectors) -> None:
    ids = static._tokenizer.encode("loneliness", add_special_tokens=False).ids  # type: ignore[attr-defined]
    assert len(ids) > 1
    assert np.allclose(static["loneliness"], static._pieces[ids].astype(np.float32).mean(axis=0))  # type: ignore[attr-defined]


@pytest.mark.slow
def test_real_glove_vectors_rank_by_meaning(data_dir: Path, glove: Path) -> None:
    table = load_vectors(data_dir / "glove" / "glove.100d.txt.gz")
    assert table.size == 100
    assert table.cosine("cancer", "disease") > 0.6 > table.cosine("cancer", "violin")
