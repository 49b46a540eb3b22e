from __future__ import annotations

import contextlib
import json
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from attune.emotion.lexicon_files import read_emotion_file, read_vad_file
from attune.errors import DataError


def write(folder: Path, text: str | bytes) -> Path:
    path = folder / "lexicon"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ('{"nice": [0.93, 0.442, 0.65]}', "nrc-vad-1"),
        ("Word\tValence\tArousal\tDominance\nnice\t0.93\t0.442\t0.65\n", "nrc-vad-1"),
        ("nice\t0.93\t0.442\t0.65\n", "nrc-vad-1"),
        ("term\tvalence\tarousal\tdominance\nnice\t0.86\t-0.116\t0.3\n", "nrc-vad-2"),
        ("term\tvalence\tarousal\tdominance\r\nnice\t0.86\t-0.116\t0.3\r\n", "nrc-vad-2"),
        ("Word,V.Mean.Sum,V.SD.Sum,A.Mean.Sum,D.Mean.Sum,X\nnice,8.44,1,4.536,6.2,0\n", "warriner"),
        (",Word,V.Mean.Sum,A.Mean.Sum,D.Mean.Sum\n1,nice,8.44,4.536,6.2\n", "warriner"),
    ],
)
def test_the_format_is_told_from_the_content_and_values_are_0_to_1(tmp_path: Path, text: str, kind: str) -> None:
    form, words = read_vad_file(write(tmp_path, text))
    assert form == kind
    assert words == {"nice": pytest.approx((0.93, 0.442, 0.65))}


@pytest.mark.parametrize(
    ("text", "line", "reason"),
    [
        ("", 1, "not a VAD lexicon"),
        ("# hello\n", 1, "not a VAD lexicon"),
        ("Word\tValence\tArousal\tDominance\n", 1, "no words"),
        ("nice\t0.9\t0.4\t0.6\nbad\t0.9\t0.4\n", 2, "expected word, valence, arousal and dominance"),
        ("nice\t0.9\t0.4\t0.6\nbad\t0.9\thigh\t0.6\n", 2, "must be numbers, not '0.9, high, 0.6'"),
        ("nice\t0.9\t0.4\t0.6\n\nbad\t0.9\t7\t0.6\n", 3, "arousal 7 of 'bad' is outside 0..1"),
        ("term\tvalence\tarousal\tdominance\nbad\t0.9\t0.6\t-1.5\n", 2, "dominance -1.5 of 'bad' is outside -1..1"),
        ("nice\t0.9\tnan\t0.6\n", 1, "arousal nan of 'nice' is outside 0..1"),
        ("Word,V.Mean.Sum,A.Mean.Sum,D.Mean.Sum\nbad,5,0.5,5\n", 2, "arousal 0.5 of 'bad' is outside 1..9"),
        ("Word,V.Mean.Sum,A.Mean.Sum,D.Mean.Sum\nbad,5\n", 2, "expected 4 columns"),
        ("Word,V.Mean.Sum,D.Mean.Sum\nbad,5,5\n", 1, "'A.Mean.Sum' is not in list"),
        ('{"nice": [0.9, 0.4, 0.6],\n "bad": [0.9, 0.4', 2, "broken JSON"),
        ('{"nice": [0.9, 0.4, 0.6],\n "bad": [0.9, 0.4]}', 2, "expected [valence, arousal, dominance] of 'bad'"),
        ('{"nice": [0.9, 0.4, 0.6],\n\n "bad": [0.9, 0.4, 2]}', 3, "dominance 2 of 'bad' is outside 0..1"),
        ("{}", 1, "no words"),
        (b"nice\t0.9\t0.4\t0.6\nb\xe4d\t0.9\t0.4\t0.6\n", 2, "not UTF-8"),
    ],
)
def test_a_corrupt_vad_file_is_named_with_line_and_reason(
    tmp_path: Path, text: str | bytes, line: int, reason: str
) -> None:
    path = write(tmp_path, text)
    with pytest.raises(DataError) as error:
        read_vad_file(path)
    assert str(error.value).startswith(f"{path}:{line}: ")
    assert reason in str(error.value)
    assert "\n" not in str(error.value)


def test_emotions_are_read_from_json_and_from_nrcs_own_file(tmp_path: Path) -> None:
    assert read_emotion_file(write(tmp_path, '{"abba": ["positive"]}')) == {"abba": ["positive"]}
    text = "aback\tanger\t0\nabandon\tfear\t1\nabandon\tjoy\t0\nabandon\tsadness\t1\n"
    assert read_emotion_file(write(tmp_path, text)) == {"abandon": ["fear", "sadness"]}


@pytest.mark.parametrize(
    ("text", "line", "reason"),
    [
        ('{"abba": ["positive"],\n "bad": ["glum"]}', 2, "['glum'] is not a list of anger"),
        ('{"abba": "positive"}', 1, "'positive' is not a list"),
        ("abandon\tfear\t1\nabandon\tfear\tyes\n", 2, "expected word, emotion and 0 or 1"),
        ("abandon\tfear\t0\n", 1, "no words"),
    ],
)
def test_a_corrupt_emotion_file_is_named_with_line_and_reason(
    tmp_path: Path, text: str, line: int, reason: str
) -> None:
    path = write(tmp_path, text)
    with pytest.raises(DataError) as error:
        read_emotion_file(path)
    assert str(error.value).startswith(f"{path}:{line}: ")
    assert reason in str(error.value)


word = st.text(st.characters(codec="utf-8", exclude_categories=["C", "Z"]), min_size=1, max_size=8)
value = st.floats(0, 1).map(lambda x: round(x, 6))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(words=st.dictionaries(word, st.tuples(value, value, value), min_size=1))
def test_any_words_come_back_the_same_from_every_format(
    tmp_path: Path, words: dict[str, tuple[float, float, float]]
) -> None:
    rows = "".join(f"{name}\t{v}\t{a}\t{d}\n" for name, (v, a, d) in words.items())
    scaled = "".join(f"{name}\t{2 * v - 1}\t{2 * a - 1}\t{2 * d - 1}\n" for name, (v, a, d) in words.items())
    for text in (
        json.dumps(words, indent=1),
        "Word\tValence\tArousal\tDominance\n" + rows,
        "term\tvalence\tarousal\tdominance\n" + scaled,
    ):
        found = read_vad_file(write(tmp_path, text)).words
        assert found.keys() == words.keys()
        for name, vad in words.items():
            assert found[name] == pytest.approx(vad, abs=1e-9)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(noise=st.binary(max_size=200))
def test_no_noise_makes_anything_but_a_clear_error(tmp_path: Path, noise: bytes) -> None:
    path = write(tmp_path, noise)
    for read in (read_vad_file, read_emotion_file):
        with contextlib.suppress(DataError):
            assert read(path)
