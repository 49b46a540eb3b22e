"""`docs/RESULTS.md` from `results/*/scores.json`: our rows beside the papers', and how each of ours is made again."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from attune.errors import DataError
from attune.evaluate.ablations import Trial, read_trials, trial_table
from attune.evaluate.intervals import Score
from attune.evaluate.metrics import METRICS, in_order
from attune.evaluate.papers import PaperRow, corpora, papers, rows
from attune.evaluate.scores import BASE_VARIANTS, SCORES, Scores
from attune.evaluate.sweeps import SEED, Point, seed_table, sweep_table, sweeps
from attune.evaluate.tables import Footnotes, Table, cell, comparison
from attune.evaluate.trainings import earlier_commands, how_trained
from attune.files import atomic_write

BEGIN, END = "<!-- results:begin -->", "<!-- results:end -->"
MAIN = (
    "accuracy",
    "emotion_accuracy",
    "ppl_token",
    "ppl_reply_macro",
    "ppl_gpt2_token",
    "dist_1",
    "dist_2",
    "avg_bleu",
    "ses",
)
CONCEPTS = ("model.concepts_per_dialogue", "kemp")  # the setting and the system of seed 001's Figure 5
SWEPT = ("emotion_accuracy", "ppl_token", "dist_1", "dist_2")
_TITLES = {"ppl": "PPL (kind not said)", "ppl_bpe": "PPL (sub-word)", "p_at_1_100": "P@1,100"}
_HUMAN = ("empathy", "relevance", "fluency")
_COLUMNS = (
    "accuracy", "emotion_accuracy", "ppl_token", "ppl_reply_macro", "ppl", "ppl_bpe", "ppl_gpt2_token", "dist_1", "dist_2", "p_at_1_100", "avg_bleu", "ses",
    "precision", "recall", "f1", *_HUMAN, "win", "loss", "tie", "good", "okay", "bad",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Task:
    title: str
    protocol: str | None = None  # whose results of ours stand here
    runs: frozenset[str] | None = None  # … and only of these systems or runs


_TASKS = {
    "listener-turns": _Task("Every listener turn of EmpatheticDialogues", "listener-turns"),
    "feedback": _Task("EmpDG's test set (004): listener turns with feedback", "feedback"),
    "generative": _Task(
        "Generative systems of EmpatheticDialogues (003)",
        "listener-turns",
        frozenset({"ed-generative", "emoprepend-prepend-1", "emoprepend-topicprepend-1"}),
    ),
    "retrieval": _Task("Retrieval systems of EmpatheticDialogues (003)"),
    "labels": _Task("The label of an utterance, one of 41 (002)", "labelled-turns"),
    "one turn a dialogue": _Task("MEED2 (002): one turn a dialogue"),
    "response emotion": _Task("MEED2 (002): the emotion or intent of the response"),
    "validation": _Task("MEED2 (002): validation"),
    "human ratings": _Task("Human ratings, 1 to 5"),
    "human A/B": _Task("Human A/B tests"),
    "human buckets": _Task("Human ratings, good to bad"),
}

_INTRO = """# Results

Written by `attune results` from `results/*/scores.json`; do not edit. `python benchmarks/tables.py` trains and scores the rows that are missing.

Rows in **bold** are ours: one training, scored once on the test split. Rows in *italics* are printed in the papers ({papers}); the last
column says why such a figure cannot be compared with ours just so. Percentages throughout; 95 % intervals and signatures stand under
[Each run](#each-run). A perplexity stands in the column of the estimator that its code used. Figures that need an oracle stand in a
column that says so. A mark on a figure of ours (ᵃ, ᵇ, …) means that it was taken in another way than others of its column.
"""


def read_results(folder: str | Path) -> list[tuple[str, Scores]]:
    """All results folders on the test split, by name."""
    found = [(path.parent.name, Scores.read(path.parent)) for path in sorted(Path(folder).glob(f"*/{SCORES}"))]
    return [(name, scores) for name, scores in found if scores.signature.split == "test"]


@dataclass(frozen=True, slots=True)
class Trained:
    """How a run was trained, and the commands of the trainings before its own."""

    how: str = ""
    earlier: Sequence[str] = ()


def trainings(folder: str | Path) -> dict[str, Trained]:
    """How each run was trained, by the name of its results folder."""
    folders = [path.parent for path in sorted(Path(folder).glob(f"*/{SCORES}"))]
    return {one.name: Trained(how_trained(one), earlier_commands(one, one.name)) for one in folders}


def write_results(
    results: str | Path = "results", out: str | Path = "docs/RESULTS.md", readme: str | Path | None = None
) -> None:
    """Write the page, and the short table in a README between its two marks."""
    found = read_results(results)
    with atomic_write(Path(out)) as file:
        file.write(
            render(
                found,
                sweeps(results, *CONCEPTS),
                read_trials(results),
                trainings(results),
                by_seed=sweeps(results, SEED),
            )
        )
    if readme is not None and Path(readme).is_file():
        text = Path(readme).read_text(encoding="utf-8")
        if BEGIN in text or END in text:
            new = fill(text, found)
            with atomic_write(Path(readme)) as file:
                file.write(new)


def render(
    found: Sequence[tuple[str, Scores]],
    by_concepts: Sequence[Sequence[Point]] = (),
    trials: Sequence[Sequence[Trial]] = (),
    trained: Mapping[str, Trained] | None = None,
    *,
    by_seed: Sequence[Sequence[Point]] = (),
) -> str:
    """The whole page. `by_concepts` are runs that differ in the number of concepts alone, `by_seed` in the seed alone, `trials`
    short trainings; `trained` says how each run was.
    """
    scores = [one for _, one in found]
    parts = [_INTRO.format(papers="; ".join(f"{seed} {paper}" for seed, paper in papers().items()))]
    for task, about in _TASKS.items():
        ours = [
            one
            for one in scores
            if one.protocol == about.protocol and (about.runs is None or about.runs & {one.system, one.title})
        ]
        parts.append(f"## {about.title}\n")
        for corpus in (places := corpora(task)):
            if len(places) > 1:
                parts.append(f"### On {corpus}\n")
            published = [row for row in _published(task) if row.corpus == corpus]
            parts.append(_task_table(published, ours if corpus == places[0] else []).markdown())
    if by_concepts:
        parts.append("## Accuracy against the number of concepts (001, Fig. 5)\n")
        parts += [sweep_table(group, CONCEPTS[0], SWEPT).markdown() for group in by_concepts]
    if by_seed:
        parts.append("## Several seeds (mean ± standard deviation)\n")
        parts.append(seed_table(by_seed, MAIN).markdown())
    if trials:
        parts.append("## What each part is worth (validation, short trainings)\n")
        parts += [f"### {group[0].system}\n\n{trial_table(group).markdown()}" for group in trials]
    parts.append("## Each run\n")
    parts += [_run(name, one, (trained or {}).get(name, Trained())) for name, one in found] or [
        "No run has been scored yet.\n"
    ]
    parts.append("## What the metrics are\n")
    parts.append(
        "".join(f"- **{METRICS[name].title}** (`{name}`): {METRICS[name].about}.\n" for name in in_order(METRICS))
    )
    return "\n".join(part.rstrip("\n") + "\n" for part in parts)


def fill(readme: str, found: Sequence[tuple[str, Scores]]) -> str:
    """A README with our main figures between its marks.

    >>> fill("a\\n<!-- results:begin -->old<!-- results:end -->\\nb", [])
    'a\\n<!-- results:begin -->\\n<!-- results:end -->\\nb'
    """
    before, begin, rest = readme.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise DataError(f"README: expected '{BEGIN}' and then '{END}'")
    scores = [one for _, one in found if one.protocol == "listener-turns"]
    table = comparison(scores, MAIN, mix=True, interval=False).markdown().rstrip("\n") + "\n" if scores else ""
    return f"{before}{BEGIN}\n{table}{END}{after}"


def _published(task: str) -> list[PaperRow]:
    """The published rows of a task. Human ratings stand together, wherever a paper printed them."""
    if task == "human ratings":
        return [
            replace(row, figures=_only(row, _HUMAN), differs=row.raters) for row in rows() if "empathy" in row.figures
        ]
    return [replace(row, figures=_only(row, set(row.figures) - set(_HUMAN))) for row in rows(task)]


def _only(row: PaperRow, names: Collection[str]) -> dict[str, float]:
    return {name: value for name, value in row.figures.items() if name in names}


def _task_table(published: Sequence[PaperRow], ours: Sequence[Scores]) -> Table:
    figures = [_figures(row) for row in published]
    measured = [name for name in MAIN if any(one.value(name) is not None for one in ours)]
    told = (
        {name for one in figures for name in one}
        | set(measured)
        | {f"{m} (oracle)" for m in measured if _oracle(ours, m)}
    )
    names = [name for base in _COLUMNS for name in (base, f"{base} (oracle)") if name in told]
    footnotes = Footnotes()
    marked = {name: footnotes.column(ours, name) for name in measured}
    order = list(dict.fromkeys(row.ours for row in published if row.ours))
    order += sorted({one.system for one in ours} - set(order))
    lines: list[list[str]] = []
    for system in [*order, None]:
        for one in ours:
            if one.system == system:
                cells = [_own_cell(one, name, marked.get(name, {})) for name in names]
                lines.append([f"**{one.title}**", "Attune", *cells, _how(one)])
        for row, said in zip(published, figures, strict=True):
            if row.ours == system:
                cells = [f"{said[name]:.{3 if name == 'ses' else 2}f}" if name in said else "–" for name in names]
                lines.append([f"*{row.system}*", row.source, *cells, row.differs])
    return Table(["system", "source", *map(_title, names), "how it was taken, what differs"], lines, footnotes.notes())


def _figures(row: PaperRow) -> dict[str, float]:
    """A row's figures; a perplexity that saw gold labels goes into a column of its own."""
    return {
        f"{name} (oracle)" if row.oracle and name.startswith("ppl") else name: value
        for name, value in row.figures.items()
    }


def _oracle(ours: Sequence[Scores], metric: str) -> bool:
    return any(one.oracle and one.value(metric) is not None for one in ours)


def _title(name: str) -> str:
    base = name.removesuffix(" (oracle)")
    title = METRICS[base].title if base in METRICS else _TITLES.get(base, base)
    if name == base:
        return title
    return f"{title[:-1]}, oracle)" if title.endswith(")") else f"{title} (oracle)"


def _own_cell(one: Scores, name: str, mark: dict[str, str]) -> str:
    """Our figure in a column; one that needs an oracle only in the oracle's column."""
    base = name.removesuffix(" (oracle)")
    if one.oracle != (name != base):
        return "–"
    text = cell(one.metrics.get(base), METRICS[base].digits if base in METRICS else 2, interval=False)
    return text if text == "–" else f"**{text}**{mark.get(str(one.signature), '')}"


def _run(name: str, one: Scores, trained: Trained) -> str:
    """A run's numbers with intervals, its signature, how it was trained, and the commands that make it."""
    lines = []
    for metric in in_order(one.metrics):
        score, digits = one.metrics[metric], METRICS[metric].digits
        if score.value is not None:
            bounds = (
                "–" if score.low is None else f"{cell(Score(score.low), digits)} to {cell(Score(score.high), digits)}"
            )
            lines.append([METRICS[metric].title, cell(Score(score.value), digits), bounds])
    table = Table(["metric", "value", "95 % interval"], lines)
    variant = f" --variant {one.variant}" if one.variant not in BASE_VARIANTS else ""
    protocol = f" --protocol {one.protocol}" if one.protocol != "listener-turns" else ""
    return (
        f"### {name}\n\n`{one.signature}`\n\n{table.markdown()}"
        + (f"{trained.how}\n\n" if trained.how else "")
        + "```sh\n"
        + "".join(f"{command}\n" for command in trained.earlier)
        + f"attune train results/{name}/config.yaml --data DIR --out runs/{name}\n"
        f"attune evaluate runs/{name} --data DIR --split {one.signature.split}{protocol}{variant}\n"
        f"attune score results/{name}/outputs.jsonl.gz --data DIR    # the numbers above again\n```\n"
    )


def _how(one: Scores) -> str:
    s = one.signature
    oov = "" if s.oov is None else f", {s.oov:g} % of test words unknown"
    return f"n {s.n:,}, text {s.text}, vocabulary {s.vocabulary}{oov}, {s.decoding}"
