from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
import yaml
from safetensors.torch import load_file

from attune.errors import AttuneError, DataError
from attune.generate.systems import open_system
from attune.train.checkpoints import Progress
from attune.train.data import load_split
from attune.train.recipes import TrainingSettings, load_recipe
from attune.train.trainer import Trainer, check_run, train

SMALL = [
    "text.vectors=null", "model.d_model=16", "model.ffn=16", "training.batch_size=8", "training.warmup=10",
    "training.lr=0.3", "training.validate_every=12", "training.checkpoint_every=6", "training.epochs=6",
    "training.min_steps=0", "training.patience=50",
]  # fmt: skip


def settings(*more: str) -> list[str]:
    return [*SMALL, *more]


def test_training_learns_and_leaves_a_run_that_opens(corpus: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    summary = train(load_recipe("emoprepend", None, settings("training.tensorboard=true")), corpus, run)
    rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    valid = [row for row in rows if row["split"] == "valid"]
    assert valid[-1]["ppl"] < 0.7 * valid[0]["ppl"]
    assert summary["best_valid_ppl"] == pytest.approx(min(row["ppl"] for row in valid), rel=1e-5)
    assert {file.name for file in run.iterdir()} == {
        "config.json", "config.yaml", "metrics.jsonl", "model.safetensors", "summary.json", "tensorboard", "tokenizer.json"
    }  # fmt: skip
    system = open_system(run)
    context = load_split(corpus, "test")[0].turns[:1]
    assert system.reply([context])[0].text
    assert system.perceive([context]).shape == (1, 32)
    before = (run / "model.safetensors").stat().st_mtime_ns
    assert train(load_recipe("emoprepend", None, settings("training.tensorboard=true")), corpus, run) == summary
    assert (run / "model.safetensors").stat().st_mtime_ns == before, "a finished run is left as it is"


def test_a_system_of_the_trunk_learns_in_bf16_too(corpus: Path, tmp_path: Path) -> None:
    summary = train(load_recipe("emoprepend", None, settings("training.precision=bf16")), corpus, tmp_path / "run")
    curve = summary["validation"]
    assert curve[-1]["ppl"] < 0.7 * curve[0]["ppl"]
    assert curve[-1]["emotion_accuracy"] > 0.5
    with pytest.raises(AttuneError, match="precision"):
        load_recipe("emoprepend", None, ["training.precision=int8"])


@pytest.mark.parametrize("variant", ["prepend-1", "ensemble"])
def test_prepend_and_ensemble_train_their_classifier_on_situations(variant: str, corpus: Path, tmp_path: Path) -> None:
    recipe = load_recipe(
        "emoprepend", variant, settings("training.epochs=1", "model.bag_buckets=64", "model.bag_size=8")
    )
    train(recipe, corpus, tmp_path / "run")
    system = open_system(tmp_path / "run")
    assert system.model.config.bag_labels == ["afraid", "grateful", "proud", "sad"]  # type: ignore[attr-defined]
    examples = [dialogue.turns[:1] for dialogue in load_split(corpus, "test")]
    if variant == "prepend-1":
        fronts = [system.codec.words(item.context[1:2]) for item in system.codec.encode_contexts(examples)]  # type: ignore[attr-defined]
        gold = [[dialogue.emotion] for dialogue in load_split(corpus, "test")]
        assert sum(a == b for a, b in zip(fronts, gold, strict=True)) >= 0.9 * len(gold)


def command(corpus: Path, run: Path, *more: str) -> list[str]:
    sets = [word for item in settings("model.dropout=0.1", "training.epochs=10") for word in ("--set", item)]
    return ["train", "transformer", "--data", str(corpus), "--out", str(run), *sets, *more]


@pytest.mark.slow
def test_a_run_killed_and_resumed_ends_with_the_weights_of_one_that_was_not(corpus: Path, tmp_path: Path) -> None:
    env = {**os.environ, "OMP_NUM_THREADS": "1"}
    attune = [sys.executable, "-m", "attune.cli.main"]
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    subprocess.run([*attune, *command(corpus, whole)], check=True, env=env)
    for _ in range(2):  # killed twice, at whatever step it is at
        process = subprocess.Popen([*attune, *command(corpus, killed)], env=env, stderr=subprocess.DEVNULL)
        seen = (killed / "checkpoint" / "progress.json").stat().st_mtime_ns if (killed / "checkpoint").exists() else 0
        limit = time.time() + 120
        while process.poll() is None and time.time() < limit:
            file = killed / "checkpoint" / "progress.json"
            if file.exists() and file.stat().st_mtime_ns != seen:
                break
            time.sleep(0.005)
        assert process.poll() is None, "the run must still be going on when it is killed"
        process.send_signal(signal.SIGKILL)
        process.wait()
    assert (killed / "checkpoint").is_dir()
    assert not (killed / "summary.json").exists()
    subprocess.run([*attune, *command(corpus, killed)], check=True, env=env)
    one, other = load_file(whole / "model.safetensors"), load_file(killed / "model.safetensors")
    assert one.keys() == other.keys()
    for name in one:
        assert torch.equal(one[name], other[name]), name
    rows = [[json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()] for run in (whole, killed)]
    for row in (*rows[0], *rows[1]):
        for timing in ("seconds", "examples_per_second"):
            row.pop(timing, None)
    assert rows[0] == rows[1], "the record of a resumed run is that of an uninterrupted one"


@pytest.mark.slow
@pytest.mark.parametrize("tied", ["false", "true"])
def test_two_processes_give_the_curves_of_one(tied: str, corpus: Path, tmp_path: Path) -> None:
    curves: dict[str, list[list[float]]] = {"train": [], "valid": []}
    for count in (1, 2):
        run = tmp_path / f"run{count}"
        sets = ("model.dropout=0.0", f"model.tie_embeddings={tied}", "training.epochs=18")
        assert_trained(count, command(corpus, run, *(part for one in sets for part in ("--set", one))), run)
        rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
        for split, term in (("train", "nll"), ("valid", "ppl")):
            curves[split].append([row[term] for row in rows if row["split"] == split])
    for split, (one, two) in curves.items():
        assert len(one) >= 2, split
        assert two == pytest.approx(one, rel=2e-3), split


@pytest.mark.slow
def test_critics_too_are_trained_by_two_processes(corpus: Path, tmp_path: Path) -> None:
    sets = [*SMALL, "training.epochs=4", "model.critic_steps=4", "model.adversarial_steps=100"]
    arguments = ["train", "empdg", "--data", str(corpus), "--out", str(tmp_path / "run")]
    assert_trained(2, [*arguments, *(word for one in sets for word in ("--set", one))], tmp_path / "run")
    rows = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    (last,) = (row for row in rows if row["split"] == "train" and row["stage"] == "adversarial")
    assert {"nll", "critics", "adversarial"} <= last.keys()


def assert_trained(processes: int, arguments: list[str], run: Path) -> None:
    """Train with so many processes, which share each batch."""
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", str(processes)]
    env = {**os.environ, "OMP_NUM_THREADS": "1"}
    subprocess.run([*launch, "-m", "attune.cli.main", *arguments], check=True, env=env, timeout=240)
    assert json.loads((run / "summary.json").read_text())["processes"] == processes


def test_a_run_folder_is_never_overwritten_by_other_settings(corpus: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    train(load_recipe("transformer", None, settings("training.epochs=1")), corpus, run)
    other = load_recipe("transformer", None, settings("training.epochs=1", "training.seed=1"))
    with pytest.raises(AttuneError, match="other settings"):
        train(other, corpus, run)
    train(other, corpus, run, fresh=True)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("precious")
    for fresh in (False, True):
        with pytest.raises(AttuneError, match="not empty"):
            train(other, corpus, tmp_path / "mine", fresh=fresh)
    assert (tmp_path / "mine" / "thesis.txt").read_text() == "precious"
    (tmp_path / "file").write_text("")
    with pytest.raises(AttuneError, match="is a file"):
        train(other, corpus, tmp_path / "file")


@pytest.mark.parametrize(("system", "key"), [("transformer", "ffn"), ("attune", "longest")])
def test_a_run_from_before_a_setting_was_there_is_gone_on_with(system: str, key: str, tmp_path: Path) -> None:
    recipe = load_recipe(system)
    known = yaml.safe_load(recipe.dump())
    del known["training"]["tensorboard"], known["model"][key]
    file = tmp_path / "config.yaml"
    file.write_text(yaml.safe_dump({**known, "about": "the same in other words"}))
    check_run(tmp_path, recipe, fresh=False)
    for text in (
        yaml.safe_dump({**known, "model": {**known["model"], key: 64}}),
        yaml.safe_dump({**known, "old": 1}),
        "{",
    ):
        file.write_text(text)
        with pytest.raises(AttuneError, match="other settings"):
            check_run(tmp_path, recipe, fresh=False)


def test_a_split_without_dialogues_or_examples_is_an_error(corpus: Path, tmp_path: Path) -> None:
    lonely = {"id": "a", "turns": [{"role": "speaker", "text": "hello"}]}
    for split in ("train", "valid", "test"):
        (tmp_path / f"{split}.jsonl").write_text(json.dumps(lonely) + "\n")
    with pytest.raises(DataError, match="makes no example"):
        train(load_recipe("transformer", None, settings()), tmp_path, tmp_path / "run")


def test_a_damaged_checkpoint_is_reported_and_fresh_starts_anew(corpus: Path, tmp_path: Path) -> None:
    recipe, run = load_recipe("transformer", None, settings("training.epochs=1")), tmp_path / "run"
    train(recipe, corpus, run)
    (run / "summary.json").unlink()
    (run / "checkpoint").mkdir()
    (run / "checkpoint" / "model.safetensors").write_bytes(b"\x00" * 64)
    with pytest.raises(DataError, match="--fresh"):
        train(recipe, corpus, run)
    train(recipe, corpus, run, fresh=True)


def test_with_a_bound_on_perplexity_the_best_are_sought_within_it(tmp_path: Path) -> None:
    trainer = Trainer.__new__(Trainer)
    trainer.settings = TrainingSettings(select="emotion_accuracy")
    trainer.progress, trainer.bound, trainer.own = Progress(), 35.0, False

    def told(ppl: float, accuracy: float) -> bool:
        scores = {"ppl": ppl, "emotion_accuracy": accuracy}
        if better := trainer._better(scores):
            trainer.progress.best, trainer.progress.best_ppl = accuracy, ppl
        return better

    assert [told(50, 0.41), told(40, 0.38), told(42, 0.45)] == [True, True, False], "outside, the lowest perplexity"
    assert [told(34.9, 0.30), told(33, 0.29), told(34, 0.31), told(36, 0.5)] == [True, False, True, False]
    trainer.bound = None
    assert told(99, 0.6)


def test_a_summary_tells_how_long_it_took_in_all(corpus: Path, tmp_path: Path) -> None:
    recipe = load_recipe("emoprepend", None, settings("training.epochs=1", "training.select=emotion_accuracy"))
    summary = train(recipe, corpus, tmp_path / "run")
    assert summary["wall_seconds"] >= summary["seconds"] > 0
    curve = {row["step"]: row for row in summary["validation"]}
    assert summary["best_valid_ppl"] == pytest.approx(curve[summary["best_step"]]["ppl"], rel=1e-5)


def test_training_may_begin_with_the_weights_of_a_finished_run(corpus: Path, tmp_path: Path) -> None:
    first, more = tmp_path / "first", tmp_path / "more"
    summary = train(load_recipe("transformer", None, settings()), corpus, first)
    start = ["training.schedule=constant", f"training.start={first}"]
    went_on = train(load_recipe("transformer", None, settings(*start, "training.lr=1e-3")), corpus, more)
    curve = went_on["validation"]
    assert curve[0]["step"] == 0
    assert curve[0]["ppl"] == pytest.approx(summary["best_valid_ppl"], rel=1e-4)
    assert went_on["best_valid_ppl"] < summary["best_valid_ppl"]
    third = train(
        load_recipe("transformer", None, settings(f"training.start={more}", "training.epochs=1")),
        corpus,
        tmp_path / "third",
    )
    assert third["validation"][0]["step"] == 0
    for folder, run in (("before", more), ("before/before", first)):
        assert (tmp_path / "third" / folder / "summary.json").read_bytes() == (run / "summary.json").read_bytes()
    spoilt = ["training.lr=10", "training.patience=1", "training.clip=0"]
    worse = train(load_recipe("transformer", None, settings(*start, *spoilt)), corpus, tmp_path / "worse")
    assert (worse["best_step"], worse["steps"]) == (0, 12), "one validation without a better one ends it"
    kept, begun = (load_file(run / "model.safetensors") for run in (tmp_path / "worse", first))
    assert all(torch.equal(kept[name], begun[name]) for name in begun), "nothing beat what it began with"


def test_the_first_examples_may_be_left_out(corpus: Path, tmp_path: Path) -> None:
    every = train(load_recipe("transformer", None, settings("training.epochs=1")), corpus, tmp_path / "all")
    left = ["training.epochs=1", "training.skip=2"]
    fewer = train(load_recipe("transformer", None, settings(*left)), corpus, tmp_path / "fewer")
    assert fewer["examples"] == every["examples"] - 2
    two = train(load_recipe("transformer", None, settings(*left, "training.limit=2")), corpus, tmp_path / "two")
    assert two["examples"] == 2
    with pytest.raises(AttuneError, match=r"training\.skip"):
        train(load_recipe("transformer", None, settings("training.skip=999999")), corpus, tmp_path / "none")


def test_a_start_that_does_not_fit_is_refused(corpus: Path, tmp_path: Path) -> None:
    with pytest.raises(AttuneError, match="no finished run at"):
        train(load_recipe("transformer", None, settings(f"training.start={tmp_path}/none")), corpus, tmp_path / "run")
    train(load_recipe("transformer", None, settings("training.epochs=1")), corpus, tmp_path / "first")
    start = f"training.start={tmp_path}/first"
    with pytest.raises(AttuneError, match="does not fit this recipe"):
        train(load_recipe("transformer", None, settings(start, "model.d_model=8")), corpus, tmp_path / "run")
    (tmp_path / "first" / "tokenizer.json").write_text("{}")
    with pytest.raises(AttuneError, match=r"does not have this recipe's tokenizer\.json"):
        train(load_recipe("transformer", None, settings(start)), corpus, tmp_path / "run")
