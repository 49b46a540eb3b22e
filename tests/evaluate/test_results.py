"""The papers' tables, and the results page that puts ours beside them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

import attune
from attune.errors import DataError
from attune.evaluate.intervals import Score
from attune.evaluate.papers import corpora, papers, rows
from attune.evaluate.results import Trained, fill, read_results, render, write_results
from attune.evaluate.scores import Scores
from attune.evaluate.signature import Signature

TREE = Path(attune.__file__).parents[1]


def scores(system: str, variant: str | None = None, **told: str | int) -> Scores:
    return Scores(
        system=system,
        variant=variant,
        signature=Signature(**({"protocol": "listener-turns-v1", "split": "test", "n": 5259, "oov": 1.25} | told)),  # type: ignore[arg-type]
        metrics={
            "emotion_accuracy": Score(35.5, 34.2, 36.8),
            "ppl_token": Score(36.25, 35.8, 36.7),
            "dist_2": Score(2.5),
        },
    )


def test_all_five_papers_are_there() -> None:
    assert sorted(papers()) == ["000", "001", "002", "003", "004"]
    assert {row.source for row in rows("listener-turns")} == {
        f"{place}" for place in ("000, Tab. 3", "001, Tab. 2", "001, Tab. 3", "001, Tab. 5")
    }
    assert corpora("one turn a dialogue") == ["ED", "OS", "EDOS"]


@pytest.mark.parametrize(
    ("task", "system", "figures"),
    [
        ("listener-turns", "EmoPrepend-1", {"emotion_accuracy": 33.59, "ppl": 35.66, "dist_1": 0.42, "dist_2": 1.62}),
        ("feedback", "EmpDG", {"emotion_accuracy": 34.31, "ppl_reply_macro": 34.18, "dist_1": 1.81, "dist_2": 6.94}),
        ("generative", "Fine-Tuned", {"ppl": 21.24, "avg_bleu": 6.27}),
        ("one turn a dialogue", "MEED2 (OS → ED)", {"ppl_bpe": 17.2, "dist_1": 3.6, "dist_2": 14.0, "ses": 0.299}),
    ],
)
def test_rows_are_as_printed(task: str, system: str, figures: dict[str, float]) -> None:
    row = next(row for row in rows(task) if row.system == system)
    assert figures.items() <= row.figures.items()


def test_shares_of_human_tests_add_up() -> None:
    for row in rows("human A/B"):
        assert sum(row.figures.values()) == pytest.approx(100, abs=0.11)
    for row in rows("human buckets"):
        assert sum(row.figures.values()) == pytest.approx(100, abs=0.02)


def test_every_published_row_says_what_differs() -> None:
    assert all(row.differs for row in rows())
    assert len({(row.source, row.corpus, row.system) for row in rows()}) == len(rows())


def test_our_rows_stand_beside_the_papers() -> None:
    page = render([("emoprepend", scores("emoprepend", "paper")), ("emoprepend-tuned", scores("emoprepend", "tuned"))])
    table = page.split("## ")[1]
    lines = table.splitlines()
    ours = [i for i, line in enumerate(lines) if line.startswith("| **emoprepend")]
    papers_ = [i for i, line in enumerate(lines) if line.startswith("| *EmoPrepend-1*")]
    assert [lines[i].split(" | ")[0] for i in ours] == ["| **emoprepend**", "| **emoprepend-tuned**"]
    assert papers_ == [ours[-1] + 1, ours[-1] + 2]
    assert "| **35.50** | **36.25** | – |" in lines[ours[0]]
    assert "1.25 % of test words unknown" in lines[ours[0]]
    assert "vocabulary over all splits" in lines[papers_[1]]


def test_a_published_perplexity_stands_under_its_estimator_and_oracles_apart() -> None:
    table = render([]).split("## ")[1]
    header, kemp, mime = (
        next(line for line in table.splitlines() if line.startswith(start)).strip("| ").split(" | ")
        for start in ("| system", "| *KEMP* |", "| *MIME* |")
    )
    assert kemp[header.index("PPL (mean of replies)")] == "36.89"
    assert mime[header.index("PPL (mean of replies)")] == "–"
    assert mime[header.index("PPL (mean of replies, oracle)")] == "37.09"


def test_our_oracles_stand_apart_too() -> None:
    page = render([("moel", replace(scores("moel"), oracle=True))])
    header, ours = (
        next(line for line in page.splitlines() if line.startswith(start)).strip("| ").split(" | ")
        for start in ("| system", "| **moel")
    )
    assert ours[header.index("PPL (token, oracle)")] == "**36.25**"
    assert ours[header.index("PPL (token)")] == "–"


def test_figures_taken_differently_are_marked() -> None:
    found = [("a", scores("transformer", decoding="greedy")), ("b", scores("emoprepend", decoding="beam"))]
    page = render(found)
    assert "**2.50**ᵃ" in page
    assert "**2.50**ᵇ" in page
    assert "\nᵃ decoding greedy" in page
    assert "**36.25**ᵃ" not in page


def test_each_run_has_intervals_signature_and_commands() -> None:
    page = render([("emoprepend-tuned", scores("emoprepend", "tuned"))])
    assert "| accuracy | 35.50 | 34.20 to 36.80 |" in page
    assert f"`{scores('emoprepend').signature}`" in page
    assert "attune train results/emoprepend-tuned/config.yaml --data DIR --out runs/emoprepend-tuned\n" in page
    assert "attune evaluate runs/emoprepend-tuned --data DIR --split test --variant tuned\n" in page


def test_trainings_before_a_run_come_first() -> None:
    name = "attune-deep"
    page = render(
        [(name, scores("attune", "deep"))], trained={name: Trained("Training: well.", ["attune train first"])}
    )
    assert "Training: well.\n\n```sh\nattune train first\nattune train results/attune-deep/config.yaml" in page


def test_results_of_other_splits_are_left_out(tmp_path: Path) -> None:
    scores("a").write(tmp_path / "a")
    scores("b", split="valid").write(tmp_path / "b-valid")
    assert [name for name, _ in read_results(tmp_path)] == ["a"]
    assert read_results(tmp_path / "none") == []


def test_the_page_and_the_readme_are_written(tmp_path: Path) -> None:
    scores("emoprepend").write(tmp_path / "results/emoprepend")
    readme = tmp_path / "README.md"
    readme.write_text("before\n<!-- results:begin -->\nold\n<!-- results:end -->\nafter\n")
    for _ in range(2):
        write_results(tmp_path / "results", tmp_path / "docs/RESULTS.md", readme)
    assert readme.read_text() == (
        "before\n<!-- results:begin -->\n| run | accuracy | PPL (token) | dist-2 |\n|---|---|---|---|\n"
        "| emoprepend | 35.50 | 36.25 | 2.50 |\n<!-- results:end -->\nafter\n"
    )
    assert (tmp_path / "docs/RESULTS.md").read_text() == render(read_results(tmp_path / "results"))


def test_a_readme_without_marks_is_left_alone_and_a_broken_one_refused(tmp_path: Path) -> None:
    readme = tmp_path / "README.md"
    readme.write_text("nothing here")
    write_results(tmp_path, tmp_path / "R.md", readme)
    assert readme.read_text() == "nothing here"
    with pytest.raises(DataError, match="expected '<!-- results:begin -->'"):
        fill("<!-- results:end --> <!-- results:begin -->", [])


def test_the_committed_page_and_readme_are_up_to_date(tmp_path: Path) -> None:
    """After a change in results/: attune results."""
    write_results(TREE / "results", tmp_path / "RESULTS.md")
    assert (TREE / "docs/RESULTS.md").read_bytes() == (tmp_path / "RESULTS.md").read_bytes()
    readme = (TREE / "README.md").read_text(encoding="utf-8")
    assert fill(readme, read_results(TREE / "results")) == readme
