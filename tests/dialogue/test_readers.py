from __future__ import annotations

import gzip
import json
import re
import tracemalloc
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attune.dialogue.formats.dailydialog import as_people_write
from attune.dialogue.formats.empathetic import COLUMNS
from attune.dialogue.formats.plain import to_json
from attune.dialogue.readers import READERS, detect, read, splits
from attune.dialogue.types import ROLES, Dialogue, ReadReport, Turn
from attune.errors import AttuneError, DataError, MissingError, SettingsError

HEADER = ",".join(COLUMNS)
# Text as a line of a file can hold it: something to see, no line ends, no halves of characters.
TEXT = (
    st.text(st.characters(exclude_categories=("Cs", "Cc", "Zl", "Zp")), min_size=1, max_size=30)
    .map(str.strip)
    .filter(bool)
)


def ed_row(id: str, index: int, speaker: int | str, text: str, emotion: str = "proud", situation: str = "s") -> str:
    return f"{id},{index},{emotion},{situation.replace(',', '_comma_')},{speaker},{text.replace(',', '_comma_')},,"


def written(folder: Path, name: str, *rows: str) -> Path:
    path = folder / name
    path.write_text("\n".join(rows) + "\n", encoding="utf-8")
    return path


def reported(path: Path, **how: str) -> tuple[list[Dialogue], list[str]]:
    """What is read, and the bad rows as `line: reason`."""
    report = ReadReport()
    found = list(read(path, report=report, **how))  # type: ignore[arg-type]
    assert report.dialogues == len(found)
    assert report.turns == sum(len(dialogue.turns) for dialogue in found)
    return found, [f"{row.line}: {row.reason}" for row in report.bad]


# EmpatheticDialogues


@pytest.mark.parametrize("reader", ["ed-csv", "ed-jsonl"])
def test_the_real_corpus_has_its_published_counts(ed_dir: Path, reader: str) -> None:
    counts = {}
    for split in ("train", "valid", "test"):
        report = ReadReport()
        roles = Counter(turn.role for d in read(ed_dir, split=split, reader=reader, report=report) for turn in d.turns)
        counts[split] = (report.dialogues, report.turns, roles["listener"], len(report.bad))
    assert counts == {
        "train": (19533, 84169, 40254, 0),
        "valid": (2770, 12078, 5738, 0),
        "test": (2547, 10973, 5259, 0),
    }


def test_csv_and_jsonl_of_the_real_corpus_say_the_same(ed_dir: Path) -> None:
    unlabelled = 0
    for one, other in zip(read(ed_dir, split="test"), read(ed_dir, split="test", reader="ed-jsonl"), strict=True):
        assert (one.id, one.emotion, one.situation) == (other.id, other.emotion, other.situation)
        assert [(t.role, t.text) for t in one.turns] == [(t.role, t.text) for t in other.turns]
        unlabelled += all(turn.label is None for turn in other.turns)
    assert unlabelled == 1


def test_csv_has_literal_quotes_and_commas_spelt_out(tmp_path: Path) -> None:
    rows = [ed_row("c1", i + 1, i, text, situation="a, b") for i, text in enumerate(['He said "hi, you"', '"'])]
    (dialogue,) = read(written(tmp_path, "a.csv", HEADER, *rows), strict=True)
    assert dialogue == Dialogue("c1", (Turn("speaker", 'He said "hi, you"'), Turn("listener", '"')), "proud", "a, b")


@pytest.mark.parametrize(("first", "second"), [(0, 1), (1, 0), (417, 22)])
def test_whoever_speaks_first_is_the_speaker_whatever_the_ids(tmp_path: Path, first: int, second: int) -> None:
    path = written(
        tmp_path, "a.csv", HEADER, ed_row("c", 1, first, "a"), ed_row("c", 2, second, "b"), ed_row("c", 3, first, "c")
    )
    assert [turn.role for d in read(path) for turn in d.turns] == ["speaker", "listener", "speaker"]


def test_a_ninth_column_of_candidates_a_byte_order_mark_and_windows_line_ends_do_no_harm(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(f"\ufeff{HEADER}\r\n{ed_row('c', 1, 0, 'Hello')},one|two\r\n\r\n".encode())
    assert [turn.text for d in read(path, strict=True) for turn in d.turns] == ["Hello"]


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ("c,2,proud,s,1,one,two,,,", "expected 8 columns, found 10"),
        ("c,2,proud,s,1,Hi", "expected 8 columns, found 6"),
        ("no commas at all", "expected 8 columns, found 1"),
        (ed_row("c", 2, "x", "Hi"), "expected a number as speaker_idx, found 'x'"),
        (ed_row("c", 2, 7, "Hi"), None),
        (ed_row("c", 1, 1, "Hi"), "expected utterance_idx 2 of 'c', found '1'"),
        (ed_row("c", 3, 1, "Hi"), "expected utterance_idx 2 of 'c', found '3'"),
        (ed_row("c", 2, 1, " "), "utterance 2 of 'c' is empty"),
        (ed_row("c", 2, 1, "Hi", emotion=""), "no emotion"),
        (ed_row("c", 2, 1, "Hi", emotion="sad"), "differs from the first row"),
    ],
)
def test_a_bad_row_is_named_and_its_dialogue_cut_there(tmp_path: Path, row: str, reason: str | None) -> None:
    rows = [HEADER, ed_row("c", 1, 0, "Hello"), row, ed_row("c", 3, 0, "Bye"), ed_row("d", 1, 0, "Whole")]
    path = written(tmp_path, "a.csv", *rows)
    found, bad = reported(path)
    if reason is None:
        assert [len(dialogue.turns) for dialogue in found] == [3, 1]
        assert bad == []
        return
    assert [[turn.text for turn in dialogue.turns] for dialogue in found] == [["Hello"], ["Whole"]]
    assert len(bad) == 1
    assert bad[0].startswith("3: ")
    assert reason in bad[0]
    assert "cut" in bad[0]
    with pytest.raises(DataError, match=rf"a\.csv:3: .*{reason[:12]}"):
        list(read(path, strict=True))


def test_a_third_person_is_a_bad_row(tmp_path: Path) -> None:
    path = written(tmp_path, "a.csv", HEADER, *(ed_row("c", i + 1, i, "Hi") for i in range(3)))
    assert "a third speaker_idx in 'c': 2" in reported(path)[1][0]


def test_a_row_broken_in_two_is_two_bad_rows_of_the_same_dialogue(tmp_path: Path) -> None:
    path = written(
        tmp_path, "a.csv", HEADER, ed_row("c", 1, 0, "Hi"), "c,2,proud,s,1,broken", "in two,,", ed_row("c", 3, 0, "x")
    )
    found, bad = reported(path)
    assert [len(dialogue.turns) for dialogue in found] == [1]
    assert [row[:2] for row in bad] == ["3:", "4:"]


@given(st.lists(st.lists(TEXT, min_size=1, max_size=4), min_size=1, max_size=4), TEXT)
def test_any_text_survives_the_csv(
    tmp_path_factory: pytest.TempPathFactory, texts: list[list[str]], situation: str
) -> None:
    texts = [[text for text in said if "_comma_" not in text] or ["x"] for said in texts]
    rows = [
        ed_row(f"c{i}", j + 1, j % 2, text, situation=situation)
        for i, said in enumerate(texts)
        for j, text in enumerate(said)
    ]
    found, bad = reported(written(tmp_path_factory.mktemp("csv"), "a.csv", HEADER, *rows))
    assert bad == []
    assert [[turn.text for turn in dialogue.turns] for dialogue in found] == texts
    assert {dialogue.situation for dialogue in found} == {situation.replace("_comma_", ",")}


# DailyDialog and Cornell


def test_dailydialog_alternates_and_has_its_own_labels(tmp_path: Path) -> None:
    written(tmp_path, "dialogues_emotion_train.txt", "0 4", "6")
    path = written(tmp_path, "dialogues_train.txt", "Hello . __eou__ Nice day ! __eou__", "What ? __eou__")
    assert splits(tmp_path) == {"train": path}
    first, second = read(tmp_path, split="train")
    assert first.turns == (Turn("speaker", "Hello.", "no emotion"), Turn("listener", "Nice day!", "happiness"))
    assert second.turns == (Turn("speaker", "What?", "surprise"),)


@given(
    st.lists(st.sampled_from(["Let ' s", "go", ",", ".", "?", "!", "9 . 5", "U.S.", "a.m .", "well.But", "...", "' s"]))
)
def test_dailydialog_turns_lose_nothing_but_spaces(words: list[str]) -> None:
    text = " ".join(words)
    shown = as_people_write(text)
    assert shown.replace(" ", "") == text.replace(" ", "")
    assert as_people_write(shown) == shown
    assert not re.search(r"\w [,.!?](?: |$)", shown)


def test_dailydialog_without_emotions_has_no_labels(tmp_path: Path) -> None:
    (dialogue,) = read(written(tmp_path, "talk.txt", "Hello . __eou__ Hi . __eou__"))
    assert [turn.label for turn in dialogue.turns] == [None, None]


@pytest.mark.parametrize(
    ("line", "emotions", "reason"),
    [
        ("a __eou__ b __eou__", "0", "2 turns, but 1 emotions"),
        ("a __eou__ b __eou__", "", "2 turns, but 0 emotions"),
        ("a __eou__ b __eou__", "0 9", "expected an emotion from 0 to 6 for turn 2, found '9'"),
        ("a __eou__ b", "0 0", "expected __eou__ after every turn, found 'b'"),
        ("a __eou__ __eou__", "0 0", "turn 2 is empty"),
    ],
)
def test_dailydialog_rows_that_do_not_fit_are_bad(tmp_path: Path, line: str, emotions: str, reason: str) -> None:
    written(tmp_path, "dialogues_emotion_test.txt", "0", emotions)
    path = written(tmp_path, "dialogues_test.txt", "fine __eou__", line)
    found, bad = reported(path)
    assert len(found) == len(bad) == 1
    assert reason in bad[0]


def test_real_dailydialog_has_its_published_counts(data_dir: Path) -> None:
    found = {
        split: sum(1 for _ in read(data_dir / "daily_dialog", split=split, strict=True))
        for split in ("train", "valid", "test")
    }
    assert found == {"train": 11118, "valid": 1000, "test": 1000}


def cornell(folder: Path, lines: list[tuple[str, str, str, str]], conversations: list[tuple[str, list[str]]]) -> Path:
    said = (f"{id} +++$+++ {who} +++$+++ {film} +++$+++ NAME +++$+++ {text}" for id, who, film, text in lines)
    written(folder, "movie_lines.txt", *said)
    return written(
        folder,
        "movie_conversations.txt",
        *(f"u0 +++$+++ u1 +++$+++ {film} +++$+++ {ids}" for film, ids in conversations),
    )


def test_cornell_joins_lines_of_one_character_and_the_first_is_the_speaker(tmp_path: Path) -> None:
    lines = [
        ("L1", "u5", "m0", "Hey."),
        ("L2", "u5", "m0", "You!"),
        ("L3", "u2", "m0", "Me?"),
        ("L4", "u2", "m1", "Bye."),
    ]
    path = cornell(tmp_path, lines, [("m0", ["L1", "L2", "L3"]), ("m1", ["L4"])])
    for start in (tmp_path, path, tmp_path / "movie_lines.txt"):
        first, second = read(start, strict=True)
        assert first == Dialogue("m0:1", (Turn("speaker", "Hey. You!"), Turn("listener", "Me?")))
        assert second.turns == (Turn("speaker", "Bye."),)


def test_cornell_finds_films_in_any_order_and_reads_windows_text(tmp_path: Path) -> None:
    lines = [(f"L{i}", "u1", f"m{i}", f"café {i}") for i in range(5)]
    cornell(tmp_path, lines, [(f"m{i}", [f"L{i}"]) for i in (3, 0, 4, 1)])
    spoken = tmp_path / "movie_lines.txt"
    spoken.write_bytes(spoken.read_text(encoding="utf-8").encode("cp1252"))
    assert [dialogue.turns[0].text for dialogue in read(tmp_path)] == ["café 3", "café 0", "café 4", "café 1"]


def test_cornell_cuts_at_lines_that_are_missing_or_empty(tmp_path: Path) -> None:
    lines = [
        ("L1", "u1", "m0", "One."),
        ("L2", "u2", "m0", ""),
        ("L3", "u3", "m0", "Three."),
        ("L4", "u2", "m0", "Four."),
    ]
    conversations = [("m0", ["L1", "L2"]), ("m0", ["L1", "L9"]), ("m0", ["L1", "L3", "L4"])]
    found, bad = reported(cornell(tmp_path, lines, conversations))
    assert [len(dialogue.turns) for dialogue in found] == [1, 1, 2]
    assert [row.partition(";")[0] for row in bad] == [
        "2: line L2 is empty",
        "2: line L9 is not in movie_lines.txt",
        "3: a third character, u2, in line L4",
    ]


def test_cornell_names_the_file_that_is_missing(tmp_path: Path) -> None:
    path = cornell(tmp_path, [("L1", "u1", "m0", "One.")], [("m0", ["L1"])])
    (tmp_path / "movie_lines.txt").unlink()
    with pytest.raises(MissingError, match=r"needs movie_lines\.txt"):
        list(read(path))


def test_real_cornell_is_read_and_its_empty_lines_are_reported(data_dir: Path) -> None:
    found, bad = reported(data_dir / "cornell_movie")
    assert len(found) > 62_000
    assert bad
    assert all("is empty; the dialogue is cut here" in row for row in bad)
    assert all(one.role != other.role for d in found for one, other in zip(d.turns, d.turns[1:], strict=False))


# JSON


DIALOGUES = st.builds(
    Dialogue,
    TEXT,
    st.lists(st.builds(Turn, st.sampled_from(ROLES), TEXT, st.none() | TEXT), min_size=1, max_size=4).map(tuple),
    st.none() | TEXT,
    st.none() | TEXT,
)


@given(st.lists(DIALOGUES, min_size=1, max_size=4))
def test_our_own_jsonl_gives_back_what_was_written(
    tmp_path_factory: pytest.TempPathFactory, dialogues: list[Dialogue]
) -> None:
    path = written(tmp_path_factory.mktemp("jsonl"), "a.jsonl", *map(to_json, dialogues))
    assert list(read(path, strict=True)) == dialogues


@given(
    st.lists(st.tuples(st.sampled_from(["user", "assistant", "system"]), TEXT), min_size=1, max_size=6),
    st.integers(0, 3),
)
def test_chat_messages_become_turns_in_every_shape(
    tmp_path_factory: pytest.TempPathFactory, said: list[tuple[str, str]], shape: int
) -> None:
    messages = [{"role": "user", "content": "Hi."}, *({"role": role, "content": text} for role, text in said)]
    path = tmp_path_factory.mktemp("chat") / "talk.json"
    value: object = messages if shape % 2 else {"messages": messages}
    path.write_text(json.dumps(value, indent=2 if shape < 2 else None), encoding="utf-8")
    (dialogue,) = read(path, strict=True)
    expected = [
        ("speaker", "Hi."),
        *(({"user": "speaker", "assistant": "listener"}[r], t) for r, t in said if r != "system"),
    ]
    assert [(turn.role, turn.text) for turn in dialogue.turns] == expected


def test_chat_lines_are_a_dialogue_each_and_bad_ones_are_reported(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        "talks.jsonl",
        '[{"role": "user", "content": "broken"',
        '[{"role": "user", "content": "Hi."}, {"role": "assistant", "content": "Hello."}]',
        '{"id": "x", "messages": [{"role": "user", "content": "Hi."}]}',
        '[{"role": "robot", "content": "Hi."}]',
        '[{"role": "user", "content": ["Hi."]}]',
        '[{"role": "system", "content": "Hi."}]',
        '["Hi."]',
        '{"messages": null}',
        '[{"role": "user", "content": "\\ud800"}]',
    )
    found, bad = reported(path)
    assert [dialogue.id for dialogue in found] == ["talks:2", "x"]
    reasons = [
        "not JSON",
        "found 'robot'",
        "expected text",
        "no message of a user",
        "with role and content",
        "list of messages",
        "half",
    ]
    assert [reason in row for reason, row in zip(reasons, bad, strict=True)] == [True] * len(reasons)


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ('{"turns": []}', "a list of turns"),
        ('{"turns": ["Hi"]}', "turn 1 of 'a:2': expected an object"),
        ('{"turns": [{"role": "user", "text": "Hi"}]}', "expected the role speaker or listener, found 'user'"),
        ('{"turns": [{"role": "speaker"}]}', "expected text"),
        ('{"turns": [{"role": "speaker", "text": "Hi", "label": 3}]}', "expected a label or null, found 3"),
        ('{"id": 3, "turns": [{"role": "speaker", "text": "Hi"}]}', "id: expected text, found '3'"),
        ('{"turns": [{"role": "speaker", "text": "Hi"}], "emotion": 5}', "emotion of 'a:2': expected text"),
        ("[" * 100_000, "not JSON that can be read"),
        ("null", "a list of turns"),
    ],
)
def test_bad_lines_of_our_own_jsonl_are_named(tmp_path: Path, row: str, reason: str) -> None:
    path = written(tmp_path, "a.jsonl", '{"turns": [{"role": "speaker", "text": "Hi"}]}', row)
    found, bad = reported(path)
    assert [dialogue.id for dialogue in found] == ["a:1"]
    assert reason in bad[0]


def test_a_label_of_content_is_not_taken_for_a_chat(tmp_path: Path) -> None:
    rows = {
        "ed-jsonl": '{"conv_id": "c", "context": "content", "utterances": [{"role": "speaker", "text": "x", "label": "content"}]}',
        "jsonl": '{"id": "c", "emotion": "content", "turns": [{"role": "speaker", "text": "x"}]}',
        "chat": '[{"content": "x", "role": "user"}]',
    }
    for name, row in rows.items():
        assert detect(written(tmp_path, "a", row)).name == name


# Files that are not what they should be


def test_an_unknown_format_lists_the_readers(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="begins with 'just some words'") as error:
        list(read(written(tmp_path, "a.txt", "just some words")))
    assert all(name in str(error.value) for name in READERS)


def test_wrong_columns_are_shown_beside_the_expected_ones(tmp_path: Path) -> None:
    for header in ("id,text", "conv_id,utterance_idx,text"):
        with pytest.raises(DataError, match=f"expected the columns {HEADER}; found {header}"):
            list(read(written(tmp_path, "a.csv", header, "1,x")))


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "is empty"),
        (b" \n\n", "is empty"),
        (b"\x89PNG\r\n\x1a\n\x00\x00", "binary file"),
        (f"{HEADER}\nc,1,proud,s,0,H\0i,,\n".encode(), "a.csv: expected text, found a binary file"),
        (f"{HEADER}\nc,1,proud,s,0,caf\xe9,,\n".encode("latin-1"), "a.csv:2: expected UTF-8 text, found byte 0xe9"),
        (f"{HEADER}\n".encode(), "holds no dialogue"),
        (
            f"{HEADER}\nc,2,proud,s,0,Hi,,\nx\n".encode(),
            "holds no dialogue .* the first of 2 bad rows: .*a.csv:2: expected utt",
        ),
        (gzip.compress(HEADER.encode() * 90, mtime=0)[:-20], "cannot be read"),
    ],
)
def test_files_that_are_no_corpus_are_refused_by_name(tmp_path: Path, content: bytes, reason: str) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(content)
    with pytest.raises(AttuneError, match=reason) as error:
        list(read(path))
    assert "a.csv" in str(error.value)
    assert "\n" not in str(error.value)


def test_paths_and_options_that_are_wrong_are_named(tmp_path: Path, dialogues: list[Dialogue]) -> None:
    path = written(tmp_path, "train.jsonl", *map(to_json, dialogues))
    with pytest.raises(MissingError, match="no file at"):
        list(read(tmp_path / "nothing.csv"))
    with pytest.raises(SettingsError, match="unknown split 'trian'; did you mean 'train'"):
        list(read(tmp_path, split="trian"))
    with pytest.raises(SettingsError, match="a split can only be picked from a corpus folder"):
        list(read(path, split="train"))
    with pytest.raises(SettingsError, match="unknown reader 'jsnol'; did you mean 'jsonl'"):
        list(read(path, reader="jsnol"))
    with pytest.raises(DataError, match="holds no corpus for the reader 'ed-csv'"):
        list(read(tmp_path, reader="ed-csv"))
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match=r"holds no corpus; expected train\.csv"):
        splits(tmp_path / "empty")
    with pytest.raises(MissingError, match="no corpus folder"):
        splits(path)


def test_a_folder_with_csv_and_jsonl_is_read_once_csv_first(tmp_path: Path, dialogues: list[Dialogue]) -> None:
    written(tmp_path, "train.csv", HEADER, ed_row("csv", 1, 0, "Hi"))
    written(tmp_path, "train.jsonl", *map(to_json, dialogues))
    with gzip.open(tmp_path / "dev.jsonl.gz", "wt") as file:
        file.write(to_json(dialogues[0]))
    assert {split: path.name for split, path in splits(tmp_path).items()} == {
        "train": "train.csv",
        "valid": "dev.jsonl.gz",
    }
    assert [dialogue.id for dialogue in read(tmp_path)] == ["csv", "d1"]
    assert [dialogue.id for dialogue in read(tmp_path, split="train", reader="jsonl")] == ["d1", "d2", "d3", "d4"]


@pytest.mark.parametrize(
    "start", [HEADER + "\n", '[{"role": "user", "content": "', "no corpus", '{"turns": [', "L1 +++$+++ "]
)
def test_a_line_of_100_mb_is_refused_at_once(tmp_path: Path, start: str) -> None:
    path = tmp_path / "movie_lines.txt"
    (tmp_path / "movie_conversations.txt").write_text("u0 +++$+++ u1 +++$+++ m0 +++$+++ ['L1']\n")
    with path.open("wb") as file:
        file.write(start.encode())
        for _ in range(100):
            file.write(b"a" * 1_000_000)
    tracemalloc.start()
    try:
        with pytest.raises(DataError, match=r"a line of more than 1,000,000 bytes|no reader knows"):
            list(read(path))
        assert tracemalloc.get_traced_memory()[1] < 10_000_000
    finally:
        tracemalloc.stop()


def big_files(folder: Path) -> Iterator[Path]:
    text = "word " * 300
    yield written(folder, "big.csv", HEADER, *(ed_row(f"c{i}", j + 1, j, text) for i in range(4000) for j in (0, 1)))
    turns = [{"role": "speaker", "text": text}, {"role": "listener", "text": text}]
    yield written(folder, "big.jsonl", *(json.dumps({"id": f"c{i}", "turns": turns}) for i in range(4000)))
    lines = [(f"L{i}", f"u{i % 2}", f"m{i // 20}", text) for i in range(8000)]
    yield cornell(folder, lines, [(f"m{i // 20}", [f"L{i}", f"L{i + 1}"]) for i in range(0, 8000, 2)])
    yield written(folder, "dialogues_big.txt", *(f"{text} __eou__ {text} __eou__" for _ in range(4000)))


def test_memory_does_not_grow_with_the_file(tmp_path: Path) -> None:
    for path in big_files(tmp_path):
        tracemalloc.start()
        try:
            assert sum(1 for _ in read(path, strict=True)) == 4000
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        assert peak < 2_500_000, f"{path.name}: {peak} bytes for a file of {path.stat().st_size}"
