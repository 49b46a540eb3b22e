"""The papers' normal form: lower case, contractions spelt out, one token per word or mark.

A text is lower-cased, 23 contractions are expanded at word boundaries, sentences are split by rule, and
NLTK's word tokenizer cuts each sentence. The tokens joined by spaces are the *normal form*; case never
changes it. No NLTK data is downloaded, and of NLTK only the one tokenizer module is imported.

>>> normal_form("I can’t believe it! Don't you?")
'i can not believe it ! do not you ?'
>>> as_written(normalise("I can’t believe it! Don't you?"))
'I cannot believe it! Do not you?'
"""

from __future__ import annotations

import importlib
import importlib.util
import re
import sys
from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path
from types import ModuleType
from typing import cast

CONTRACTIONS: dict[str, str] = {
    "it's": "it is", "don't": "do not", "doesn't": "does not", "didn't": "did not", "you'd": "you would",
    "you're": "you are", "you'll": "you will", "i'm": "i am", "they're": "they are", "that's": "that is",
    "what's": "what is", "couldn't": "could not", "i've": "i have", "we've": "we have", "can't": "cannot",
    "i'd": "i would", "aren't": "are not", "isn't": "is not", "wasn't": "was not", "weren't": "were not",
    "won't": "will not", "there's": "there is", "there're": "there are",
}  # fmt: skip

_ONE_FORM = str.maketrans({"’": "'", "‘": "'", "ʼ": "'", "´": "'", "“": '"', "”": '"'})
_CONTRACTION = re.compile(rf"(?<![\w'])(?:{'|'.join(CONTRACTIONS)})(?![\w'])")
# A full stop after one of these does not end a sentence; nor does one after letters with stops between ("e.g.").
_ABBREVIATION = re.compile(
    r"(?:^|[\s(\"'])(?:mr|mrs|ms|dr|st|prof|rev|gen|sgt|lt|col|capt|gov|sen|mt|vs|[a-z](?:\.[a-z])+)\.$"
)
_CLOSING = re.compile(r"[.!?\"')\]}]+")
# Where every mark is one of these, tokens never depend on the words around them (see `_tokenise`).
_PLAIN = re.compile(r"(?:[^\W_]|(?<=[^\W_])'(?=[^\W_])|[\s.,?!:;*$%&@#-])*")
_LONGEST_CHUNK = 50  # longer ones are not remembered
_WORD_AND_MARK = re.compile(r"([a-z0-9]+)([.,?!:;]?)")
# Words that NLTK cuts in two, as its tokens.
_HALVES = {("can", "not"), ("gon", "na"), ("wan", "na"), ("got", "ta"), ("gim", "me"), ("lem", "me")}
_IN_TWO = {"".join(halves) for halves in _HALVES}


def normalise(text: str) -> list[str]:
    """The tokens of a text in normal form.

    >>> normalise("Dr. Lee said it's 5 a.m. already...")
    ['dr.', 'lee', 'said', 'it', 'is', '5', 'a.m.', 'already', '...']
    """
    return [token for sentence in sentences(_expand(text)) for token in _tokenise(sentence)]


def normal_form(text: str) -> str:
    """`normalise`, joined by spaces."""
    return " ".join(normalise(text))


def sentences(text: str) -> list[str]:
    """Split a text after a full stop, question or exclamation mark that a space follows.

    >>> sentences("I met mr. smith. he left! (why?) no idea.")
    ['I met mr. smith.', 'he left!', '(why?)', 'no idea.']
    """
    found, start = [], 0
    for closing in _CLOSING.finditer(text):
        marks, end = closing.group(), closing.end()
        if not text[end : end + 1].isspace() or not any(mark in marks for mark in ".!?"):
            continue
        if marks == "." and _ABBREVIATION.search(text, max(start, end - 24), end):
            continue
        found.append(text[start:end].strip())
        start = end
    rest = text[start:].strip()
    return [*found, rest] if rest else found


def _expand(text: str) -> str:
    text = text.lower().translate(_ONE_FORM)
    return _CONTRACTION.sub(lambda m: CONTRACTIONS[m.group()], text) if "'" in text else text


def _tokenise(sentence: str) -> list[str]:
    """NLTK's tokens of a sentence; in plain sentences each space-separated chunk is looked up by itself."""
    chunks = sentence.split()
    if not _PLAIN.fullmatch(sentence) or len(max(chunks, key=len, default="")) > _LONGEST_CHUNK:
        return _nltk(sentence)
    return [token for i, chunk in enumerate(chunks, 1) for token in _chunk(chunk, i == len(chunks))]


@lru_cache(maxsize=100_000)  # more than a corpus has; a server does not grow without end
def _chunk(chunk: str, last: bool) -> tuple[str, ...]:
    """Tokens of one chunk; a full stop stands by itself only at the end of the sentence."""
    simple = _WORD_AND_MARK.fullmatch(chunk)
    if simple and simple[1] not in _IN_TWO and (last or simple[2] != "."):
        return (simple[1], simple[2]) if simple[2] else (simple[1],)
    return tuple(_nltk(chunk) if last else _nltk(f"{chunk} x")[:-1])


def _load_nltk() -> Callable[[str], list[str]]:
    """NLTK's word tokenizer without the rest of NLTK, which would import scipy and scikit-learn."""
    stubs: list[str] = []
    if "nltk" not in sys.modules:
        spec = importlib.util.find_spec("nltk")
        assert spec is not None  # a dependency of ours
        root = (spec.submodule_search_locations or [""])[0]
        stubs = ["nltk", "nltk.tokenize"]
        for name in stubs:
            package = sys.modules[name] = ModuleType(name)
            package.__path__ = [str(Path(root, *name.split(".")[1:]))]
    try:
        tokenizer = importlib.import_module("nltk.tokenize.destructive").NLTKWordTokenizer()
    finally:
        if stubs:  # whoever imports NLTK later gets all of it
            for name in [name for name in sys.modules if name.split(".")[0] == "nltk"]:
                del sys.modules[name]
    return cast("Callable[[str], list[str]]", tokenizer.tokenize)


_nltk = _load_nltk()

_TO_LEFT = {*".,!?;:%)]}", "''", "...", "..", "n't", "'s", "'m", "'re", "'ve", "'ll", "'d", "'"}
_TO_RIGHT = {*"([{$#", "``"}
_SHOWN = {"``": '"', "''": '"', "i": "I"}
_SMILEY = re.compile(r"(?<!\S)([:;]) ([()])(?!\S)")


def as_written(tokens: Sequence[str]) -> str:
    """Normal-form tokens as a person would write them. For display only; it loses what lower case lost.

    >>> as_written("i do n't know . is dr. lee ( my boss ) in ? : )".split())
    "I don't know. Is dr. lee (my boss) in? :)"
    """
    text, before, capital = "", "", True
    for token in _SMILEY.sub(r"\1\2", " ".join(tokens)).split():
        shown = _SHOWN.get(token, token)
        if capital and token[:1].isalnum():
            shown, capital = shown[:1].upper() + shown[1:], False
        together = not before or before in _TO_RIGHT or token in _TO_LEFT or (before, token) in _HALVES
        text += shown if together else f" {shown}"
        capital = capital or token in {".", "!", "?"}
        before = token
    return text
