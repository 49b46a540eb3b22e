"""A person's text as plain words: one spelling, nothing hidden.

Unicode is folded (NFKC, no invisible characters, look-alike letters), contractions and chat shorthand are spelt out, and words
are recognised behind symbols, spaces, repeated letters and one slip of the keyboard.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Container, Iterable, Mapping
from functools import lru_cache
from importlib import resources

import yaml

from attune.parts import locate

KNOWN = "known.txt"
LONGEST = 20_000  # characters; of a longer text the first and the last half of this are read

_LOOKALIKES = str.maketrans(
    "аеорсухікмтнвѕјԁɡαεορνικτυωıłøđƒ‘’ʼ´`“”„«»…—–‐‑−",
    "aeopcyxikmthbsjdgaeopviktuwilodf'''''\"\"\"\"\".-----",
)
_LAUGHS = re.compile("[😂🤣😹😆😅💀☠]+")
_PICTURE = re.compile("([\u2600-\u27bf\U0001f000-\U0001faff])(?:\\1|\ufe0f|[\U0001f3fb-\U0001f3ff])*")
_PICTURES = {"🔪": "knife", "🔫": "gun", "🗡": "knife", "💊": "pills", "🩸": "blood", "👋": "goodbye", "🪦": "grave"}
_SPACED = re.compile(r"(?<![^\W_])[^\W_](?:([ .*_-])[^\W_](?:\1[^\W_])+)(?![^\W_])")
_TOKEN = re.compile(r"[^\W_]+(?:[*@$!#_]+[^\W_]+)*(?:'[^\W_]+)*|[.!?]+|\n\s*\n|[,;:()\"%+-]")
_LEET = str.maketrans("013457@$!", "oieastasi")
_DISGUISED = re.compile(r"[*#_@$!\d]")
_RUN = re.compile(r"(.)\1{2,}")
_ENDS = (("n't", "not"), ("'re", "are"), ("'ve", "have"), ("'ll", "will"), ("'d", "would"), ("'m", "am"))
_STEMS = {"ca": "can", "wo": "will", "sha": "shall", "ai": "is"}
_IS = frozenset(["he", "she", "it", "that", "what", "there", "who", "here", "where", "how", "nobody", "someone"])


class Reader:
    """Reads texts.

    `known` are words to recognise when they are misspelt, most frequent first; words in `real` are never taken for a
    misspelling. `spelt` are whole words to be written otherwise, `hidden` are words that people write in disguise.

    >>> reader = Reader(["myself", "kill"], {"willing"}, spelt={"kms": "kill myself"}, hidden=["kill"])
    >>> reader.read("I don’t, um, want to k*ll mysefl!! KMS")
    'i do not , um , want to kill myself !! kill myself'
    """

    def __init__(
        self, known: Iterable[str], real: Container[str], *, spelt: Mapping[str, str], hidden: Iterable[str]
    ) -> None:
        self._rank = {word: i for i, word in enumerate(known)}
        self._real = real
        self._spelt = spelt
        self._hidden: dict[int, list[str]] = {}  # length → words
        for word in hidden:
            self._hidden.setdefault(len(word), []).append(word)
        self._shorter: dict[str, list[str]] = {}  # a word with one letter left out, or whole → words
        for word in self._rank:
            if len(word) > 3:
                for shorter in {word, *_one_left_out(word)}:
                    self._shorter.setdefault(shorter, []).append(word)
        self._word = lru_cache(maxsize=20_000)(self._spell)

    def read(self, text: str) -> str:
        """The text in lower case, one space between its words and its marks."""
        tokens = _TOKEN.findall(_folded(text))
        return " ".join(
            self._word(token) if token[0].isalnum() else token[:3] if token.strip() else "." for token in tokens
        )

    def _spell(self, token: str) -> str:
        if token in self._spelt:
            return self._spelt[token]
        for end, word in _ENDS:
            if token.endswith(end) and len(token) > len(end):
                stem = token[: -len(end)]
                return f"{self._spell(_STEMS.get(stem, stem))} {word}"
        if token.endswith("'s"):
            stem = token[:-2]
            return f"{stem} is" if stem in _IS else self._spell(stem)
        word = token.replace("'", "")
        if word in self._rank or word in self._real:
            return word
        if _DISGUISED.search(word):
            word = self._seen_through(word)
        if _RUN.search(word):
            twice = _RUN.sub(r"\1\1", word)
            word = twice if twice in self._rank or twice in self._real else _RUN.sub(r"\1", word)
        if word in self._spelt:
            return self._spelt[word]
        return word if word in self._rank or word in self._real else self._mended(word)

    def _seen_through(self, token: str) -> str:
        """k*ll, su1cide, d!e."""
        shape = re.compile("".join("." if mark in "*#_" else re.escape(mark) for mark in token.translate(_LEET)))
        return next((word for word in self._hidden.get(len(token), ()) if shape.fullmatch(word)), token)

    def _mended(self, word: str) -> str:
        """The commonest known word that is one slip away: a letter missing, added, changed, or two swapped."""
        if not 3 <= len(word) <= 20 or not word.isalpha():
            return word
        swapped = [word[:i] + word[i + 1] + word[i] + word[i + 2 :] for i in range(len(word) - 1)]
        near = {other for other in swapped if other in self._rank}
        for shorter in (word, *_one_left_out(word)) if len(word) > 3 else ():
            near |= {other for other in self._shorter.get(shorter, ()) if _slipped(word, other)}
        return min(near, key=lambda other: (len(other) < len(word), self._rank[other]), default=word)


def _folded(text: str) -> str:
    if len(text) > LONGEST:
        text = f"{text[: LONGEST // 2]}\n{text[-LONGEST // 2 :]}"
    if not text.isascii():
        text = _PICTURE.sub(_told, _LAUGHS.sub(" lol ", text))
        letters = unicodedata.normalize("NFKD", unicodedata.normalize("NFKC", text))
        text = "".join(c for c in letters if unicodedata.category(c) not in ("Cf", "Mn", "Me"))
        text = text.casefold().translate(_LOOKALIKES)
    return _SPACED.sub(lambda found: found[0].replace(found[1], ""), text.lower())


def _told(picture: re.Match[str]) -> str:
    """A picture by its name: 🔪 is a "hocho", so a few are said in plainer words."""
    return f" {_PICTURES.get(picture[1]) or unicodedata.name(picture[1], '').lower()} "


def _one_left_out(word: str) -> list[str]:
    return [word[:i] + word[i + 1 :] for i in range(len(word))]


def _slipped(word: str, other: str) -> bool:
    """Whether `word`, which shares a form with one letter left out, is `other` with a slip. The first letter is right."""
    if word[0] != other[0] or abs(len(word) - len(other)) > 1:
        return False
    if len(word) != len(other):
        return True
    return len(word) > 4 and sum(one != two for one, two in zip(word, other)) == 1


def real_words() -> frozenset[str]:
    """The whole words of the sentence encoder's vocabulary: 23,000 of the commonest in English."""
    return frozenset(filter(str.isalpha, (locate("minilm") / "vocab.txt").read_text(encoding="utf-8").split()))


@lru_cache(maxsize=1)
def load_reader() -> Reader:
    """The reader of this package."""
    data = resources.files("attune.respond.guard").joinpath("data")
    words = yaml.safe_load(data.joinpath("words.yaml").read_text(encoding="utf-8"))
    known = data.joinpath(KNOWN).read_text(encoding="utf-8").split()
    return Reader(known, real_words(), spelt=words["spelt"], hidden=words["hidden"].split())
