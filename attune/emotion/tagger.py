"""A part-of-speech tagger in the manner of Brill: a lexicon, rules on a word's form, rules on its surroundings.

The three files come with the part "tagger"; the tags are those of the Penn Treebank.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from sys import intern

from attune.errors import DataError, MissingError
from attune.parts import locate

_EDGE = "STAART"  # how the rules call what is before the first and after the last token
_NUMBER = re.compile(r"[-+]?[\d.,:/%$]*\d[\d.,:/%$]*")

# Rules on form: does the word `w` meet the rule with argument `x`, given the known words, the word before and after?
_FORM: dict[str, Callable[[str, str, Mapping[str, str], str, str], bool]] = {
    "char": lambda w, x, known, before, after: x in w,
    "haspref": lambda w, x, known, before, after: w.startswith(x),
    "hassuf": lambda w, x, known, before, after: w.endswith(x),
    "addpref": lambda w, x, known, before, after: x + w in known,
    "addsuf": lambda w, x, known, before, after: w + x in known,
    "deletepref": lambda w, x, known, before, after: w.startswith(x) and w[len(x) :] in known,
    "deletesuf": lambda w, x, known, before, after: w.endswith(x) and w[: -len(x)] in known,
    "goodleft": lambda w, x, known, before, after: x == after,
    "goodright": lambda w, x, known, before, after: x == before,
}
# Rules on surroundings: words `w` and tags `t` padded by three edges, the position `i`, the rule's arguments `x` and `y`.
_AROUND: dict[str, Callable[[Sequence[str], Sequence[str], int, str, str], bool]] = {
    "PREVTAG": lambda w, t, i, x, y: t[i - 1] == x,
    "NEXTTAG": lambda w, t, i, x, y: t[i + 1] == x,
    "PREV2TAG": lambda w, t, i, x, y: t[i - 2] == x,
    "NEXT2TAG": lambda w, t, i, x, y: t[i + 2] == x,
    "PREV1OR2TAG": lambda w, t, i, x, y: x in t[i - 2 : i],
    "NEXT1OR2TAG": lambda w, t, i, x, y: x in t[i + 1 : i + 3],
    "PREV1OR2OR3TAG": lambda w, t, i, x, y: x in t[i - 3 : i],
    "NEXT1OR2OR3TAG": lambda w, t, i, x, y: x in t[i + 1 : i + 4],
    "SURROUNDTAG": lambda w, t, i, x, y: t[i - 1] == x and t[i + 1] == y,
    "PREVBIGRAM": lambda w, t, i, x, y: t[i - 2] == x and t[i - 1] == y,
    "NEXTBIGRAM": lambda w, t, i, x, y: t[i + 1] == x and t[i + 2] == y,
    "CURWD": lambda w, t, i, x, y: w[i] == x,
    "PREVWD": lambda w, t, i, x, y: w[i - 1] == x,
    "NEXTWD": lambda w, t, i, x, y: w[i + 1] == x,
    "PREV1OR2WD": lambda w, t, i, x, y: x in w[i - 2 : i],
    "NEXT1OR2WD": lambda w, t, i, x, y: x in w[i + 1 : i + 3],
    "LBIGRAM": lambda w, t, i, x, y: w[i - 1] == x and w[i] == y,
    "RBIGRAM": lambda w, t, i, x, y: w[i] == x and w[i + 1] == y,
    "WDPREVTAG": lambda w, t, i, x, y: t[i - 1] == x and w[i] == y,
    "WDNEXTTAG": lambda w, t, i, x, y: w[i] == x and t[i + 1] == y,
    "WDAND2AFT": lambda w, t, i, x, y: w[i] == x and w[i + 2] == y,
    "WDAND2TAGAFT": lambda w, t, i, x, y: w[i] == x and t[i + 2] == y,
    "WDAND2TAGBFR": lambda w, t, i, x, y: t[i - 2] == x and w[i] == y,
}

# A rule gives a known word only a tag that it may have (Brill's restriction). The lexicon names one tag for each word;
# these are the tags that one form commonly has.
_TOGETHER = (
    {"NN", "VB", "VBP"},
    {"VBD", "VBN", "VB", "VBP"},
    {"NNS", "VBZ", "POS"},
    {"NN", "NNP", "NNPS", "NNS"},
    {"JJ", "NNP"},
    {"JJR", "RBR"},
    {"JJS", "RBS"},
    {"IN", "RB", "RP", "WDT", "DT", "CC"},
    {"PRP", "PRP$"},
)
_ONE_WAY = {("JJ", "RB"), ("JJ", "VB"), ("NN", "JJ")}
_ALLOWED = {(old, new) for tags in _TOGETHER for old in tags for new in tags} | _ONE_WAY
_BE = {"am", "is", "are", "was", "were", "be", "been", "being", "'m", "'s", "'re", "get", "gets", "got", "getting"}
_FEEL = {
    *("feel", "feels", "felt", "feeling", "seem", "seems", "seemed", "look", "looks", "looked"),
    *("sound", "sounds", "sounded", "become", "became"),
}


class Tagger:
    """Penn tags of tokens.

    >>> Tagger.load().tag("i was so happy about the new job".split())
    ['PRP', 'VBD', 'RB', 'JJ', 'IN', 'DT', 'JJ', 'NN']
    """

    def __init__(self, folder: Path) -> None:
        """Read `en-lexicon.txt`, `en-morphology.txt` and `en-context.txt` in a folder."""
        self._known = {
            word: intern(tag) for _, (word, tag) in _rows(folder / "en-lexicon.txt", "a word and its tag", 2, 2)
        }
        self._form = [
            _form_rule(folder / "en-morphology.txt", line, row)
            for line, row in _rows(folder / "en-morphology.txt", "a rule on form", 4, 6)
        ]
        self._around = [
            _around_rule(folder / "en-context.txt", line, row)
            for line, row in _rows(folder / "en-context.txt", "a rule on surroundings", 4, 5)
        ]

    @staticmethod
    @lru_cache(maxsize=1)
    def load() -> Tagger:
        """The tagger of the part "tagger", loaded once per process."""
        return Tagger(locate("tagger"))

    def tag(self, tokens: Sequence[str]) -> list[str]:
        """The Penn tag of each token. Case helps but is not needed: the normal form is lower-cased."""
        words = [_EDGE] * 3 + list(tokens) + [_EDGE] * 3
        tags = [_EDGE] * len(words)
        for i in range(3, len(words) - 3):
            tags[i] = self._alone(words[i - 1], words[i], words[i + 1])
        unknown = [word not in self._known for word in words]
        for old, new, holds, x, y in self._around:
            if old not in tags and old != "*":
                continue
            for i in range(3, len(words) - 3):
                may = old == "*" or (tags[i] == old and (unknown[i] or (old, new) in _ALLOWED))
                if may and holds(words, tags, i, x, y):
                    tags[i] = new
        for i in range(3, len(words) - 3):
            if tags[i] == "VBN" and _describes(words, tags, i):
                tags[i] = "JJ"
        return tags[3:-3]

    def _alone(self, before: str, word: str, after: str) -> str:
        """The tag of a word before its surroundings' tags are looked at."""
        known = self._known
        for form in (word, word.lower() if before == _EDGE else word.capitalize()):
            if form in known:
                return known[form]
        if _NUMBER.fullmatch(word):
            return "CD"
        tag = "NNP" if word.istitle() and before != _EDGE else "NN"
        for old, new, holds, x in self._form:
            if old in ("", tag) and holds(word, x, known, before, after):
                tag = new
        return tag


def _describes(words: Sequence[str], tags: Sequence[str], i: int) -> bool:
    """Whether the participle at `i` says how someone feels ("i was so scared"), not what was done ("fired by").

    The rules were learnt from newspapers, where this hardly occurs.
    """
    verb = i - 1
    while tags[verb] in ("RB", "RBR", "RBS", "JJ", "CC", ","):  # "was really tired and so scared"
        verb -= 1
    if words[i + 1] == "by" or words[i] in _BE or words[i] in _FEEL:
        return False
    own = words[verb - 1] in ("i", "we", "I", "We")
    return words[verb] in _FEEL or (words[verb] in _BE and (own or verb < i - 1))


_FormRule = tuple[str, str, Callable[[str, str, Mapping[str, str], str, str], bool], str]
_AroundRule = tuple[str, str, Callable[[Sequence[str], Sequence[str], int, str, str], bool], str, str]


def _form_rule(path: Path, line: int, row: list[str]) -> _FormRule:
    """``ly hassuf 2 RB x``, or with the tag it applies to: ``NN ed fhassuf 2 VBN x``."""
    if row[1] in _FORM:
        return "", intern(row[-2]), _FORM[row[1]], row[0]
    if row[2].startswith("f") and row[2][1:] in _FORM:
        return intern(row[0]), intern(row[-2]), _FORM[row[2][1:]], row[1]
    raise DataError(f"{path}:{line}: unknown rule on form {' '.join(row)!r}")


def _around_rule(path: Path, line: int, row: list[str]) -> _AroundRule:
    """``NN VB PREVTAG TO``: NN becomes VB after a TO."""
    if row[2] not in _AROUND:
        raise DataError(f"{path}:{line}: unknown rule on surroundings {' '.join(row)!r}")
    return intern(row[0]), intern(row[1]), _AROUND[row[2]], row[3], row[4] if len(row) > 4 else ""


def _rows(path: Path, what: str, least: int, most: int) -> Iterator[tuple[int, list[str]]]:
    """The rows of a file with their line numbers; lines that start with ``;;;`` are its notice."""
    if not path.is_file():
        raise MissingError(
            f"the tagger needs {path}, which is not there; `attune setup` fetches it again (part 'tagger')"
        )
    for line, text in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        row = text.split()
        if not row or text.startswith(";;;"):
            continue
        if not least <= len(row) <= most:
            raise DataError(f"{path}:{line}: expected {what}, not {text[:60]!r}")
        yield line, row
