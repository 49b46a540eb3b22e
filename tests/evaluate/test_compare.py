"""Runs side by side: never two signatures in one column without a word about it."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

from attune.emotion.taxonomy import EMOTIONS
from attune.errors import AttuneError, SettingsError
from attune.evaluate.compare import compare
from attune.evaluate.figures import confused_pairs
from attune.evaluate.intervals import Score
from attune.evaluate.scores import Scores
from attune.evaluate.signature import Signature
from attune.evaluate.tables import Footnotes, comparison, run_table


def run(system: str = "a", *, oracle: bool = False, confusion: bool = False, **told: object) -> Scores:
    counts = np.zeros((32, 32), dtype=int)
    counts[0, 30] = 7
    counts[1, 1] = 20
    numbers = {"emotion_accuracy": 33.3, "ppl_token": 36.0, "dist_1": 0.5} | {
        key: value for key, value in told.items() if isinstance(value, float)
    }
    fields = {key: value for key, value in told.items() if isinstance(value, str | int)}
    signature = Signature(**({"protocol": "listener-turns-v1", "split": "test", "n": 5259} | fields))  # type: ignore[arg-type]
    return Scores(
        system=system,
        signature=signature,
        metrics={name: Score(value, value - 0.1, value + 0.1) for name, value in numbers.items()},
        oracle=oracle,
        confusion=counts.tolist() if confusion else None,
    )


def saved(folder: Path, *runs: Scores) -> list[Path]:
    for one in runs:
        one.write(folder / one.title)
    return [folder / one.title for one in runs]


def test_runs_stand_in_rows_and_the_best_is_bold() -> None:
    table = comparison([run("a", ppl_token=36.0), run("b", ppl_token=35.0)])
    assert table.header == ["run", "accuracy", "PPL (token)", "dist-1"]
    assert table.rows[0][2] == "36.00 [35.90, 36.10]"
    assert table.rows[1][2] == "**35.00 [34.90, 35.10]**"
    assert table.notes == []


@pytest.mark.parametrize(
    ("field", "values", "refused", "allowed"),
    [
        ("vocabulary", ("train-10", "train-20"), "ppl_token", "dist_1"),
        ("text", ("raw", "normal-form"), "ppl_token", "emotion_accuracy"),
        ("decoding", ("greedy", "beam"), "dist_1", "ppl_token"),
        ("protocol", ("listener-turns-v1", "feedback-v1"), "emotion_accuracy", None),
        ("n", (5259, 2712), "dist_1", None),
        ("split", ("test", "valid"), "ppl_token", None),
    ],
)
def test_what_matters_to_a_metric_must_agree(
    field: str, values: tuple[str, str], refused: str, allowed: str | None
) -> None:
    runs = [run(name, **{field: value}) for name, value in zip("ab", values, strict=True)]
    with pytest.raises(
        SettingsError, match=f"{refused} of 'a' and 'b' may not share a column .{field}: {values[0]} ≠ {values[1]}"
    ):
        comparison(runs, [refused])
    if allowed:
        assert len(comparison(runs, [allowed]).rows) == 2


def test_seed_and_version_are_told_but_not_compared() -> None:
    assert comparison([run("a", seed=1, attune="0.1"), run("b", seed=2, attune="0.2")]).notes == []


def test_mixed_columns_are_marked_and_nothing_in_them_is_best() -> None:
    table = comparison([run("a", decoding="greedy"), run("b", decoding="beam", dist_1=0.9)], mix=True)
    assert [row[3] for row in table.rows] == ["0.50 [0.40, 0.60]ᵃ", "0.90 [0.80, 1.00]ᵇ"]
    assert table.notes == ["ᵃ decoding greedy", "ᵇ decoding beam"]
    assert "ᵃ" not in table.rows[0][1]


def test_one_way_of_measuring_has_one_mark_in_all_columns() -> None:
    ours = [run("a", decoding="greedy"), run("b", decoding="beam", vocabulary="train-9")]
    notes, columns = Footnotes(), {}
    for name in ("dist_1", "ppl_token", "dist_1"):
        columns[name] = list(notes.column(ours, name).values())
    assert columns == {"dist_1": ["ᵃ", "ᵇ"], "ppl_token": ["ᶜ", "ᵈ"]}
    assert len(notes.notes()) == 4


def test_an_oracles_figures_have_a_column_that_says_so() -> None:
    table = comparison([run("a"), run("b", oracle=True)], ["ppl_token"])
    assert table.header == ["run", "PPL (token)", "PPL (token) (oracle)"]
    assert [row[1:] for row in table.rows] == [["36.00 [35.90, 36.10]", "–"], ["–", "36.00 [35.90, 36.10]"]]


def test_the_table_of_one_run_shows_what_could_be_computed() -> None:
    one = run()
    one.metrics["ses"] = Score(None)
    table = run_table(one)
    assert [row[:4] for row in table.rows] == [
        ["emotion_accuracy", "33.30", "33.20", "33.40"],
        ["ppl_token", "36.00", "35.90", "36.10"],
        ["dist_1", "0.50", "0.40", "0.60"],
    ]


def test_markdown_holds_table_signatures_and_mistakes(tmp_path: Path) -> None:
    folders = saved(tmp_path, run("a", confusion=True), run("b"))
    compare(folders, tmp_path / "page.md")
    text = (tmp_path / "page.md").read_text()
    assert "| run | accuracy | PPL (token) | dist-1 |\n|---|---|---|---|\n| a | 33.30 [33.20, 33.40] |" in text
    assert f"- a: `{run('a').signature}`" in text
    assert f"- a: {EMOTIONS[0]} → {EMOTIONS[30]} (7)\n" in text


def test_html_stands_alone_and_holds_the_figures(tmp_path: Path) -> None:
    folders = saved(tmp_path, run("a", confusion=True), run("b<script>", confusion=True))
    compare(folders, tmp_path / "page.html")
    text = (tmp_path / "page.html").read_text()
    assert "<script>" not in text
    assert "b&lt;script&gt;" in text
    assert {link[:5] for link in re.findall(r"(?:src|href)=\"([^\"]*)", text) if not link.startswith("#")} <= {"data:"}
    figures = re.findall(r"<svg.*?</svg>", text, flags=re.DOTALL)
    assert len(figures) == 3
    for figure in figures:
        ElementTree.fromstring(figure)
    assert "predicted" in figures[1]
    assert "terrified" in figures[1]
    compare(folders, tmp_path / "again.html")
    assert (tmp_path / "again.html").read_text() == text


def test_nothing_is_written_when_columns_clash_or_the_kind_is_unknown(tmp_path: Path) -> None:
    folders = saved(tmp_path, run("a", n=1), run("b", n=2))
    with pytest.raises(AttuneError, match="may not share"):
        compare(folders, tmp_path / "page.md")
    with pytest.raises(AttuneError, match=r"--out writes \.md or \.html"):
        compare(folders[:1], tmp_path / "page.pdf")
    assert not list(tmp_path.glob("page*"))


def test_the_commonest_mistakes_come_first() -> None:
    assert confused_pairs(run(confusion=True)) == [(EMOTIONS[0], EMOTIONS[30], 7)]
    assert confused_pairs(run()) == []


def test_the_table_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    comparison([run("a", ppl_token=36.0), run("b", ppl_token=35.0)], ["ppl_token"]).print()
    out = capsys.readouterr().out
    assert "PPL (token)" in out
    assert "35.00 [34.90, 35.10]" in out
    assert "**" not in out


def test_a_table_too_wide_for_the_terminal_has_the_runs_as_columns(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    metrics = {"emotion_accuracy": 40.0, "ppl_token": 36.0, "dist_1": 0.5, "dist_2": 2.5, "avg_bleu": 6.0}
    table = comparison([run(name, **metrics) for name in ("first", "second")])
    table.print(may_turn=True)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["run", "first", "second"]
    assert [line.split()[0] for line in lines if "36.00 [35.90, 36.10]" in line] == ["PPL"]
    monkeypatch.setenv("COLUMNS", "400")
    table.print(may_turn=True)
    assert capsys.readouterr().out.splitlines()[1].startswith("first"), "where there is room, a run is a row"


def test_what_is_told_of_one_run_stays_a_line_for_each_metric(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    run_table(run("a", ppl_token=36.0)).print()
    assert capsys.readouterr().out.split()[:4] == ["metric", "value", "low", "high"]
