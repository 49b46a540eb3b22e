"""Word-level vocabulary: a fast tokenizer over the normal form, and word vectors to start from."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np
from tokenizers import AddedToken, Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import WhitespaceSplit

from attune.dialogue.lines import raw_lines
from attune.errors import DataError

SPECIALS = ("[PAD]", "[UNK]", "[BOS]", "[EOS]", "[CLS]", "[LAB]", "[SEP]")
PAD, UNK, BOS, EOS, CLS, LAB, SEP = range(len(SPECIALS))


def count_words(texts: Iterable[str]) -> Counter[str]:
    """How often each word stands in texts of normal form.

    >>> count_words(["i am here .", "i see ."]).most_common(2)
    [('i', 2), ('.', 2)]
    """
    counts: Counter[str] = Counter()
    for text in texts:
        counts.update(text.split())
    return counts


def build_tokenizer(counts: Mapping[str, int] | Iterable[str]) -> Tokenizer:
    """A tokenizer over space-separated words: the specials first, then words by falling count, then alphabet.

    `counts` are word counts, or texts in normal form that are counted here.

    >>> build_tokenizer(["i am here .", "i see ."]).encode("i see you .").tokens
    ['i', 'see', '[UNK]', '.']
    """
    if not isinstance(counts, Mapping):
        counts = count_words(counts)
    words = sorted((word for word in counts if word not in SPECIALS), key=lambda word: (-counts[word], word))
    vocabulary = {word: i for i, word in enumerate((*SPECIALS, *words))}
    tokenizer = Tokenizer(WordLevel(vocabulary, unk_token=SPECIALS[UNK]))
    tokenizer.pre_tokenizer = WhitespaceSplit()
    tokenizer.add_special_tokens([AddedToken(name, normalized=False) for name in SPECIALS])
    return tokenizer


def singletons(counts: Mapping[str, int], tokenizer: Tokenizer) -> list[int]:
    """Ids of the words that were counted once; training hides them half of the time so that UNK is learnt."""
    ids = (tokenizer.token_to_id(word) for word, count in counts.items() if count == 1)
    return sorted(i for i in ids if i is not None and i >= len(SPECIALS))


def oov_rate(tokenizer: Tokenizer, token_lists: Iterable[Sequence[str]]) -> float:
    """Share of tokens that the tokenizer does not know.

    >>> oov_rate(build_tokenizer(["i am here ."]), [["i", "am", "there", "."]])
    0.25
    """
    known = tokenizer.get_vocab().keys() - set(SPECIALS)
    total = missing = 0
    for tokens in token_lists:
        total += len(tokens)
        missing += sum(token not in known for token in tokens)
    return missing / total if total else 0.0


def read_vectors(path: str | Path, words: Collection[str]) -> tuple[dict[str, int], np.ndarray]:
    """Vectors of the asked-for words from GloVe's or fastText's text format (`.gz` too): word → row, and the rows.

    The file is streamed, so its size does not matter. The first vector of a word counts; a header line of
    two numbers (fastText) is skipped; any other line must have as many numbers as the first.
    """
    path = Path(path)
    wanted = {word.encode(): word for word in words}
    rows: dict[str, int] = {}
    vectors: list[np.ndarray] = []
    size = 0
    for number, line in raw_lines(path):
        line = line.rstrip()
        spaces = line.count(b" ")
        if number == 1 and spaces == 1 and line.replace(b" ", b"").isdigit():
            continue
        if not size and (size := spaces) < 2:
            raise DataError(f"{path}:{number}: expected a word and its vector, found {_shown(line)}")
        if spaces < size:
            raise DataError(f"{path}:{number}: expected {size} numbers, found {spaces}: {_shown(line)}")
        word = line[: line.index(b" ")] if spaces == size else line.rsplit(b" ", size)[0]
        name = wanted.get(word)
        if name is None or name in rows:
            continue
        try:
            vector = np.array(line[len(word) + 1 :].split(b" "), dtype=np.float32)
        except ValueError:
            raise DataError(f"{path}:{number}: expected {size} numbers after '{name}'") from None
        if not np.isfinite(vector).all():
            raise DataError(f"{path}:{number}: the vector of '{name}' is not finite")
        rows[name] = len(vectors)
        vectors.append(vector)
    if not size:
        raise DataError(f"{path}: holds no word vectors")
    return rows, np.stack(vectors) if vectors else np.zeros((0, size), dtype=np.float32)


def _shown(line: bytes) -> str:
    return repr(line[:40].decode(errors="replace"))
