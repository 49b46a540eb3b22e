from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from attune.train import adversarial
from attune.train.data import load_examples, load_split
from attune.train.prepare import prepare
from attune.train.recipes import load_recipe
from attune.train.stages import STAGES, Stage, stages_of
from attune.train.trainer import Trainer, train

SETTINGS = [
    "text.vectors=null", "model.d_model=16", "model.heads=2", "model.ffn=16", "model.critic_steps=4", "model.adversarial_steps=12",
    "training.batch_size=8", "training.warmup=10", "training.lr=0.3", "training.validate_every=5", "training.epochs=1",
    "training.checkpoint_every=3", "training.min_steps=0", "training.patience=50", "decoding.max_steps=6",
]  # fmt: skip


def trainer_of(corpus: Path, run: Path, *more: str) -> tuple[Trainer, list[Any], list[Any]]:
    recipe = load_recipe("empdg", None, [*SETTINGS, *more])
    dialogues = load_split(corpus, "train")
    model, codec, _ = prepare(recipe, corpus, dialogues)
    run.mkdir(exist_ok=True)
    encoded = [
        list(codec.encode(load_examples(load_split(corpus, split), "listener-turns", split)))
        for split in ("train", "valid")
    ]
    return Trainer(recipe, model, codec, run), *encoded


class Killed(Exception):
    pass


def test_an_interrupted_adversarial_run_ends_with_the_weights_of_one_that_was_not(
    corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, examples, valid = trainer_of(corpus, tmp_path / "whole")
    summary = whole.fit(examples, valid)
    first = len(examples) // 8  # steps of the first stage
    assert summary["steps"] == first + 4 + 12
    expected = {name: value.clone() for name, value in whole.bare.state_dict().items()}
    critics = {name: value.clone() for name, value in whole.beside["critics"].state_dict().items()}

    original = Trainer._train_step

    # in the first stage, with the critics alone, at the first step of the alternation, and within it
    for at in (first - 1, first + 3, first + 5, first + 11):

        def step(self: Trainer, *arguments: Any, at: int = at) -> None:
            if self.progress.step == at:
                raise Killed
            original(self, *arguments)

        trainer, examples, valid = trainer_of(corpus, tmp_path / "killed")
        monkeypatch.setattr(Trainer, "_train_step", step)
        with pytest.raises(Killed):
            trainer.fit(examples, valid)
        monkeypatch.setattr(Trainer, "_train_step", original)

    trainer, examples, valid = trainer_of(corpus, tmp_path / "killed")
    assert {file.name for file in (tmp_path / "killed" / "checkpoint").iterdir()} == {
        "model.safetensors", "optimizer.safetensors", "critics.safetensors", "critics_optimizer.safetensors", "progress.json"
    }  # fmt: skip
    resumed = trainer.fit(examples, valid)
    for name, value in expected.items():
        assert torch.equal(trainer.bare.state_dict()[name], value), name
    for name, value in critics.items():
        assert torch.equal(trainer.beside["critics"].state_dict()[name], value), name
    runs = [load_file(tmp_path / run / "model.safetensors") for run in ("whole", "killed")]
    assert all(torch.equal(runs[0][name], runs[1][name]) for name in runs[0])
    for key in ("steps", "best_step", "best_valid_emotion_accuracy", "examples"):
        assert resumed[key] == summary[key], key


def test_one_update_of_the_critics_goes_with_five_of_the_generator(
    corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trainer, examples, valid = trainer_of(corpus, tmp_path / "run")
    done: list[str] = []
    teach, update = adversarial.teach, Trainer.update
    monkeypatch.setattr(adversarial, "teach", lambda *given: (done.append("critics"), teach(*given))[1])
    monkeypatch.setattr(
        Trainer, "update", lambda self: (done.append(self.stages[self.progress.stage].name), update(self))[1]
    )
    trainer.fit(examples, valid)
    first = len(examples) // 8
    assert done[:first] == ["maximum-likelihood"] * first
    assert done[first : first + 8] == ["critics"] * 8  # each step: the gradient, the update
    assert done[first + 8 :] == ["critics", *["adversarial"] * 5] * 2 + ["critics", *["adversarial"] * 2]


def test_the_critics_learn_alone_and_then_the_generator_changes_too(corpus: Path, tmp_path: Path) -> None:
    trainer, examples, valid = trainer_of(corpus, tmp_path / "run")
    seen: dict[str, list[dict[str, torch.Tensor]]] = {}
    original = trainer._run_stage

    def run_stage(stage: Stage, *given: Any, **named: Any) -> None:
        original(stage, *given, **named)
        state = {name: value.clone() for name, value in trainer.bare.state_dict().items()}
        seen[stage.name] = [state, *([trainer.beside["critics"].state_dict()] if trainer.beside else [])]
        seen[stage.name] = [{name: value.clone() for name, value in part.items()} for part in seen[stage.name]]

    trainer._run_stage = run_stage  # type: ignore[method-assign]
    trainer.fit(examples, valid)
    model = {name: seen[name][0] for name in seen}
    best = model["critics"]
    assert any(not torch.equal(best[name], model["adversarial"][name]) for name in best)
    fresh = trainer.bare.critics(trainer.codec).state_dict()
    assert any(not torch.equal(fresh[name], seen["critics"][1][name]) for name in fresh)
    words = "semantic.reader.weight_ih_l0"
    assert not torch.equal(seen["critics"][1][words], seen["adversarial"][1][words])


def test_examples_without_feedback_train_by_maximum_likelihood_alone(
    corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trainer, examples, _ = trainer_of(corpus, tmp_path / "run")
    with_feedback = [item for item in examples if len(item.feedback)]
    without = [item for item in examples if not len(item.feedback)]
    assert with_feedback
    assert without
    trainer.model = trainer.bare.train()
    trainer.progress.step = 1
    stage = STAGES["adversarial"]()
    stage.begin(trainer)
    trainer.trained = list(trainer.bare.parameters())
    trainer.optimizer = torch.optim.SGD(trainer.trained, lr=0.0)
    calls: list[int] = []
    signal = trainer.bare.critic_signal
    monkeypatch.setattr(
        trainer.bare, "critic_signal", lambda c, rows, said: (calls.append(len(said)), signal(c, rows, said))[1]
    )
    before = {name: value.clone() for name, value in stage.critics.state_dict().items()}  # type: ignore[attr-defined]
    terms = stage.step(trainer, trainer.codec.collate(without[:4]), 10, 4)
    assert "adversarial" not in terms
    assert "nll" in terms
    assert all(torch.equal(value, before[name]) for name, value in stage.critics.state_dict().items())  # type: ignore[attr-defined]
    mixed = trainer.codec.collate([*without[:3], *with_feedback[:2]])
    terms = stage.step(trainer, mixed, 10, 5)
    assert "adversarial" in terms
    assert calls == [2], "only the two with feedback meet the critics"
    assert terms["pull"] > 0, "how strong their gradient is beside the other losses'"


def test_weights_of_the_alternation_are_kept_though_no_better_as_long_as_perplexity_is(
    corpus: Path, tmp_path: Path
) -> None:
    trainer, examples, valid = trainer_of(corpus, tmp_path / "run", "model.adversarial_lr=1e-9")  # nothing changes
    summary = trainer.fit(examples, valid)
    begun = len(examples) // 8 + 4
    assert (summary["best_stage"], summary["best_step"]) == ("adversarial", begun + 5)


def test_the_alternation_keeps_the_weights_it_begins_with_if_its_own_are_far_worse(
    corpus: Path, tmp_path: Path
) -> None:
    trainer, examples, valid = trainer_of(
        corpus, tmp_path / "run", "model.adversarial_lr=100.0"
    )  # it spoils everything
    before: dict[str, torch.Tensor] = {}
    next_stage = trainer._next_stage

    def hand_over(number: int) -> None:
        next_stage(number)
        before.update({name: value.clone() for name, value in trainer.bare.state_dict().items()})

    trainer._next_stage = hand_over  # type: ignore[method-assign]
    summary = trainer.fit(examples, valid)
    kept = load_file(tmp_path / "run" / "model.safetensors")
    assert all(torch.equal(kept[name], before[name]) for name in kept)
    begun = len(examples) // 8 + 4
    assert (summary["best_stage"], summary["best_step"]) == ("maximum-likelihood", begun)
    steps = [row["step"] - begun for row in summary["validation"] if row["stage"] == "adversarial"]
    assert steps == [0, 5, 10, 12], "counted from its own beginning"


def test_the_generators_rate_warms_up_and_falls_to_nothing_against_the_critics(corpus: Path, tmp_path: Path) -> None:
    trainer, examples, valid = trainer_of(corpus, tmp_path / "run", "model.adversarial_steps=60")
    rates: list[float] = []
    step = trainer._train_step

    def watched(*given: Any) -> None:
        step(*given)
        if trainer.progress.stage == 2:
            rates.append(trainer.optimizer.param_groups[0]["lr"])

    trainer._train_step = watched  # type: ignore[method-assign]
    trainer.fit(examples, valid)
    highest = trainer.bare.config.adversarial_lr
    assert rates[0] == pytest.approx(highest / 50)
    assert max(rates) == pytest.approx(highest)
    assert rates[-1] == 0


def test_a_model_names_its_stages_and_the_trainer_names_no_system() -> None:
    assert set(STAGES) >= {"maximum-likelihood", "critics", "adversarial"}
    assert [stage.name for stage in stages_of(object())] == ["maximum-likelihood"]


@pytest.mark.parametrize("system", ["moel", "mime", "kemp"])
def test_the_systems_train_and_their_runs_speak(system: str, corpus: Path, tmp_path: Path) -> None:
    from attune.generate.systems import open_system

    wanted = [one for one in SETTINGS if "critic" not in one and "adversarial" not in one]
    for variant in (None, "tuned"):
        sets = [*wanted, "training.epochs=2", "training.schedule=noam"]
        train(load_recipe(system, variant, sets), corpus, tmp_path / f"{variant}")
        opened = open_system(tmp_path / f"{variant}")
        context = load_split(corpus, "test")[0].turns[:1]
        assert opened.reply([context])[0].text
        assert opened.perceive([context]).shape == (1, 32)
