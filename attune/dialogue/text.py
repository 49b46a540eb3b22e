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
from functools import cache
from types import ModuleType

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
_SENTENCE_END = re.compile(r"[.!?][.!?\"')\]}]*(?=\s)")
# Where every mark is one of these, tokens never depend on the words around them (see `_tokenise`).
_PLAIN = re.compile(r"(?:[^\W_]|(?<=[^\W_])'(?=[^\W_])|[\s.,?!:;*$%&@#-])*")


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
    for end in _SENTENCE_END.finditer(text):
        if end.group() == "." and _ABBREVIATION.search(text, max(start, end.end() - 24), end.end()):
            continue
        found.append(text[start : end.end()].strip())
        start = end.end()
    rest = text[start:].strip()
    return [*found, rest] if rest else found


def _expand(text: str) -> str:
    text = text.lower().translate(_ONE_FORM)
    return _CONTRACTION.sub(lambda m: CONTRACTIONS[m.group()], text) if "'" in text else text


def _tokenise(sentence: str) -> list[str]:
    """NLTK's tokens of a sentence; in plain sentences each space-separated chunk is looked up by itself."""
    if not _PLAIN.fullmatch(sentence):
        return _nltk()(sentence)
    chunks = sentence.split()
    return [token for chunk in chunks[:-1] for token in _inner(chunk)] + list(_last(chunks[-1])) if chunks else []


@cache
def _nltk() -> Callable[[str], list[str]]:
    """NLTK's word tokenizer, without the rest of NLTK (which would import scipy and scikit-learn)."""
    if "nltk" in sys.modules:
        return importlib.import_module("nltk.tokenize.destructive").NLTKWordTokenizer().tokenize  # type: ignore[no-any-return]
    spec = importlib.util.find_spec("nltk")
    assert spec is not None and spec.submodule_search_locations is not None
    root = spec.submodule_search_locations[0]
    try:
        for name, folder in (("nltk", root), ("nltk.tokenize", f"{root}/tokenize")):
            package = sys.modules[name] = ModuleType(name)
            package.__path__ = [folder]
        return importlib.import_module("nltk.tokenize.destructive").NLTKWordTokenizer().tokenize  # type: ignore[no-any-return]
    finally:  # whoever imports NLTK later gets all of it
        for name in [name for name in sys.modules if name == "nltk" or name.startswith("nltk.")]:
            del sys.modules[name]


_CHUNKS = 200_000  # entries kept by each memory of chunks: a corpus has fewer, a server does not grow
_inner_memory: dict[str, tuple[str, ...]] = {}
_last_memory: dict[str, tuple[str, ...]] = {}


def _inner(chunk: str) -> tuple[str, ...]:
    """Tokens of a chunk that other words follow."""
    tokens = _inner_memory.get(chunk)
    if tokens is None:
        tokens = tuple(_nltk()(f"{chunk} x")[:-1])
        if len(_inner_memory) >= _CHUNKS:
            _inner_memory.clear()
        _inner_memory[chunk] = tokens
    return tokens


def _last(chunk: str) -> tuple[str, ...]:
    """Tokens of a sentence's last chunk, whose full stop stands by itself."""
    tokens = _last_memory.get(chunk)
    if tokens is None:
        tokens = tuple(_nltk()(chunk))
        if len(_last_memory) >= _CHUNKS:
            _last_memory.clear()
        _last_memory[chunk] = tokens
    return tokens


_TO_LEFT = {*".,!?;:%)]}", "''", "...", "..", "n't", "'s", "'m", "'re", "'ve", "'ll", "'d", "'"}
_TO_RIGHT = {*"([{$#", "``"}
_SPLIT_WORDS = {("can", "not"), ("gon", "na"), ("wan", "na"), ("got", "ta"), ("gim", "me"), ("lem", "me")}


def as_written(tokens: Sequence[str]) -> str:
    """Normal-form tokens as a person would write them. For display only; it loses what lower case lost.

    >>> as_written("i do n't know . is dr. lee ( my boss ) in ?".split())
    "I don't know. Is dr. lee (my boss) in?"
    """
    text, glue, capital, before = "", True, True, ""
    for token in tokens:
        shown = {"``": '"', "''": '"', "i": "I"}.get(token, token)
        if capital and token[:1].isalnum():
            shown, capital = shown[:1].upper() + shown[1:], False
        together = glue or token in _TO_LEFT or (before, token) in _SPLIT_WORDS
        text += shown if together else f" {shown}"
        glue = token in _TO_RIGHT
        capital = capital or token in {".", "!", "?"}
        before = token
    return text
