"""Word vectors, to say how near two words are in meaning: static sub-word vectors by default, or a GloVe text file."""

from __future__ import annotations

import gzip
import hashlib
import zlib
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import IO, cast

import numpy as np
from numpy.typing import NDArray

from attune.errors import DataError, MissingError
from attune.files import atomic_dir, cache_dir
from attune.parts import locate

Array = NDArray[np.float32]
_REMEMBERED = 1 << 14


class WordVectors(ABC):
    """A vector for a word; a phrase ("blood cell", "blood_cell") gets the mean of its known words' vectors.

    >>> vectors = load_vectors()
    >>> bool(vectors.cosine("cancer", "disease") > vectors.cosine("cancer", "violin"))
    True
    """

    def __init__(self, size: int) -> None:
        self.size = size
        self._unit = lru_cache(maxsize=_REMEMBERED)(self._unit_of)
        self._word = lru_cache(maxsize=_REMEMBERED)(self._word_or_zeros)

    @abstractmethod
    def word(self, word: str) -> Array | None:
        """The vector of one lower-case word, or nothing if it has none."""

    def get(self, phrase: str) -> Array | None:
        """The vector of a word or phrase, or nothing if none of its words is known."""
        words = (self.word(word) for word in phrase.lower().replace("_", " ").split())
        known = [vector for vector in words if vector is not None]
        return np.mean(known, axis=0, dtype=np.float32) if known else None

    def __getitem__(self, phrase: str) -> Array:
        vector = self.get(phrase)
        if vector is None:
            raise KeyError(phrase)
        return vector

    def __contains__(self, phrase: object) -> bool:
        return isinstance(phrase, str) and self.get(phrase) is not None

    def cosine(self, a: str, b: str) -> float:
        """Cosine of two words or phrases; 0 if one of them is unknown."""
        return float(self._unit(a) @ self._unit(b))

    def cosines(self, word: str, others: Sequence[str]) -> Array:
        """`cosine` of one word with many."""
        if not others:
            return np.zeros(0, dtype=np.float32)
        phrases = [other.lower().replace("_", " ").split() or [""] for other in others]
        starts = np.cumsum([0, *map(len, phrases[:-1])])
        vectors = np.add.reduceat([self._word(word) for phrase in phrases for word in phrase], starts, axis=0)
        lengths = np.linalg.norm(vectors, axis=1)
        return np.asarray((vectors @ self._unit(word)) / np.where(lengths > 0, lengths, 1), dtype=np.float32)

    def _word_or_zeros(self, word: str) -> Array:
        vector = self.word(word) if word else None
        return np.zeros(self.size, dtype=np.float32) if vector is None else vector.astype(np.float32)

    def _unit_of(self, phrase: str) -> Array:
        vector = self.get(phrase)
        length = 0.0 if vector is None else float(np.linalg.norm(vector))
        return np.zeros(self.size, dtype=np.float32) if vector is None or not length else vector / np.float32(length)


class SubwordVectors(WordVectors):
    """Vectors of sub-words; a word has the mean of its pieces, so every word has a vector."""

    def __init__(self, folder: Path) -> None:
        from safetensors.numpy import load_file
        from tokenizers import Tokenizer

        self._tokenizer = Tokenizer.from_file(str(folder / "tokenizers" / "l2_supercat_tokenizer_config.json"))
        self._pieces = load_file(folder / "weights" / "l2_supercat_256.safetensors")["embedding.weight"]
        super().__init__(self._pieces.shape[1])

    def word(self, word: str) -> Array | None:
        ids = self._tokenizer.encode(word, add_special_tokens=False).ids
        return self._pieces[ids].mean(axis=0, dtype=np.float32) if ids else None


class TableVectors(WordVectors):
    """Vectors of whole words, mapped from the folder that :func:`_convert` writes."""

    def __init__(self, folder: Path) -> None:
        words = (folder / "words.txt").read_bytes().decode().split("\n")
        self._row = {word: i for i, word in reversed(list(enumerate(words)))}  # the first of a word counts
        self._table = np.memmap(folder / "vectors.f32", dtype="<f4", mode="r").reshape(len(words), -1)
        super().__init__(self._table.shape[1])

    def word(self, word: str) -> Array | None:
        row = self._row.get(word)
        return None if row is None else self._table[row]


@lru_cache(maxsize=4)
def load_vectors(source: str | Path | None = None) -> WordVectors:
    """The static vectors of the part "wordvectors", or those of a text file in GloVe's or fastText's format (.gz too).

    A text file is converted once, into the cache, and mapped from there by every process.
    """
    if source is None:
        return SubwordVectors(locate("wordvectors"))
    path = Path(source).expanduser()
    if not path.is_file():
        raise MissingError(
            f"no file of word vectors at {path.absolute()}; get GloVe from nlp.stanford.edu/projects/glove and give the path "
            "of its text file, or leave the path out: the default static vectors serve"
        )
    return TableVectors(_convert(path.resolve()))


def _convert(path: Path) -> Path:
    """A folder in the cache with the words and the vectors of a text file; made if the file is new or has changed."""
    stat = path.stat()
    key = hashlib.sha256(f"{path} {stat.st_size} {stat.st_mtime_ns}".encode()).hexdigest()[:16]
    folder = cache_dir() / "vectors" / f"{path.name.split('.')[0]}-{key}"
    if not folder.is_dir():
        with (
            atomic_dir(folder) as new,
            open(new / "words.txt", "w", encoding="utf-8", newline="\n") as words,
            open(new / "vectors.f32", "wb") as table,
        ):
            for i, (word, vector) in enumerate(_read(path)):
                words.write(f"\n{word}" if i else word)
                table.write(vector.astype("<f4").tobytes())
    return folder


def _read(path: Path) -> Iterator[tuple[str, Array]]:
    """Words and vectors, one line at a time; fastText's header or the first line says how many numbers each has."""
    size, found = 0, False
    try:
        with cast("IO[bytes]", gzip.open(path, "rb")) if path.suffix == ".gz" else path.open("rb") as lines:
            for number, line in enumerate(lines, 1):
                fields = line.rstrip().split(b" ")
                if number == 1 and len(fields) == 2 and all(field.isdigit() for field in fields):
                    size = int(fields[1])  # fastText's header
                    continue
                size = size or len(fields) - 1
                try:
                    if len(fields) <= size or size < 2:
                        raise ValueError
                    vector = np.array(fields[-size:], dtype=np.float32)
                except ValueError:
                    shown = line[:40].decode(errors="replace")
                    raise DataError(
                        f"{path}:{number}: expected a word and {size or 'its'} numbers, found {shown!r}"
                    ) from None
                if not np.isfinite(vector).all():
                    raise DataError(f"{path}:{number}: the vector is not finite")
                found = True
                yield b" ".join(fields[:-size]).decode(errors="replace"), vector
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"{path}: cannot read word vectors: {error}") from None
    if not found:
        raise DataError(f"{path}: holds no word vectors")
