"""Reading lexicon files. The format is told from the content; a bad file is named with its line and the reason."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from attune.errors import DataError

Vad = tuple[float, float, float]
VAD_NAMES = ("valence", "arousal", "dominance")
NRC_EMOTIONS: frozenset[str] = frozenset(
    {"anger", "anticipation", "disgust", "fear", "joy", "sadness", "surprise", "trust", "positive", "negative"}
)


class VadFile(NamedTuple):
    """What a VAD file holds: its format, and words with values in 0..1."""

    format: str  # "nrc-vad-1", "nrc-vad-2" or "warriner"
    words: dict[str, Vad]


def read_vad_file(path: Path) -> VadFile:
    """NRC VAD 1 (JSON or tab-separated), NRC VAD 2 (tab-separated, −1..1) or the Warriner norms (CSV, 1–9)."""
    text = _text(path)
    if text.lstrip().startswith("{"):
        return VadFile("nrc-vad-1", _vad_json(path, text))
    head = text[: text.find("\n")]
    if "\t" in head:
        rows = list(_tab_rows(path, text))
        if head.lower().startswith("term\t") or any(min(vad) < 0 for _, vad, _ in rows):
            return VadFile("nrc-vad-2", _scaled(path, rows, -1.0, 1.0))
        return VadFile("nrc-vad-1", _scaled(path, rows, 0.0, 1.0))
    if "V.Mean.Sum" in head:
        return VadFile("warriner", _scaled(path, _warriner_rows(path, text), 1.0, 9.0))
    raise _bad(path, 1, "not a VAD lexicon; expected NRC VAD (JSON or tab-separated) or the Warriner norms (CSV)")


def read_emotion_file(path: Path) -> dict[str, list[str]]:
    """NRC's emotion lexicon: JSON (word → emotions) or NRC's own text file (word, emotion, 0 or 1 a line)."""
    text = _text(path)
    words: dict[str, list[str]] = {}
    if text.lstrip().startswith("{"):
        for word, emotions in _json(path, text).items():
            if not isinstance(emotions, list) or not set(map(str, emotions)) <= NRC_EMOTIONS:
                raise _bad(
                    path, _line_of(text, word), f"{emotions!r} is not a list of {', '.join(sorted(NRC_EMOTIONS))}"
                )
            words[word] = emotions
    else:
        for line, row in enumerate(text.splitlines(), 1):
            fields = row.split("\t")
            if not row.strip():
                continue
            if len(fields) != 3 or fields[1] not in NRC_EMOTIONS or fields[2] not in ("0", "1"):
                raise _bad(path, line, f"expected word, emotion and 0 or 1, separated by tabs, not {row[:60]!r}")
            if fields[2] == "1":
                words.setdefault(fields[0], []).append(fields[1])
    if not words:
        raise _bad(path, 1, "no words in it")
    return words


_Row = tuple[str, Vad, int]  # word, values as written, line


def _tab_rows(path: Path, text: str) -> Iterator[_Row]:
    for line, row in enumerate(text.splitlines(), 1):
        fields = row.split("\t")
        if not row.strip() or (line == 1 and [field.strip().lower() for field in fields[1:]] == list(VAD_NAMES)):
            continue
        if len(fields) != 4:
            raise _bad(
                path, line, f"expected word, valence, arousal and dominance, separated by tabs, not {row[:60]!r}"
            )
        yield fields[0], _numbers(path, line, fields[1:]), line


def _warriner_rows(path: Path, text: str) -> Iterator[_Row]:
    lines = text.splitlines()
    columns = lines[0].split(",")
    try:
        word, *values = (columns.index(name) for name in ("Word", "V.Mean.Sum", "A.Mean.Sum", "D.Mean.Sum"))
    except ValueError as error:
        raise _bad(path, 1, f"the Warriner norms have a column that is missing here: {error}") from None
    last = max(word, *values) + 1
    for line, row in enumerate(lines[1:], 2):
        fields = row.split(",", last)
        if len(fields) < last:
            raise _bad(path, line, f"expected {len(columns)} columns, not {row[:60]!r}")
        yield fields[word].strip('"'), _numbers(path, line, [fields[i] for i in values]), line


def _scaled(path: Path, rows: Iterator[_Row] | list[_Row], low: float, high: float) -> dict[str, Vad]:
    words: dict[str, Vad] = {}
    for word, vad, line in rows:
        if not all(low <= value <= high for value in vad):
            raise _bad(path, line, f"{_outside(vad, low, high)} of {word!r} is outside {low:g}..{high:g}")
        v, a, d = ((value - low) / (high - low) for value in vad)
        words[word] = (v, a, d)
    if not words:
        raise _bad(path, 1, "no words in it")
    return words


def _vad_json(path: Path, text: str) -> dict[str, Vad]:
    words: dict[str, Vad] = {}
    for word, vad in _json(path, text).items():
        if not (isinstance(vad, list) and len(vad) == 3 and all(isinstance(value, float | int) for value in vad)):
            raise _bad(path, _line_of(text, word), f"expected [valence, arousal, dominance] of {word!r}, not {vad!r}")
        if not all(0.0 <= value <= 1.0 for value in vad):
            raise _bad(path, _line_of(text, word), f"{_outside(vad, 0.0, 1.0)} of {word!r} is outside 0..1")
        words[word] = (vad[0], vad[1], vad[2])
    if not words:
        raise _bad(path, 1, "no words in it")
    return words


def _numbers(path: Path, line: int, fields: list[str]) -> Vad:
    try:
        valence, arousal, dominance = map(float, fields)
    except ValueError:
        raise _bad(
            path, line, f"valence, arousal and dominance must be numbers, not {', '.join(fields)[:60]!r}"
        ) from None
    return valence, arousal, dominance


def _outside(vad: Vad | list[float], low: float, high: float) -> str:
    return next(f"{name} {value:g}" for name, value in zip(VAD_NAMES, vad) if not low <= value <= high)


def _json(path: Path, text: str) -> dict[str, Any]:
    try:
        return dict(json.loads(text))
    except json.JSONDecodeError as error:
        raise _bad(path, error.lineno, f"broken JSON: {error.msg}") from None


def _line_of(text: str, word: str) -> int:
    return text.count("\n", 0, text.find(json.dumps(word))) + 1


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        with open(path, "rb") as file:
            raise _bad(path, file.read(error.start).count(b"\n") + 1, f"not UTF-8 text ({error.reason})") from None


def _bad(path: Path, line: int, reason: str) -> DataError:
    return DataError(f"{path}:{line}: {reason}")
