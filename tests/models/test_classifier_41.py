from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import attune as package
from attune.cli.main import run as attune
from attune.dialogue.readers import read
from attune.emotion.taxonomy import EMOTIONS, LABELS
from attune.errors import DataError, MissingError, SettingsError
from attune.evaluate.audit import audit
from attune.evaluate.evaluation import evaluate
from attune.evaluate.scores import score_file
from attune.generate.labeller import PACKAGED, Labeller, load_labeller
from attune.generate.systems import open_system
from attune.models.classifier_41 import Classifier41, Classifier41Config, fit_temperature
from attune.train.data import load_examples, load_split
from attune.train.recipes import load_recipe
from attune.train.trainer import train
from tests.pretrained import part
from tests.systems import small_system, test_examples

SAID = {0: "I was so scared of the {}.", 27: "My {} died, I am sad.", 38: "What did the {} do?", 40: "The {} is there."}
THINGS = ("dog", "cat", "bike", "car", "horse", "boat", "piano", "roof")


@pytest.fixture(scope="module")
def labelled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Labelled utterances in the shape of seed 002's data, its mistake in `labels.txt` included."""
    folder = tmp_path_factory.mktemp("labelled")
    names = [f"{name},{i}" for i, name in enumerate(LABELS[:-1])]
    (folder / "labels.txt").write_text("\n".join([*names, "neutral,38"]).replace("wishing", "Wishing"))
    for split, things in (("train", THINGS), ("valid", THINGS[:4]), ("test", THINGS[2:6])):
        lines = [f"{label} <SEP> {text.format(thing)}" for thing in things for label, text in SAID.items()]
        (folder / f"{split}.txt").write_text("\n".join(lines) + "\n")
    return folder


@pytest.fixture(scope="module")
def trained(labelled: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    run = tmp_path_factory.mktemp("runs") / "run"
    sets = [f"model.encoder={part('bert')}", "model.context_tokens=32", "training.lr=0.02", "training.warmup=5"]
    sets += ["model.new_rate=2", "model.layer_decay=1", "training.epochs=20", "training.batch_size=8"]
    sets += ["training.validate_every=40", "training.checkpoint_every=100"]
    train(load_recipe("classifier-41", None, sets), labelled, run)
    return run


def test_the_reader_takes_labels_by_their_line_and_so_neutral_is_neutral(labelled: Path) -> None:
    turns = [dialogue.turns for dialogue in read(labelled, split="test")]
    assert [(turn.label, turn.text) for (turn,) in turns[:4]] == [
        ("afraid", "I was so scared of the bike."),
        ("sad", "My bike died, I am sad."),
        ("questioning", "What did the bike do?"),
        ("neutral", "The bike is there."),
    ]
    example = load_examples(load_split(labelled, "test"), "labelled-turns", "test")[1]
    assert (example.id, example.response.label, example.context[-1].label) == ("test:2:1", "sad", None)


def test_the_public_data_are_read_whole(data_dir: Path) -> None:
    folder = data_dir / "empathetic_intents" / "train_data"
    counts = {split: [d.turns[0].label for d in read(folder, split=split)] for split in ("train", "valid", "test")}
    assert {split: len(labels) for split, labels in counts.items()} == {"train": 25_023, "valid": 3_544, "test": 3_225}
    assert set(counts["test"]) == set(LABELS)
    assert counts["test"].count("neutral") == counts["test"].count("questioning") == 78


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("41 <SEP> hello", "from 0 to 40, found 41"),
        ("0 <SEP>  ", "is empty"),
        ("sad: hello", "expected 'id <SEP> text'"),
    ],
)
def test_a_bad_line_is_named(line: str, why: str, labelled: Path, tmp_path: Path) -> None:
    (tmp_path / "labels.txt").write_text((labelled / "labels.txt").read_text())
    (tmp_path / "train.txt").write_text(f"0 <SEP> fine\n{line}\n")
    with pytest.raises(DataError, match=f"train.txt:2: .*{why}"):
        list(read(tmp_path, split="train", strict=True))
    (tmp_path / "labels.txt").unlink()
    with pytest.raises(MissingError, match=r"labels\.txt"):
        list(read(tmp_path, split="train"))


def test_it_learns_and_leaves_a_run_that_labels(trained: Path, labelled: Path) -> None:
    rows = [json.loads(line) for line in (trained / "metrics.jsonl").read_text().splitlines()]
    best = [row for row in rows if row["split"] == "valid" and row["best"]][-1]
    assert best["accuracy"] > 0.9
    assert json.loads((trained / "summary.json").read_text())["best_valid_accuracy"] == best["accuracy"]
    labeller = Labeller.open(trained)
    texts = [d.turns[0].text for d in read(labelled, split="test")]
    found = labeller.label(texts)
    assert [one.label for one in found[:4]] == ["afraid", "sad", "questioning", "neutral"]
    for one in found:
        assert next(iter(one.probabilities)) == one.label
        assert one.probability == max(one.probabilities.values())
        assert set(one.probabilities) == set(LABELS)
        assert sum(one.probabilities.values()) == pytest.approx(1, abs=1e-4)
    assert labeller.label([]) == []
    alone = [labeller.label([text])[0] for text in texts]
    assert [one.label for one in alone] == [one.label for one in found]
    np.testing.assert_allclose([one.probability for one in alone], [one.probability for one in found], rtol=1e-4)


def test_the_temperature_makes_validation_most_probable_and_is_kept(trained: Path, labelled: Path) -> None:
    labeller: Any = open_system(trained)
    assert labeller.model.config.temperature != 1.0
    items = labeller.codec.encode(load_examples(load_split(labelled, "valid"), "labelled-turns", "valid"))
    batch = labeller.codec.collate(items)
    with torch.no_grad():
        logits = labeller.model.logits(batch)
        assert labeller.model.config.temperature == pytest.approx(fit_temperature(logits, batch["label"]), rel=1e-3)


def test_a_fitted_temperature_is_better_than_its_neighbours() -> None:
    torch.manual_seed(0)
    logits, labels = torch.randn(200, 5) * 3, torch.randint(5, (200,))
    labels[:120] = logits[:120].argmax(-1)
    best = fit_temperature(logits, labels)

    def loss(temperature: float) -> float:
        return torch.nn.functional.cross_entropy(logits / temperature, labels).item()

    assert loss(best) < min(loss(best * 0.97), loss(best * 1.03))


def test_an_evaluation_leaves_accuracy_and_labels_but_no_text(trained: Path, labelled: Path, tmp_path: Path) -> None:
    scores = evaluate(open_system(trained), labelled, results=tmp_path)
    folder = tmp_path / "classifier-41"
    assert {file.name for file in folder.iterdir()} >= {"config.yaml", "outputs.jsonl.gz", "scores.json"}
    accuracy = scores.metrics["accuracy"]
    assert accuracy.low is not None
    assert accuracy.low <= accuracy.value <= accuracy.high  # type: ignore[operator]
    assert accuracy.value > 80  # type: ignore[operator]
    assert str(scores.signature).startswith("protocol:labelled-turns-v1|split:test|n:16|")
    text = gzip.decompress((folder / "outputs.jsonl.gz").read_bytes()).decode()
    assert json.loads(text.splitlines()[0]).keys() == {"id", "predicted_label"}
    assert "bike" not in text
    assert score_file(folder / "outputs.jsonl.gz", data=labelled).json() == (folder / "scores.json").read_text()


def test_on_dialogues_it_perceives_what_the_speaker_said(trained: Path, corpus: Path, tmp_path: Path) -> None:
    system = open_system(trained)
    scores = evaluate(system, corpus, protocol="listener-turns", results=tmp_path)
    assert (tmp_path / "classifier-41-listener-turns").is_dir()
    assert scores.value("emotion_accuracy") is not None
    assert scores.value("accuracy") is None
    examples = load_examples(load_split(corpus, "test"), "listener-turns", "test")
    assert audit(system, examples).passed
    shares = system.perceive([example.context for example in examples])
    assert shares.shape == (len(examples), len(EMOTIONS))
    np.testing.assert_allclose(shares.sum(1), 1, atol=1e-5)


def test_a_system_that_does_not_label_is_not_scored_on_labelled_turns(
    labelled: Path, dialogues: list[Any], tmp_path: Path
) -> None:
    with pytest.raises(SettingsError, match="offers none of label"):
        evaluate(small_system("emoprepend", dialogues), labelled, protocol="labelled-turns", results=tmp_path)


def test_a_run_resumed_ends_with_the_same_weights(labelled: Path, tmp_path: Path, monkeypatch: Any) -> None:
    from attune.train.trainer import Trainer

    sets = [f"model.encoder={part('bert')}", "model.encoder_frozen=1", "training.warmup=5", "training.epochs=2"]
    sets += ["training.batch_size=8", "training.validate_every=4", "training.checkpoint_every=3"]
    recipe = load_recipe("classifier-41", None, sets)
    train(recipe, labelled, tmp_path / "whole")
    step = Trainer._train_step

    def dies(self: Trainer, *arguments: Any) -> None:
        if self.progress.step == 5:
            raise KeyboardInterrupt
        step(self, *arguments)

    monkeypatch.setattr(Trainer, "_train_step", dies)
    with pytest.raises(KeyboardInterrupt):
        train(recipe, labelled, tmp_path / "killed")
    monkeypatch.setattr(Trainer, "_train_step", step)
    train(recipe, labelled, tmp_path / "killed")
    whole, killed = (Classifier41.from_pretrained(tmp_path / name) for name in ("whole", "killed"))
    assert all(torch.equal(a, b) for a, b in zip(whole.parameters(), killed.parameters(), strict=True))


def test_learning_from_turns_without_labels_says_so(dialogues: list[Any]) -> None:
    system = small_system("classifier-41", dialogues)
    with pytest.raises(DataError, match="has no label"):
        system.codec.encode(test_examples(dialogues))


@pytest.mark.parametrize("pooling", ["cls", "mean", "pooler"])
def test_padding_does_not_change_the_logits(pooling: str) -> None:
    torch.manual_seed(0)
    model, codec = Classifier41.fresh(Classifier41Config(encoder=part("roberta"), pooling=pooling))
    items = codec.encode_texts(["Oh no!", "My old dog died on Monday. I'm so sorry."])
    model.eval()
    with torch.inference_mode():
        together = model.logits(codec.collate(items))
        alone = torch.cat([model.logits(codec.collate([item])) for item in items])
    torch.testing.assert_close(together, alone, rtol=1e-5, atol=1e-5)


def call(*words: object) -> object:
    with pytest.raises(SystemExit) as end:
        attune([str(word) for word in words])
    return end.value.code


def test_attune_label_prints_a_line_for_each_line(trained: Path, tmp_path: Path, capsys: Any, monkeypatch: Any) -> None:
    (tmp_path / "said.txt").write_bytes(b"My dog died, I am sad.\n\nWhat did the caf\xe9 do?\n")
    assert call("label", tmp_path / "said.txt", "--run", trained) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 3
    assert lines[0].split("\t")[0] == "sad"
    assert lines[0].split("\t")[2] == "My dog died, I am sad."
    monkeypatch.setattr("sys.stdin", iter(["My dog died, I am sad.\n"]))
    assert call("label", "-", "--run", trained, "--json") == 0
    row = json.loads(capsys.readouterr().out)
    assert (row["label"], row["text"], len(row["probabilities"])) == ("sad", "My dog died, I am sad.", 41)
    monkeypatch.chdir(tmp_path)
    assert call("label", "said.txt", "--run", "runs/none") == 2
    assert "no run at 'runs/none'" in capsys.readouterr().err
    assert call("label", "none.txt", "--run", trained) == 2
    assert "no file at none.txt" in capsys.readouterr().err


def test_attune_label_needs_no_run_and_no_torch(tmp_path: Path) -> None:
    (tmp_path / "said.txt").write_text("My old dog died on Monday.\nWhat happened then?\n")
    code = (
        "import sys\nfrom attune.cli.main import run\n"
        "try: run(['label', 'said.txt'])\n"
        "except SystemExit as end: print(end.code or 0, sorted({'torch', 'transformers'} & set(sys.modules)))"
    )
    environment = os.environ | {"PYTHONPATH": str(Path(package.__file__).parents[1])}
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, env=environment, capture_output=True, text=True, check=True
    )
    first, second, end = done.stdout.splitlines()
    assert (first.split("\t")[0], second.split("\t")[0], end) == ("sad", "questioning", "0 []")


def test_the_packaged_classifier_is_small_and_opened_once() -> None:
    assert all(file.stat().st_size < 5e6 for file in PACKAGED.iterdir())
    labeller = load_labeller()
    assert load_labeller() is labeller
    texts = [
        "I hope you get better soon!",
        "Everybody laughed at me, I wanted to vanish.",
        "No way, I won the lottery!",
    ]
    found = labeller.label(texts)
    assert [one.label for one in found] == [labeller.label([text])[0].label for text in texts]
    assert found[1].label == "embarrassed"
    assert all(sum(one.probabilities.values()) == pytest.approx(1, abs=1e-4) for one in found)
