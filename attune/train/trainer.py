"""The one trainer: length-bucketed batches, early stopping on validation, exact resume, one or many processes."""

from __future__ import annotations

import json
import math
import os
import shutil
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from accelerate import Accelerator, PartialState
from accelerate.utils import DistributedDataParallelKwargs, gather_object
from torch import Tensor

from attune.errors import AttuneError, SettingsError
from attune.files import atomic_write
from attune.models import SYSTEMS
from attune.models.codec import Codec
from attune.train.averaging import Averaged
from attune.train.checkpoints import (
    Progress,
    keep_before,
    load_best,
    load_checkpoint,
    save_checkpoint,
    save_system,
    start_from,
)
from attune.train.data import bucketed, corpus, in_order, load_examples, load_split
from attune.train.memory import give_back
from attune.train.prepare import prepare
from attune.train.recipes import Recipe, load_recipe
from attune.train.report import Reporter
from attune.train.schedules import rate
from attune.train.stages import Stage, stages_of
from attune.train.starts import ready_start

AVERAGED = "averaged"  # the file of a checkpoint that has the mean of the weights
SCRATCH = "scratch"  # what a model keeps from epoch to epoch; gone when the training is done
# A loss per example → how the share of right answers is called, and the term that counts them.
ACCURACIES = {
    "emotion": ("emotion_accuracy", "right"),
    "label": ("accuracy", "right"),
    "choice": ("label_accuracy", "right_choice"),
}


def train(recipe: Recipe, data: str | Path | None, out: str | Path, *, fresh: bool = False) -> dict[str, Any]:
    """Train a recipe on a corpus folder into a run folder; resumes a run that was interrupted. Returns its summary.

    Without `data`, the corpus that the recipe names, or that the system is made for, is taken from ATTUNE_DATA.
    """
    run, kind = Path(out), SYSTEMS[recipe.system]
    check_run(run, recipe, fresh)
    if not fresh and (run / "summary.json").is_file():  # finished: what it began with need not be there any more
        return json.loads((run / "summary.json").read_text())
    data = corpus(data, recipe.training.corpus or kind.corpus)
    dialogues = load_split(data, "train", kind.turn_labels)
    examples = load_examples(dialogues, recipe.training.protocol, "train")[recipe.training.skip :][
        : recipe.training.limit
    ]
    if not examples:
        raise SettingsError(f"training.skip: {recipe.training.skip:,} leaves no example of the training split")
    valid = load_examples(load_split(data, "valid", kind.turn_labels), kind.protocol, "valid")
    valid = valid[: recipe.training.valid_limit]
    start = ready_start(recipe, data, run)
    model, codec, facts = prepare(recipe, data, dialogues, run)
    if start:
        start_from(start, model, codec)
    processes = PartialState(cpu=not torch.cuda.is_available())
    if processes.is_main_process:
        open_run(run, recipe, fresh)
        codec.save(run)
        if start:
            keep_before(start, run)
    processes.wait_for_everyone()
    trainer = Trainer(recipe, model, codec, run)
    trainer.facts = facts
    if hasattr(codec, "encode_dialogues"):  # one item a dialogue, all its responses at once
        items = codec.encode_dialogues(examples, training=True, seed=recipe.training.seed)
        return trainer.fit(items, codec.encode_dialogues(valid, training=False))
    return trainer.fit(codec.encode(examples), codec.encode(valid))


def check_run(run: Path, recipe: Recipe, fresh: bool) -> None:
    """Refuse a run folder that cannot be written, or that is not this very recipe's, before any work is done."""
    config = run / "config.yaml"
    if run.exists() and not run.is_dir():
        raise SettingsError(f"--out {run} is a file; a run is a folder")
    if config.is_file():
        if not fresh and not _made_by(config, recipe):
            raise SettingsError(
                f"{run} holds a run with other settings (see {config}); choose another --out, or --fresh to replace it"
            )
    elif run.is_dir() and any(run.iterdir()):
        raise SettingsError(f"{run} is not empty and is not a run; choose another --out")
    above = next(place for place in (run, *run.absolute().parents) if place.exists())
    if not above.is_dir() or not os.access(above, os.W_OK):
        raise AttuneError(f"cannot write the run to {run}: {above} is not a folder that can be written")


def _made_by(config: Path, recipe: Recipe) -> bool:
    """Whether a run's `config.yaml` is of this recipe; it may have been written before the program gained a setting."""
    try:
        return load_recipe(str(config)).same_run(recipe)
    except SettingsError:
        return False  # damaged, or with a setting that is no more


def open_run(run: Path, recipe: Recipe, fresh: bool) -> None:
    """Make the run folder, or open the one that is there."""
    if fresh and (run / "config.yaml").is_file():
        shutil.rmtree(run)
    run.mkdir(parents=True, exist_ok=True)
    with atomic_write(run / "config.yaml") as file:
        file.write(recipe.dump())


class Trainer:
    """Runs the stages of one model.

    What a stage needs: `model`, `bare` (the same without its wrapper for many processes), `codec`, `accelerator`,
    `update()`, `progress`, `recipe`, and `beside` for what it trains beside the model.
    """

    def __init__(self, recipe: Recipe, model: Any, codec: Codec, run: Path) -> None:
        self.recipe, self.codec, self.run, self.settings = recipe, codec, run, recipe.training
        self.accelerator = Accelerator(
            cpu=not torch.cuda.is_available(),
            kwargs_handlers=[DistributedDataParallelKwargs(find_unused_parameters=False)],
        )
        self.bare = model
        self.facts: dict[str, Any] = {}
        self.progress = Progress()
        self.stages = stages_of(model)
        self.beside: dict[str, torch.nn.Module | torch.optim.Optimizer] = {}
        self.checkpoint = run / "checkpoint"
        self.averaged: Averaged | None = None
        self.bound: float | None = None  # the perplexity that the best weights may have
        self.own = False  # whether what a stage begins with stays only for want of weights of its own within the bound
        self._since = time.perf_counter()

    def fit(self, train: Sequence[Any], valid: Sequence[Any]) -> dict[str, Any]:
        """Run all stages; the best weights on validation end in the run folder."""
        if hasattr(self.bare, "remember"):
            self.bare.remember(train, self.run / SCRATCH)
        if hasattr(self.bare, "learn_in"):
            self.bare.learn_in(self.settings.precision)
            give_back()  # a large model
        begun = self.checkpoint.is_dir()
        if begun:
            self.progress = load_checkpoint(self.checkpoint, self.bare)
        self.model: Any = self.accelerator.prepare(self.bare)
        for number in range(self.progress.stage, len(self.stages)):
            if number > self.progress.stage:
                self._next_stage(number)
            self._run_stage(self.stages[number], train, valid, resume=begun)
            begun = False
        summary = {
            "system": self.recipe.system,
            "variant": self.recipe.variant,
            "steps": self.progress.step,
            "best_step": self.progress.best_step,
            **({"best_stage": self._best_stage()} if len(self.stages) > 1 else {}),
            f"best_valid_{self.settings.select}": self.progress.best,
            **(
                {"best_valid_ppl": self.progress.best_ppl}
                if self.settings.select != "ppl" and self.progress.best_ppl
                else {}
            ),
            "examples": self.progress.examples,
            "seconds": round(self.progress.seconds, 2),
            "wall_seconds": round(self.progress.wall, 2),
            "examples_per_second": round(self.progress.examples / max(self.progress.seconds, 1e-9), 1),
            "processes": self.accelerator.num_processes,
            "parameters": sum(p.numel() for p in self.bare.parameters()),
            "vocabulary": self.facts,
            "validation": validation_curve(self.run / "metrics.jsonl"),
        }
        if self.accelerator.is_main_process:
            with atomic_write(self.run / "summary.json") as file:
                json.dump(summary, file, indent=1)
            shutil.rmtree(self.checkpoint, ignore_errors=True)
            shutil.rmtree(self.run / SCRATCH, ignore_errors=True)
        self.accelerator.wait_for_everyone()
        return summary

    def update(self) -> None:
        """Apply the gradients that the stage has just computed."""
        if self.settings.clip:
            self.accelerator.clip_grad_norm_(self.trained, self.settings.clip)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        if self.averaged is not None:
            self.averaged.update()

    def _next_stage(self, number: int) -> None:
        """Go on from the best weights of the stage before."""
        if self.stages[number - 1].validates:
            self.accelerator.wait_for_everyone()
            load_best(self.run, self.bare)
        kept = self.progress
        self.progress = Progress(
            stage=number,
            step=kept.step,
            begun=kept.step,
            epoch=kept.epoch,
            seconds=kept.seconds,
            wall=kept.wall,
            examples=kept.examples,
            earlier_ppl=kept.best_ppl or kept.earlier_ppl,
        )

    def _run_stage(self, stage: Stage, train: Sequence[Any], valid: Sequence[Any], resume: bool) -> None:
        self.settings = settings = stage.settings(self.recipe.training, self.bare)
        progress = self.progress
        slack = stage.slack and progress.earlier_ppl and stage.slack * progress.earlier_ppl
        self.bound, self.own = slack or settings.ppl_at_most, bool(slack)
        stage.begin(self)
        groups = stage.groups(self.bare)
        self.trained = [parameter for group in groups for parameter in group["params"]]
        kind = torch.optim.AdamW if settings.optimizer == "adamw" else torch.optim.Adam
        self.optimizer = kind(
            groups,
            lr=1e-9,
            betas=settings.betas,
            eps=settings.eps,
            weight_decay=settings.weight_decay,
            fused=True,
        )
        self.beside.pop(AVERAGED, None)
        self.averaged = Averaged(self.trained, settings.average) if settings.average and stage.validates else None
        if self.averaged is not None:
            self.beside[AVERAGED] = self.averaged
        if resume:
            load_checkpoint(self.checkpoint, self.bare, {**self.beside, "optimizer": self.optimizer})
        per_epoch = math.ceil(len(train) / settings.batch_size)
        total = stage.steps(self.bare) or per_epoch * settings.epochs
        end = progress.begun + total
        reporter = Reporter(self, stage.name, end, len(train))
        stop = False
        with reporter:
            if settings.start and stage.validates and not progress.step:
                self._validate(valid, reporter)
            if stage.slack and progress.best is None:
                self._validate(valid, reporter)
            if progress.stage and not resume:
                self._save()  # an interrupted run never needs an earlier stage again
            while progress.step < end and not stop:
                batches = bucketed(train, settings.batch_size, settings.seed, progress.epoch)
                while progress.batch < len(batches) and progress.step < end and not stop:
                    self._train_step(stage, [train[i] for i in batches[progress.batch]], total, reporter)
                    progress.batch += 1
                    done = progress.step - progress.begun
                    if stage.validates and done % settings.validate_every == 0:
                        stop = self._validate(valid, reporter)
                    if progress.step % settings.checkpoint_every == 0 and not stop:
                        self._save()
                progress.epoch, progress.batch = progress.epoch + 1, 0
            if stage.validates and not stop and (progress.step - progress.begun) % settings.validate_every:
                self._validate(valid, reporter)

    def _train_step(self, stage: Stage, items: list[Any], total: int, reporter: Reporter) -> None:
        settings, progress = self.settings, self.progress
        started = time.perf_counter()
        progress.step += 1
        for group in self.optimizer.param_groups:
            group["lr"] = group["factor"] * rate(
                settings.schedule,
                progress.step - progress.begun,
                peak=settings.lr,
                warmup=settings.warmup,
                total=total,
                d_model=self.bare.config.d_model,
            )
        self.model.train()
        torch.manual_seed(settings.seed * 1_000_003 + progress.step * 101 + self.accelerator.process_index)
        batch = self._batch(items)
        tokens = sum(len(item.response) for item in items)
        terms = self._whole(stage.step(self, batch, tokens, len(items)))
        now = time.perf_counter()
        progress.seconds += now - started
        progress.wall += now - self._since  # with validations and checkpoints
        self._since = now
        progress.examples += len(items)
        reporter.trained(terms, len(items))

    def _batch(self, items: list[Any]) -> dict[str, Tensor]:
        """The whole batch made alike in every process, then this process's rows of it."""
        rng = np.random.default_rng([self.settings.seed, self.progress.step])
        batch = self.codec.training_batch(items, rng)
        count, rank = self.accelerator.num_processes, self.accelerator.process_index
        return {name: value[rank::count].to(self.accelerator.device) for name, value in batch.items()}

    def _whole(self, terms: dict[str, float]) -> dict[str, float]:
        """The sum of the processes' shares, which need not all have the same terms."""
        if self.accelerator.num_processes == 1:
            return terms
        sums: dict[str, float] = {}
        for share in gather_object([terms]):
            for name, value in share.items():
                sums[name] = sums.get(name, 0.0) + value
        return sums

    def _validate(self, valid: Sequence[Any], reporter: Reporter) -> bool:
        """Measure, keep the weights (or their mean) if they are the best so far, and tell whether patience is at its end."""
        if self.averaged is None:
            return self._measured(valid, reporter)
        select = self.settings.select
        last = self.measure(valid)[select]  # of the weights of this step themselves
        with self.averaged.shown():
            return self._measured(valid, reporter, **{f"last_{select}": last})

    def _measured(self, valid: Sequence[Any], reporter: Reporter, **beside: float) -> bool:
        scores, progress, settings = self.measure(valid) | beside, self.progress, self.settings
        better = self._better(scores)
        if better:
            progress.best, progress.best_ppl = scores[settings.select], scores.get("ppl")
            progress.best_step, progress.waited = progress.step, 0
            if self.accelerator.is_main_process:
                if hasattr(self.bare, "calibrate"):
                    self.bare.calibrate(
                        self.codec.collate([valid[i] for i in places]) for places in in_order(valid, 64)
                    )
                save_system(self.run, self.bare)
        elif progress.step > settings.min_steps:
            progress.waited += 1
        reporter.validated(scores, better)
        return progress.waited >= settings.patience

    def _best_stage(self) -> str:
        """The name of the stage whose weights are the best: the last one, or one before if it beat none."""
        number, progress = len(self.stages) - 1, self.progress
        if progress.best_step == progress.begun:
            number = max(i for i in range(number) if self.stages[i].validates)
        return self.stages[number].name

    def _better(self, scores: dict[str, float]) -> bool:
        """Whether weights with these scores are the best so far; with a bound, those within it come first."""
        best, best_ppl, select = self.progress.best, self.progress.best_ppl, self.settings.select
        if best is None:
            return True
        if self.own and self.progress.best_step == self.progress.begun:  # what the stage began with is no rival
            return scores["ppl"] <= (self.bound or 0.0)
        if self.bound is not None and best_ppl is not None:
            within, was = scores["ppl"] <= self.bound, best_ppl <= self.bound
            if not (within and was):
                return within or (not was and scores["ppl"] < best_ppl)
        return scores[select] > best if select.endswith("accuracy") else scores[select] < best

    @torch.inference_mode()
    def measure(self, items: Sequence[Any]) -> dict[str, float]:
        """Perplexity and accuracy, as far as the model has them, over encoded examples, shared among the processes."""
        self.bare.eval()
        sums: dict[str, float] = {}
        count, rank = self.accelerator.num_processes, self.accelerator.process_index
        for number, places in enumerate(in_order(items, 64)):
            if number % count != rank:
                continue
            batch = self.codec.collate([items[i] for i in places])
            terms = self.bare.losses({name: value.to(self.accelerator.device) for name, value in batch.items()}, 1, 1)
            terms["tokens"] = sum(len(items[i].response) for i in places)
            for name, term in terms.items():
                sums[name] = sums.get(name, 0.0) + float(term)
        sums = self._whole(sums)
        scores = {"loss": 0.0}
        if "nll" in sums:
            mean = sums["nll"] / sums["tokens"]
            scores = {"ppl": math.exp(mean), "loss": mean}
        for term, (accuracy, right) in ACCURACIES.items():
            if term in sums:
                scores[accuracy] = sums[right] / len(items)
                scores["loss"] += sums[term] / len(items)
        return scores

    def _save(self) -> None:
        if self.accelerator.is_main_process:
            save_checkpoint(self.checkpoint, self.bare, self.progress, {**self.beside, "optimizer": self.optimizer})
        self.accelerator.wait_for_everyone()


def validation_curve(metrics: Path) -> list[dict[str, Any]]:
    """The validation rows of a run's `metrics.jsonl`."""
    rows = (json.loads(line) for line in metrics.read_text().splitlines())
    return [{key: row[key] for key in row if key != "split"} for row in rows if row["split"] == "valid"]
