from __future__ import annotations

import gzip
import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from attune.errors import DataError, MissingError, SettingsError
from attune.knowledge.build import build
from attune.knowledge.sources import SOURCES, Assertion, Rows, Source, add


def assertion(start: str, relation: str, end: str, weight: object = 1.0, **more: object) -> str:
    """A line of ConceptNet 5's file; `start` and `end` come after /c/."""
    extra = json.dumps({"dataset": "/d/test", "sources": [{"contributor": "/s/x"}], "weight": weight, **more})
    return f"/a/[/r/{relation}/,/c/{start}/,/c/{end}/]\t/r/{relation}\t/c/{start}\t/c/{end}\t{extra}\n"


def rows_of(source: str, path: Path) -> list[Assertion]:
    return [row for rows in SOURCES[source].read(path) for row in rows]


def written(path: Path, *lines: str) -> Path:
    path.write_text("".join(lines), encoding="utf-8")
    return path


# ---------------------------------------------------------------------------------------------- confidence


def test_the_papers_example_scales_as_printed() -> None:
    assert round(float(SOURCES["conceptnet5"].scaled(3.464)), 3) == 0.274


@pytest.mark.parametrize(("weight", "scaled"), [(0.5, 0.0), (1.0, 0.0), (1.9, 0.1), (10.0, 1.0), (22.9, 1.0)])
def test_conceptnet_5_scales_between_1_and_10_and_clips(weight: float, scaled: float) -> None:
    assert float(SOURCES["conceptnet5"].scaled(np.float32(weight))) == scaled


@pytest.mark.parametrize(("weight", "scaled"), [(0.0, 0.0), (0.5, 0.25), (2.0, 1.0), (3.7, 1.0)])
def test_conceptnet_4_halves_weights_up_to_2(weight: float, scaled: float) -> None:
    assert float(SOURCES["conceptnet4"].scaled(weight)) == scaled


# ------------------------------------------------------------------------------------------- ConceptNet 5


def test_of_conceptnet_5_only_english_to_english_is_kept(tmp_path: Path) -> None:
    path = written(
        tmp_path / "file",
        assertion("en/loneliness", "CausesDesire", "en/socialize", 3.464),
        assertion("fr/chat", "Synonym", "en/cat"),
        assertion("en/cat", "Synonym", "fr/chat"),
        assertion("de/katze", "IsA", "de/tier"),
        assertion("enm/cat", "IsA", "en/animal"),
    )
    assert rows_of("conceptnet5", path) == [(b"CausesDesire", b"loneliness", b"socialize", 3.464)]


def test_parts_of_speech_and_senses_are_left_out_and_words_are_spaced(tmp_path: Path) -> None:
    path = written(
        tmp_path / "file", assertion("en/act_up/v/wn/communication", "dbpedia/genre", "en/blood_cell/n", 2.0)
    )
    assert rows_of("conceptnet5", path) == [(b"dbpedia/genre", b"act up", b"blood cell", 2.0)]


def test_a_weight_need_not_come_last(tmp_path: Path) -> None:
    extra = '{"weight": 2.5, "surfaceText": "a text that is longer than the end of the line"}'
    path = written(
        tmp_path / "file",
        f"/a/x\t/r/IsA\t/c/en/cat\t/c/en/animal\t{extra}\n",
        assertion("en/dog", "IsA", "en/animal", 3.4641016151377544),
    )
    assert [row[3] for row in rows_of("conceptnet5", path)] == [2.5, 3.4641016151377544]


words = st.text("abcdefghijé", min_size=1, max_size=6)
nodes = st.builds(
    lambda language, some, sense: f"{language}/{'_'.join(some)}{sense}",
    st.sampled_from(["en", "en", "en", "fr", "enm", "e"]),
    st.lists(words, min_size=1, max_size=3),
    st.sampled_from(["", "/n", "/v/wn/body"]),
)
weights = st.floats(0.1, 30).map(lambda weight: round(weight, 3))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
@given(
    st.lists(
        st.tuples(nodes, st.sampled_from(["IsA", "Synonym", "EtymologicallyDerivedFrom"]), nodes, weights), max_size=30
    )
)
def test_conceptnet_5_is_read_as_one_would_line_by_line(
    tmp_path: Path, lines: list[tuple[str, str, str, float]]
) -> None:
    path = written(tmp_path / "file", *(assertion(*line) for line in lines), assertion("en/a", "IsA", "en/b"))
    expected = []
    for start, relation, end, weight in [*lines, ("en/a", "IsA", "en/b", 1.0)]:
        if start.split("/")[0] == end.split("/")[0] == "en":
            head, tail = (node.split("/")[1].replace("_", " ").encode() for node in (start, end))
            expected.append((relation.encode(), head, tail, weight))
    assert rows_of("conceptnet5", path) == expected


GOOD = assertion("en/cat", "IsA", "en/animal")


@pytest.mark.parametrize(
    ("bad", "expected"),
    [
        ("no tabs at all\n", "5 tab-separated fields"),
        ("/a/x\t/r/IsA\t/c/en/cat\t/c/en/animal\n", "5 tab-separated fields"),
        (GOOD.replace("\t/c/en/cat", "\t/c/en/cat\t"), "5 tab-separated fields"),
        (GOOD.replace("cat", "c\x01t"), "5 tab-separated fields"),
        (assertion("en/cat", "IsA", "en/animal", "much"), "a number"),
        (GOOD.replace('"weight"', '"height"'), "a number"),
        (GOOD.replace("/c/en/cat", "/c/en//n"), "a start of 1 to"),
    ],
)
def test_a_bad_line_of_conceptnet_5_is_named_by_its_number(tmp_path: Path, bad: str, expected: str) -> None:
    path = written(tmp_path / "file", GOOD * 41, bad, GOOD)
    with pytest.raises(DataError, match=rf":42: expected {expected}"):
        rows_of("conceptnet5", path)


def test_a_concept_that_is_not_utf_8_is_named_by_its_line(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(GOOD.encode() * 3 + GOOD.encode().replace(b"animal", b"anim\xffl") + GOOD.encode())
    with pytest.raises(DataError, match=":4: expected UTF-8"):
        rows_of("conceptnet5", path)


def test_a_plain_file_whose_last_line_is_cut_is_noticed(tmp_path: Path) -> None:
    path = written(tmp_path / "file", GOOD, GOOD[: len(GOOD) // 3])
    with pytest.raises(DataError, match=":2: "):
        rows_of("conceptnet5", path)


def test_conceptnet_5_has_to_be_brought_and_the_error_says_how() -> None:
    with pytest.raises(MissingError, match=r"--file.*conceptnet4"):
        SOURCES["conceptnet5"].find()


# ------------------------------------------------------------------------------------------- ConceptNet 4


def test_of_conceptnet_4_negated_assertions_are_left_out(tmp_path: Path) -> None:
    path = written(
        tmp_path / "file",
        "relation\thead\ttail\tscore\tfreq\tweight\n",
        "IsA\tcancer\tdisease\t10\t5\t1.7297\n",
        "CapableOf\tCat\tfly\t1\t-5\t-0.5000\n",
        "HasProperty\tCat\tFurry Pet\t1\t5\t0.5000\n",
    )
    assert rows_of("conceptnet4", path) == [
        (b"IsA", b"cancer", b"disease", 1.7297),
        (b"HasProperty", b"cat", b"furry pet", 0.5),
    ]


@pytest.mark.parametrize("bad", ["IsA\tcancer\tdisease\n", "IsA\tcancer\tdisease\t1\tfive\t0.5\n"])
def test_a_bad_line_of_conceptnet_4_is_named_by_its_number(tmp_path: Path, bad: str) -> None:
    path = written(tmp_path / "file", "IsA\ta\tb\t1\t5\t0.5\n", bad)
    with pytest.raises(DataError, match=":2: expected 6 tab-separated fields"):
        rows_of("conceptnet4", path)


def test_the_shipped_conceptnet_4_is_whole_small_and_has_its_notice() -> None:
    path = SOURCES["conceptnet4"].find()
    assert path.stat().st_size < 5_000_000
    notice = (path.parent / "NOTICE.md").read_text()
    assert "CC BY-SA" in notice
    assert "Open Mind Common Sense" in notice


@pytest.mark.slow
def test_the_shipped_conceptnet_4_is_the_original_in_another_order(data_dir: Path) -> None:
    theirs, ours = (
        sorted(rows_of("conceptnet4", path))
        for path in (data_dir / "conceptnet4" / "conceptnet4_en.tsv.gz", SOURCES["conceptnet4"].find())
    )
    assert ours == theirs


# ---------------------------------------------------------------------------------------------- SenticNet


def test_senticnet_relates_a_concept_to_others_but_not_to_itself(tmp_path: Path) -> None:
    path = written(
        tmp_path / "file.csv",
        "CONCEPT,INTROSPECTION,SEMANTICS\n",
        'aah,-0.576,"[\'weep\', \'cry_eye_out\', ""o\'clock""]"\n',
        "abaddon,-0.9,\"['abaddon', 'abaddon']\"\n",
    )
    assert rows_of("senticnet", path) == [
        (b"RelatedTo", b"aah", b"weep", 0.5),
        (b"RelatedTo", b"aah", b"cry eye out", 0.5),
        (b"RelatedTo", b"aah", b"o'clock", 0.5),
    ]
    assert float(SOURCES["senticnet"].scaled(0.5)) == 0.5


@pytest.mark.parametrize(
    ("lines", "expected"),
    [(["a,b,c\n"], ":1: expected a header"), (["CONCEPT,SEMANTICS\n", "aah\n"], ":2: expected at least 2 fields")],
)
def test_a_bad_line_of_senticnet_is_named(tmp_path: Path, lines: list[str], expected: str) -> None:
    with pytest.raises(DataError, match=expected):
        rows_of("senticnet", written(tmp_path / "file.csv", *lines))


# ----------------------------------------------------------------------------------------------- registry


def test_a_new_source_is_one_function_and_one_registration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SOURCES, "_entries", dict(SOURCES._entries))
    rows = Rows.of([(b"IsA", b"panic", b"fear", 3.0)], lines=1, consumed=0)
    add(Source("mine", "CC0", 0.0, 4.0, lambda path: iter([rows]), lambda: written(tmp_path / "mine", "x")))
    index = build("mine", tmp_path / "index")
    assert [(n.relation, n.concept, n.scaled) for n in index.neighbours("panic")] == [("IsA", "fear", 0.75)]


def test_an_unknown_source_gets_the_nearest_name() -> None:
    with pytest.raises(SettingsError, match="did you mean 'conceptnet5'"):
        SOURCES["conceptnet55"]


def test_gzip_is_unpacked_while_reading(tmp_path: Path) -> None:
    (tmp_path / "file.gz").write_bytes(gzip.compress(GOOD.encode()))
    assert rows_of("conceptnet5", tmp_path / "file.gz") == [(b"IsA", b"cat", b"animal", 1.0)]
