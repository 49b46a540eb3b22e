from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from attune.dialogue.readers import labelled
from attune.dialogue.types import Dialogue
from attune.emotion.opinions import together
from attune.emotion.taxonomy import EMOTIONS, LABELS
from attune.emotion.wording import WORDING
from attune.errors import DataError, SettingsError
from attune.generate.systems import open_system
from attune.train.recipes import load_recipe
from attune.train.trainer import train
from tests.pretrained import part
from tests.systems import small_system

SAID = {
    "sad": ("My {} died.", "consoling", "It will be all right."),
    "proud": ("I built a {}!", "wishing", "Congratulations!"),
}
THINGS = ("dog", "cat", "boat", "horse", "bike", "car")


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Dialogues with a label per turn, in the shape of EmpatheticDialogues' JSONL."""
    folder = tmp_path_factory.mktemp("told")
    for split in ("train", "valid", "test"):
        rows = []
        for emotion, (text, label, answer) in SAID.items():
            for thing in THINGS:
                turns = [
                    {"idx": 1, "role": "speaker", "text": text.format(thing), "label": emotion},
                    {"idx": 2, "role": "listener", "text": answer, "label": label},
                ]
                rows.append(
                    {
                        "conv_id": f"{split}-{emotion}-{thing}",
                        "context": emotion,
                        "prompt": text.format(thing),
                        "utterances": turns,
                    }
                )
        (folder / f"{split}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder


def test_it_learns_the_emotion_and_the_label_to_give(told: Path, tmp_path: Path) -> None:
    sets = [f"model.encoder={part('bert')}", "model.embeddings_frozen=false", "training.epochs=25", "training.lr=0.003"]
    sets += ["training.batch_size=8", "training.warmup=5", "training.validate_every=12", "model.new_rate=1"]
    summary = train(load_recipe("perceiver", None, sets), told, tmp_path / "run")
    assert summary["validation"][-1]["emotion_accuracy"] > 0.9
    assert max(row["label_accuracy"] for row in summary["validation"]) > 0.9
    system = open_system(tmp_path / "run")
    assert system.capabilities == {"perceive", "decide"}
    contexts = [dialogue.turns[:1] for dialogue in labelled(told, "test")]
    emotions, labels = system.perceive(contexts), system.decide(contexts)
    assert emotions.shape == (12, 32)
    assert labels.shape == (12, 41)
    np.testing.assert_allclose(labels.sum(1), 1, rtol=1e-5)
    assert EMOTIONS[emotions[0].argmax()] == "sad"
    assert LABELS[labels[-1].argmax()] == "wishing"


def test_the_words_by_themselves_count_as_much_as_the_recipe_says(told: Path, tmp_path: Path) -> None:
    sets = [f"model.encoder={part('bert')}", "training.epochs=1", "model.words_share=0.5"]
    train(load_recipe("perceiver", None, sets), told, tmp_path / "run")
    system = open_system(tmp_path / "run")
    contexts = [dialogue.turns[:1] for dialogue in labelled(told, "test")]
    both, words = system.perceive(contexts), system.wording.perceive(contexts)
    np.testing.assert_allclose(together(system.seen(contexts), words, 0.5), both, rtol=1e-5)
    assert [EMOTIONS[best] for best in words.argmax(-1)] == [dialogue.emotion for dialogue in labelled(told, "test")]
    (tmp_path / "run" / WORDING).unlink()
    with pytest.raises(DataError, match="not the weights of terms"):
        open_system(tmp_path / "run")
    with pytest.raises(SettingsError, match="words_share must be from 0 to below 1"):
        load_recipe("perceiver", None, ["model.words_share=1"])


def test_both_heads_are_calibrated(dialogues: list[Dialogue]) -> None:
    system = small_system("perceiver", dialogues)
    before = system.decide([dialogues[0].turns[:1]])
    system.model.config.temperatures = (1.0, 5.0)
    after = system.decide([dialogues[0].turns[:1]])
    assert after.max() < before.max()
    assert after.argmax() == before.argmax()


def test_the_jsonl_beside_a_csv_lends_its_labels(tmp_path: Path, told: Path) -> None:
    header = "conv_id,utterance_idx,context,prompt,speaker_idx,utterance,selfeval,tags\n"
    rows = "".join(
        f"train-sad-dog,{i},sad,My dog died.,{i},{text},5|5|5_5|5|5,\n"
        for i, text in enumerate(("My dog died.", "It will be all right."), 1)
    )
    (tmp_path / "train.csv").write_text(header + rows + rows.replace("sad-dog", "other-dog"))
    (tmp_path / "train.jsonl").write_text((told / "train.jsonl").read_text())
    first, other = labelled(tmp_path, "train")
    assert [turn.label for turn in first.turns] == ["sad", "consoling"]
    assert [turn.label for turn in other.turns] == [None, None]
