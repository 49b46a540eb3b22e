"""The programs in benchmarks/: what they compare is alike, and `make bench` starts only those that need nothing."""

from __future__ import annotations

import argparse
import re
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save_file

import attune
from attune.dialogue.protocols import examples
from attune.dialogue.types import Dialogue, Example, Turn
from attune.generate.reranking import Ranked, Weights
from attune.models import pretrained
from attune.train.recipes import load_recipe
from benchmarks import ablations, engines, reranking, tables
from tests.generate import tiny
from tests.train.test_trainer import settings

TREE = Path(attune.__file__).parents[1]


def test_torch_is_timed_as_a_run_is_opened_and_reads_each_prompt_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trained = tiny.with_adapters()
    save_file(tiny.adapters(trained), tmp_path / "adapters.safetensors")
    monkeypatch.setattr(pretrained, "find_base", lambda name, role: SimpleNamespace(load=tiny.decoder))
    arguments = argparse.Namespace(folder=tmp_path, threads=1)
    engine: Any = engines.in_torch(arguments, tiny.tokenizer(), engines.EOS, engines.OTHER)
    layer = "model.layers.1.mlp.up_proj.base_layer.weight"
    before, after = (model.state_dict()[layer].numpy() for model in (trained, engine.model.decoder))
    assert np.abs(after - before).max() > 0.1, "the adapters are worked in"
    engine.after([[5, 6, 7]], [8])
    assert len(engine.readings) == 0, "nothing is remembered"


def test_variants_that_begin_with_the_weights_of_others_are_not_compared() -> None:
    named = ablations.comparable("attune")
    assert named[0] == "first"
    assert {"bare", "no-emotion", "no-concepts"} < set(named)
    assert not {"default", "daily", "after-daily"} & set(named)


def test_every_row_of_the_tables_has_a_recipe_and_a_folder_of_its_own(tmp_path: Path) -> None:
    folders = [row.folder(protocol) for row in tables.ROWS for protocol in row.protocols]
    assert len(set(folders)) == len(folders)
    for row in tables.ROWS:
        load_recipe(row.system, row.variant)
    row = tables.Row("empdg", "tuned", 1, tables.BOTH)
    assert [row.folder(one) for one in row.missing(tmp_path)] == ["empdg-tuned-seed-1", "empdg-tuned-seed-1-feedback"]


@pytest.mark.slow
def test_rows_that_are_missing_are_trained_and_scored_and_no_others(
    corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whole, with the commands as people give them, on a small recipe of one's own."""
    recipe = tmp_path / "small.yaml"
    recipe.write_text(load_recipe("transformer", None, settings("training.epochs=1")).dump())
    row = tables.Row(str(recipe), "paper", 2)
    monkeypatch.setattr(tables.Row, "name", "transformer-paper-seed-2")
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "empathetic_dialogues").symlink_to(corpus)
    monkeypatch.setenv("ATTUNE_DATA", str(tmp_path / "data"))
    results = tmp_path / "results"
    went = tables.made(row, tmp_path / "runs", results, jobs=1, sets=["training.warmup=7"])
    assert went, (tmp_path / "runs" / f"{row.name}.log").read_text()
    assert row.missing(results, ["training.warmup=7"]) == []
    assert row.missing(results, ["training.warmup=7", "training.precision=bf16"]) == [], "a precision parts no recipes"
    assert row.missing(results, ["training.warmup=8"]) == ["listener-turns"]
    trained = load_recipe(str(results / row.name / "config.yaml")).training
    assert (trained.seed, trained.warmup) == (2, 7)
    monkeypatch.setattr(tables, "ROWS", (row,))
    asked = ["training.warmup=7"]
    assert tables.chosen(None, results, asked) == tables.chosen([row.name], results, asked) == []
    with pytest.raises(SystemExit, match="no such row: kempf"):
        tables.chosen(["kempf"], results)


def test_weights_are_fitted_to_what_is_close_to_the_reference(dialogues: list[Dialogue]) -> None:
    class Encoder:
        """Texts by their first letter; the references begin with other letters, and are near to none but "y"."""

        def encode(self, texts: Any) -> np.ndarray:
            return np.array([[1.0, 0.0] if text[0] != "n" else [0.0, 1.0] for text in texts], dtype=np.float32)

    near, far = Ranked("yes", 0.0, {"overlap": 0.0, "label": 1.0}), Ranked("no", 0.0, {"overlap": 0.2, "label": 0.0})
    meant = [example for dialogue in dialogues for example in examples([dialogue])]
    assert meant
    fitted = reranking.fit([[far, near]] * len(meant), meant, Encoder())
    assert fitted.label == 1.0 > 0.0 > fitted.overlap
    assert fitted.similarity == 0.0
    assert reranking.best([far, near], fitted) == "yes"


def test_a_reaction_is_foretold_by_what_the_reply_says() -> None:
    class Encoder:
        """Kind words point one way, the others another; a little noise keeps texts apart."""

        def encode(self, texts: Any) -> np.ndarray:
            rng = np.random.default_rng(len(texts))
            rows = np.array([[float("kind" in text), float("harsh" in text), 1.0, 0.5] for text in texts])
            return (rows + rng.normal(size=rows.shape) * 0.01).astype(np.float32)

    def said(reply: str, reaction: str) -> Example:
        context = (Turn("speaker", "My day was long."),)
        return Example("d:2", context, Turn("listener", reply), feedback=Turn("speaker", reaction))

    seen = [said("a kind word", "That is lovely, wonderful."), said("a harsh word", "That is horrible, awful.")] * 20
    reaction = reranking.Reaction.fit(seen, Encoder())
    context = seen[0].context
    kind, harsh = reaction.foretold([context, context], ["so kind", "so harsh"])
    assert kind > harsh + 1
    assert reaction.checked(seen) > 0.9
    assert (
        reranking.best(
            [Ranked("h", 0.0, {"reaction": -1.0}), Ranked("k", 0.0, {"reaction": 1.0})], Weights(), reaction=1
        )
        == "k"
    )


def test_make_bench_starts_no_program_that_needs_to_be_told_something() -> None:
    told = subprocess.run(["make", "-n", "bench"], cwd=TREE, capture_output=True, text=True, check=True).stdout
    programs = set(re.findall(r"benchmarks/\w+\.py", told))
    assert "benchmarks/engines.py" in programs
    for program in programs:
        text = (TREE / program).read_text(encoding="utf-8")
        assert not re.search(r'required=True|add_argument\("\w+"\)', text), program
