"""Lexicons: valence, arousal and dominance of words, and which emotions a word is associated with.

A lexicon is asked for by name (:data:`LEXICONS`) or by the path of a file; the format is read off the file's content.
Each is loaded once per process.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from attune.emotion.lexicon_files import Vad, read_emotion_file, read_vad_file
from attune.errors import MissingError, SettingsError, did_you_mean
from attune.files import data_dir
from attune.parts import PARTS, locate
from attune.registry import Registry


class VadLexicon:
    """Words to (valence, arousal, dominance), each in 0..1. It does not change once it is made.

    >>> lexicon = VadLexicon({"nice": (0.93, 0.442, 0.65), "table": (0.52, 0.1, 0.4)}, name="mine", licence="CC0")
    >>> lexicon["nice"], lexicon.intensity("nice"), lexicon.intensity("unheard", unknown=0.5)
    ((0.93, 0.442, 0.65), 1.0, 0.5)
    """

    def __init__(self, words: Mapping[str, Vad], *, name: str, licence: str) -> None:
        self.name = name
        self.licence = licence
        self._row = {word.lower(): i for i, word in enumerate(words)}
        self._row |= {word: i for i, word in enumerate(words) if word.islower()}  # "turkey" rather than "Turkey"
        self._vad = np.array(list(words.values()), dtype=np.float64).reshape(-1, 3)
        norm = np.hypot(self._vad[:, 0] - 0.5, self._vad[:, 1] / 2)
        low, high = (norm.min(), norm.max()) if len(norm) else (0.0, 0.0)
        self._intensity: NDArray[np.float64] = (norm - low) / (high - low) if high > low else np.zeros_like(norm)
        self._vad.setflags(write=False)
        self._intensity.setflags(write=False)

    def __contains__(self, word: object) -> bool:
        return isinstance(word, str) and word.lower() in self._row

    def __len__(self) -> int:
        return len(self._row)

    def __iter__(self) -> Iterator[str]:
        return iter(self._row)

    def __getitem__(self, word: str) -> Vad:
        valence, arousal, dominance = self._vad[self._row[word.lower()]].tolist()
        return valence, arousal, dominance

    def intensity(self, word: str, unknown: float = 0.0) -> float:
        """η of seeds 000 and 001: the length of (V − ½, A/2), min-max scaled over this lexicon.

        A word that is not in the lexicon gets `unknown`: 0.5 in seed 000, 0 in seed 001.
        """
        row = self._row.get(word.lower())
        return unknown if row is None else float(self._intensity[row])


class EmotionLexicon:
    """Words to the emotions (and sentiments) they are associated with.

    >>> lexicon = EmotionLexicon({"abandon": ("fear", "sadness")}, name="mine", licence="CC0")
    >>> "abandon" in lexicon, sorted(lexicon["Abandon"]), "table" in lexicon
    (True, ['fear', 'sadness'], False)
    """

    def __init__(self, words: Mapping[str, Iterable[str]], *, name: str, licence: str) -> None:
        self.name = name
        self.licence = licence
        shared: dict[frozenset[str], frozenset[str]] = {}
        sets = ((word, frozenset(emotions)) for word, emotions in words.items())
        self._words = {word.lower(): shared.setdefault(emotions, emotions) for word, emotions in sets}

    def __contains__(self, word: object) -> bool:
        return isinstance(word, str) and word.lower() in self._words

    def __len__(self) -> int:
        return len(self._words)

    def __iter__(self) -> Iterator[str]:
        return iter(self._words)

    def __getitem__(self, word: str) -> frozenset[str]:
        return self._words[word.lower()]


LEXICONS: Registry[Callable[[], VadLexicon | EmotionLexicon]] = Registry("lexicon")

_LICENCES = {
    "warriner": PARTS["vad-warriner"].licence,
    "nrc-emotion": PARTS["nrc-emotion"].licence,
    "nrc-vad-1": "NRC VAD: research use only, not to be redistributed",
    "nrc-vad-2": "NRC VAD: research use only, not to be redistributed",
}
_GET_VAD = (
    "Get NRC VAD from its author's page (saifmohammad.com/WebPages/nrc-vad.html) and give the path of the file, "
    "or leave the path out: the default lexicon 'warriner' serves"
)
_GET_EMOTIONS = (
    "Get the NRC emotion lexicon from its author's page (saifmohammad.com/WebPages/NRC-Emotion-Lexicon.htm) and give "
    "the path of the file, or leave the path out: the default lexicon 'nrc-emotion' serves"
)


@LEXICONS.register("warriner")
def _warriner() -> VadLexicon:
    return _vad_of(locate("vad-warriner"))


@LEXICONS.register("nrc-vad")
def _nrc_vad() -> VadLexicon:
    names = ("VAD.json", "NRC-VAD-Lexicon.txt", "NRC-VAD-Lexicon-v2.1.txt")
    folder = (data_dir() or Path("ATTUNE_DATA")) / "nrc_vad"
    for name in names:
        if (folder / name).is_file():
            return _vad_of(folder / name)
    raise MissingError(f"no NRC VAD lexicon: looked for {', '.join(names)} in {folder}. {_GET_VAD}")


@LEXICONS.register("nrc-emotion")
def _nrc_emotion() -> EmotionLexicon:
    return _emotions_of(locate("nrc-emotion"))


def load_vad(source: str | Path | None = None) -> VadLexicon:
    """A VAD lexicon: the Warriner norms, another one by its name in :data:`LEXICONS`, or the path of a file.

    A file may be NRC VAD 1 (JSON or tab-separated), NRC VAD 2 (tab-separated, −1..1) or the Warriner norms
    (comma-separated, 1–9); all are rescaled to 0..1.
    """
    lexicon = _load(str(source or "warriner"), _vad_of, _GET_VAD)
    if not isinstance(lexicon, VadLexicon):
        raise SettingsError(f"lexicon '{source}' has no valence and arousal; the default lexicon 'warriner' has")
    return lexicon


def load_emotion_lexicon(source: str | Path | None = None) -> EmotionLexicon:
    """An emotion lexicon: NRC's as packaged, another one by its name in :data:`LEXICONS`, or the path of a file.

    A file may be JSON (word → list of emotions) or NRC's own text file (word, emotion and 0 or 1 a line).
    """
    lexicon = _load(str(source or "nrc-emotion"), _emotions_of, _GET_EMOTIONS)
    if not isinstance(lexicon, EmotionLexicon):
        raise SettingsError(f"lexicon '{source}' lists no emotions; the default lexicon 'nrc-emotion' does")
    return lexicon


@lru_cache(maxsize=8)
def _load(
    source: str, read: Callable[[Path], VadLexicon | EmotionLexicon], how_to_get: str
) -> VadLexicon | EmotionLexicon:
    if source in LEXICONS:
        return LEXICONS[source]()
    path = Path(source).expanduser()
    if not path.is_file():
        raise MissingError(
            f"{did_you_mean(source, LEXICONS, 'lexicon')}; nor is there a file {path.absolute()}. {how_to_get}"
        )
    return read(path)


def _vad_of(path: Path) -> VadLexicon:
    form, words = read_vad_file(path)
    return VadLexicon(words, name=form, licence=_LICENCES[form])


def _emotions_of(path: Path) -> EmotionLexicon:
    return EmotionLexicon(read_emotion_file(path), name="nrc-emotion", licence=_LICENCES["nrc-emotion"])
