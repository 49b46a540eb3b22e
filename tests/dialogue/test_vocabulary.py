from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from tokenizers import Tokenizer

from attune.dialogue.text import normal_form
from attune.dialogue.vocabulary import SPECIALS, build_tokenizer, count_words, oov_rate, read_vectors, singletons
from attune.errors import AttuneError, DataError, MissingError

WORD = st.text(st.characters(exclude_categories=("Cs", "Cc", "Zs", "Zl", "Zp")), min_size=1, max_size=8)


def test_specials_come_first_then_words_by_count_then_alphabet() -> None:
    tokenizer = build_tokenizer({"b": 2, "a": 2, "zoo": 5, "once": 1})
    assert [tokenizer.id_to_token(i) for i in range(tokenizer.get_vocab_size())] == [*SPECIALS, "zoo", "a", "b", "once"]


def test_counts_and_texts_build_the_same_tokenizer() -> None:
    texts = ["i am here .", "are you here ?"]
    assert build_tokenizer(texts).to_str() == build_tokenizer(count_words(texts)).to_str()


@given(st.lists(st.text(max_size=40), max_size=5))
def test_a_saved_tokenizer_gives_back_every_word_of_its_texts(texts: list[str]) -> None:
    forms = [normal_form(text) for text in texts]
    tokenizer = Tokenizer.from_str(build_tokenizer(forms).to_str())
    for form in forms:
        encoded = tokenizer.encode(form)
        assert encoded.tokens == form.split()
        assert min(encoded.ids, default=7) >= len(SPECIALS)
        assert tokenizer.decode(encoded.ids) == form


def test_unknown_words_become_unk_and_specials_are_left_out_of_decoded_text() -> None:
    tokenizer = build_tokenizer(["i am here"])
    assert tokenizer.encode("i was here").ids == [9, 1, 8]
    assert tokenizer.decode([2, 9, 3, 0], skip_special_tokens=True) == "i"


def test_singletons_are_the_words_seen_once() -> None:
    counts = {"twice": 2, "once": 1, "[PAD]": 1, "other": 1}
    tokenizer = build_tokenizer({"twice": 2, "once": 1})
    assert singletons(counts, tokenizer) == [tokenizer.token_to_id("once")]


def test_oov_rate_is_the_share_of_unknown_tokens() -> None:
    tokenizer = build_tokenizer(["i am here"])
    assert oov_rate(tokenizer, [["i", "was"], ["here", "[UNK]"]]) == 0.5
    assert oov_rate(tokenizer, []) == 0.0


def vector_file(path: Path, *lines: str) -> Path:
    data = "".join(f"{line}\n" for line in lines).encode()
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


@given(
    st.lists(WORD, min_size=1, max_size=6, unique=True).flatmap(
        lambda words: st.tuples(
            st.just(words), arrays(np.float32, (len(words), 3), elements=st.floats(-9, 9, width=32))
        )
    ),
    st.booleans(),
    st.booleans(),
)
def test_vectors_written_are_vectors_read(
    tmp_path_factory: pytest.TempPathFactory, table: tuple[list[str], np.ndarray], header: bool, zipped: bool
) -> None:
    words, vectors = table
    lines = [" ".join([word, *(repr(float(x)) for x in vector)]) for word, vector in zip(words, vectors, strict=True)]
    path = tmp_path_factory.mktemp("vectors") / ("v.txt.gz" if zipped else "v.vec")
    vector_file(path, *([f"{len(words)} 3"] if header else []), *(f"{line} " if header else line for line in lines))
    rows, found = read_vectors(path, words)
    assert list(rows) == words
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found[[rows[word] for word in words]], vectors)


def test_only_words_asked_for_are_kept_and_the_first_vector_counts(tmp_path: Path) -> None:
    path = vector_file(tmp_path / "v.txt", "a 1 2", "b 3 4", ". . . 9 9", "a 5 6")
    rows, vectors = read_vectors(path, {"a", "missing"})
    assert rows == {"a": 0}
    assert vectors.tolist() == [[1, 2]]
    rows, vectors = read_vectors(path, {"missing"})
    assert (rows, vectors.shape) == ({}, (0, 2))


@pytest.mark.parametrize(
    ("lines", "reason"),
    [
        (["a 1 2", "b 3"], r"v\.txt:2: expected 2 numbers, found 1: 'b 3'"),
        (["a 1 2", "b 3 x"], r"v\.txt:2: expected 2 numbers after 'b'"),
        (["a 1 2", "b 3 nan"], r"v\.txt:2: the vector of 'b' is not finite"),
        (["2 2", "a 1 2", ""], r"v\.txt:3: expected 2 numbers, found 0"),
        (["no"], "expected a word and its vector, found 'no'"),
        ([], "holds no word vectors"),
    ],
)
def test_a_bad_line_of_vectors_is_named(tmp_path: Path, lines: list[str], reason: str) -> None:
    with pytest.raises(DataError, match=reason):
        read_vectors(vector_file(tmp_path / "v.txt", *lines), {"a", "b"})


def test_files_of_vectors_that_cannot_be_read_are_refused(tmp_path: Path) -> None:
    with pytest.raises(MissingError, match="no file"):
        read_vectors(tmp_path / "none.txt", {"a"})
    cut = tmp_path / "cut.txt.gz"
    cut.write_bytes(gzip.compress(b"a 1 2\n" * 1000)[:-9])
    with pytest.raises(DataError, match="cannot be read"):
        read_vectors(cut, {"a"})
    binary = tmp_path / "binary.txt"
    binary.write_bytes(b"\0\1 2 3\n")
    with pytest.raises(AttuneError, match="binary"):
        read_vectors(binary, {"a"})


def test_real_vectors_are_read(data_dir: Path) -> None:
    rows, vectors = read_vectors(data_dir / "glove" / "glove.100d.txt.gz", {"the", "happy", "!", "qqqqzz"})
    assert set(rows) == {"the", "happy", "!"}
    assert vectors.shape == (3, 100)
