from __future__ import annotations

import gzip
import subprocess
import sys
import tracemalloc
from collections import defaultdict
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from attune.errors import DataError
from attune.knowledge import build as building
from attune.knowledge.build import Progress, build, default_index, open_index
from attune.knowledge.index import ConceptIndex, verify
from attune.knowledge.sources import SOURCES
from tests.knowledge.conftest import MakeIndex, conceptnet4

texts = st.text("abé ", min_size=1, max_size=3).filter(str.strip)
rows = st.tuples(st.sampled_from(["IsA", "Causes", "UsedFor"]), texts, texts, st.sampled_from([0.5, 1.0, 1.5]))


def content(index: ConceptIndex) -> dict[str, set[tuple[str, str, float, bool]]]:
    words = [index.concept(i) for i in range(len(index))]
    return {word: {(n.relation, n.concept, n.weight, n.forward) for n in index.neighbours(word)} for word in words}


def expected(lines: list[tuple[str, str, str, float]]) -> dict[str, set[tuple[str, str, float, bool]]]:
    best: dict[tuple[str, str, str], float] = defaultdict(float)
    for relation, head, tail, weight in lines:
        best[relation, head, tail] = max(best[relation, head, tail], weight)
    found: dict[str, set[tuple[str, str, float, bool]]] = defaultdict(set)
    for (relation, head, tail), weight in best.items():
        found[head].add((relation, tail, weight, True))
        if head != tail:
            found[tail].add((relation, head, weight, False))
    return dict(found)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=40, deadline=None)
@given(st.lists(rows, min_size=1, max_size=60), st.integers(1, 20), st.integers(1, 5), st.integers(1, 20))
def test_an_index_holds_the_rows_however_small_the_pieces_it_is_made_in(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    lines: list[tuple[str, str, str, float]],
    chunk: int,
    merged: int,
    partition: int,
) -> None:
    file = tmp_path / "file.tsv"
    file.write_text(conceptnet4(lines))
    whole = build("conceptnet4", tmp_path / "whole", file)
    with monkeypatch.context() as small:
        small.setattr(building, "CHUNK_ROWS", chunk)
        small.setattr(building, "MERGE_TEXTS", merged)
        small.setattr(building, "PARTITION_EDGES", partition)
        pieces = build("conceptnet4", tmp_path / "pieces", file)
    assert content(whole) == expected(lines)
    assert pieces.checksum == whole.checksum
    assert whole.meta["assertions"] == len({line[:3] for line in lines})
    verify(pieces.folder)


def test_a_file_in_many_blocks_is_spilled_in_many_chunks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = [("IsA", f"head {i % 700}", f"tail {i * 7 % 1009}", 0.5 + i % 3) for i in range(3_000)]
    file = tmp_path / "file.tsv.gz"
    file.write_bytes(gzip.compress(conceptnet4(lines).encode()))
    whole = build("conceptnet4", tmp_path / "whole", file)
    blocks = SOURCES["conceptnet4"].read.__globals__["text_blocks"]
    monkeypatch.setitem(SOURCES["conceptnet4"].read.__globals__, "text_blocks", lambda path: blocks(path, 3_000))
    monkeypatch.setattr(building, "CHUNK_ROWS", 250)
    monkeypatch.setattr(building, "MERGE_TEXTS", 300)
    monkeypatch.setattr(building, "PARTITION_EDGES", 500)
    stages: list[Progress] = []
    pieces = build("conceptnet4", tmp_path / "pieces", file, stages.append)
    assert pieces.checksum == whole.checksum
    assert content(pieces) == expected(lines)
    assert list(dict.fromkeys(at.stage for at in stages)) == ["reading", "merging", "sorting"]
    assert stages[-1].lines == 3_001
    assert all(0 <= at.share <= 1 for at in stages)


def test_a_failed_build_leaves_the_previous_index_in_use(make_index: MakeIndex, tmp_path: Path) -> None:
    index = make_index([("IsA", "panic", "fear", 1.0)])
    (tmp_path / "bad.tsv").write_text(conceptnet4([("IsA", "a", "b", 1.0)]) + "broken\n")
    with pytest.raises(DataError, match=":3: expected 6"):
        build("conceptnet4", index.folder, tmp_path / "bad.tsv")
    assert content(ConceptIndex(index.folder)) == content(index)
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]


def test_a_new_index_takes_the_place_of_an_open_one_without_disturbing_it(
    make_index: MakeIndex, tmp_path: Path
) -> None:
    old = make_index([("IsA", "panic", "fear", 1.0)])
    (tmp_path / "new.tsv").write_text(conceptnet4([("IsA", "joy", "feeling", 1.0)]))
    new = build("conceptnet4", old.folder, tmp_path / "new.tsv")
    assert [n.concept for n in new.neighbours("joy")] == ["feeling"]
    assert [n.concept for n in old.neighbours("panic")] == ["fear"]


def test_a_file_without_assertions_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("relation\thead\ttail\tscore\tfreq\tweight\n")
    with pytest.raises(DataError, match="no assertions for source 'conceptnet4' in 1 lines"):
        build("conceptnet4", tmp_path / "index", tmp_path / "file")
    assert not (tmp_path / "index").exists()


def test_the_same_file_makes_the_same_index(make_index: MakeIndex) -> None:
    lines = [("IsA", "panic", "fear", 1.0), ("Causes", "fear", "scream", 0.5)]
    assert make_index(lines).checksum == make_index(lines).checksum
    assert make_index(lines).checksum != make_index(lines[:1]).checksum


def test_too_many_relations_are_an_error_and_not_a_wrong_number(make_index: MakeIndex) -> None:
    with pytest.raises(DataError, match="more than 256 relations"):
        make_index([(f"R{i}", "a", "b", 1.0) for i in range(257)])


# -------------------------------------------------------------------------------------------- the default


@pytest.fixture
def small_default(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of its own, and a ConceptNet 4 of one line."""
    file = tmp_path / "small.tsv"
    file.write_text(conceptnet4([("IsA", "panic", "fear", 1.0)]))
    monkeypatch.setenv("ATTUNE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(building, "_opened", {})
    entry = replace(SOURCES["conceptnet4"], find=lambda: file)
    monkeypatch.setattr(SOURCES, "_entries", {**SOURCES._entries, "conceptnet4": entry})
    return file


def test_the_default_index_is_made_on_first_use_and_then_opened(small_default: Path) -> None:
    stages: list[Progress] = []
    first = default_index(stages.append)
    assert stages
    assert default_index() is first
    building._opened.clear()
    stages.clear()
    assert default_index(stages.append).checksum == first.checksum
    assert not stages
    assert open_index().checksum == first.checksum


def test_a_new_version_of_the_data_gets_a_new_default_index(small_default: Path) -> None:
    first = default_index()
    small_default.write_text(conceptnet4([("IsA", "joy", "feeling", 1.0)]))
    assert "joy" in default_index()
    assert "panic" in first


def test_a_damaged_default_index_is_made_again(small_default: Path) -> None:
    folder = default_index().folder
    (folder / "concepts.bin").write_bytes(b"")
    building._opened.clear()
    assert "panic" in default_index()
    verify(folder)


@pytest.mark.slow
def test_two_processes_may_ask_for_the_default_index_at_once(tmp_path: Path) -> None:
    code = (
        "from attune.knowledge.build import default_index; index = default_index(); "
        "print(len(index), index.meta['assertions'], len(index.neighbours('cancer')))"
    )
    environment = {"ATTUNE_CACHE": str(tmp_path), "PYTHONPATH": ":".join(filter(None, sys.path)), "PATH": ""}
    both = [
        subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, env=environment, text=True)
        for _ in range(2)
    ]
    said = [process.communicate(timeout=300)[0].split() for process in both]
    assert said[0] == said[1] == ["254374", "473437", "39"]


@pytest.mark.slow
def test_memory_does_not_grow_with_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With chunks of 10,000 rows, five times the concepts need no more memory; the benchmark measures real sizes."""
    for name in ("CHUNK_ROWS", "MERGE_TEXTS", "PARTITION_EDGES"):
        monkeypatch.setattr(building, name, 10_000)
    peaks = []
    for count in (40_000, 200_000):
        file = tmp_path / f"{count}.tsv.gz"
        with gzip.open(file, "wt", compresslevel=1) as lines:
            lines.writelines(f"IsA\tconcept number {i}\tanother one {i * 7}\t1\t5\t0.5\n" for i in range(count))
        tracemalloc.start()
        build("conceptnet4", tmp_path / "index", file)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 1.3 * peaks[0]
