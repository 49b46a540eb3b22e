"""What a training tells: a progress bar for people, `metrics.jsonl` for programs, TensorBoard if asked for."""

from __future__ import annotations

import json
import sys
import time
from typing import TYPE_CHECKING, Any

import torch
from accelerate import PartialState
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

if TYPE_CHECKING:
    from attune.train.trainer import Trainer

EVERY = 100  # steps between two records of the training loss


def tell(line: str) -> None:
    """Say what is done now; only the main process speaks."""
    main = PartialState(cpu=not torch.cuda.is_available()).is_main_process
    console = Console(stderr=True, quiet=not main, markup=False, highlight=False)
    console.print(f"{time.strftime('%H:%M:%S')}  {line}", soft_wrap=True)


class Reporter:
    """Only the main process speaks. Without a terminal a line is printed for each record instead of a bar."""

    def __init__(self, trainer: Trainer, stage: str, total: int, size: int) -> None:
        self.trainer, self.stage, self.total = trainer, stage, total
        self.main = trainer.accelerator.is_main_process
        self.console = Console(stderr=True, quiet=not self.main)
        self.bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.completed:,.0f}/{task.total:,.0f} steps  {task.fields[state]}"),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            console=self.console,
            disable=not (self.main and sys.stderr.isatty()),
        )
        self.board: Any = None

    def __enter__(self) -> Reporter:
        progress = self.trainer.progress
        self.file = self.trainer.run / "metrics.jsonl"
        if self.main:
            kept = []
            if self.file.is_file():  # a resumed run forgets what came after its checkpoint
                kept = [
                    line for line in self.file.read_text().splitlines() if json.loads(line)["step"] <= progress.step
                ]
            self.file.write_text("".join(line + "\n" for line in kept))
            if self.trainer.settings.tensorboard:
                from torch.utils.tensorboard import SummaryWriter

                self.board = SummaryWriter(str(self.trainer.run / "tensorboard"))
        self.task = self.bar.add_task(self.trainer.recipe.system, total=self.total, completed=progress.step, state="")
        self.bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.bar.stop()
        if self.board is not None:
            self.board.close()

    def trained(self, terms: dict[str, float], examples: int) -> None:
        progress = self.trainer.progress
        sums = progress.sums
        for name, value in {**terms, "count": 1.0}.items():
            sums[name] = sums.get(name, 0.0) + value
        rate = progress.examples / max(progress.seconds, 1e-9)
        state = f"loss {sums.get('nll', 0) / sums['count']:.3f}  {rate:.0f} examples/s"
        self.bar.update(self.task, completed=progress.step, state=state)
        if progress.step % EVERY == 0:
            count = sums.pop("count")
            self._record("train", {name: value / count for name, value in sums.items()} | {"examples_per_second": rate})
            progress.sums = {}

    def validated(self, scores: dict[str, float], better: bool) -> None:
        self._record("valid", scores | {"best": float(better)})

    def _record(self, split: str, scores: dict[str, float]) -> None:
        if not self.main:
            return
        progress = self.trainer.progress
        row = {"step": progress.step, "epoch": progress.epoch, "stage": self.stage, "split": split}
        row |= {name: round(value, 6) for name, value in scores.items()} | {"seconds": round(progress.seconds, 1)}
        with self.file.open("a") as file:
            file.write(json.dumps(row) + "\n")
        if self.board is not None:
            for name, value in scores.items():
                self.board.add_scalar(f"{split}/{name}", value, progress.step)
        if split == "valid" or self.bar.disable:
            shown = "  ".join(f"{name} {value:.4g}" for name, value in scores.items())
            self.console.print(f"{time.strftime('%H:%M:%S')}  step {progress.step}/{self.total}  {split}  {shown}")
