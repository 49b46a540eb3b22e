"""Checkpoints: everything a killed run needs to go on to the same weights. Safetensors and JSON, never pickle."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from attune.errors import DataError, SettingsError
from attune.files import atomic_dir
from attune.models.adapters import rank_axis
from attune.models.codec import Codec


@dataclass(slots=True)
class Progress:
    """Where a run stands."""

    stage: int = 0
    step: int = 0
    epoch: int = 0
    batch: int = 0  # batches of this epoch that are done
    best: float | None = None
    best_ppl: float | None = None  # of the weights that are the best
    earlier_ppl: float | None = None  # of the best weights of the stage before
    best_step: int = 0
    waited: int = 0  # validations since the best
    seconds: float = 0.0  # of training steps
    wall: float = 0.0  # of everything since the first step
    examples: int = 0
    sums: dict[str, float] = field(default_factory=dict)  # running training terms since the last record
    begun: int = 0  # the step after which this stage began


Parts = Mapping[str, torch.nn.Module | torch.optim.Optimizer]  # what is trained beside the model, and optimisers


def save_checkpoint(folder: Path, model: torch.nn.Module, progress: Progress, parts: Parts) -> None:
    """Write weights, optimiser states and progress; the previous checkpoint stays until the new one is complete."""
    with atomic_dir(folder) as new:
        save_file(_state(model), new / "model.safetensors")
        for name, part in parts.items():
            tensors = part.state_dict() if isinstance(part, torch.nn.Module) else _optimizer_tensors(part)
            save_file(tensors, new / f"{name}.safetensors")
        (new / "progress.json").write_text(json.dumps(asdict(progress)))


def load_checkpoint(folder: Path, model: torch.nn.Module, parts: Parts | None = None) -> Progress:
    """Restore what :func:`save_checkpoint` wrote; without `parts`, the model alone."""
    try:
        _load(folder / "model.safetensors", model)
        for name, part in (parts or {}).items():
            tensors = load_file(folder / f"{name}.safetensors")
            if isinstance(part, torch.nn.Module):
                part.load_state_dict(tensors)
            else:
                _restore(part, tensors)
        return Progress(**json.loads((folder / "progress.json").read_text()))
    except (OSError, ValueError, RuntimeError, TypeError, SafetensorError) as error:
        raise DataError(f"{folder}: not a checkpoint of this run ({error}); --fresh starts anew") from None


def load_best(folder: Path, model: torch.nn.Module) -> None:
    """Go back to the weights that :func:`save_system` kept."""
    _load(folder / "model.safetensors", model)


def start_from(run: Path, model: Any, codec: Codec) -> None:
    """Give a new model the weights of a finished run of the same system with the same vocabulary.

    It may have adapters on more layers than that run, or of a higher rank; what is more begins as the identity.
    """
    with tempfile.TemporaryDirectory() as folder:
        codec.save(Path(folder))
        for file in sorted(Path(folder).glob("*.json")):
            other = run / file.name
            if not other.is_file() or other.read_bytes() != file.read_bytes():
                raise SettingsError(f"training.start: {run} does not have this recipe's {file.name}")
    try:
        _load(run / "model.safetensors", model, may_lack="lora_")
    except (OSError, ValueError, RuntimeError, SafetensorError) as error:
        raise SettingsError(f"training.start: {run} does not fit this recipe: {' '.join(str(error).split())}") from None


def keep_before(start: Path, run: Path) -> None:
    """Keep beside a run how the training went whose weights it begins with, and what that one kept."""
    if (start / "before").is_dir():
        shutil.copytree(start / "before", run / "before" / "before", dirs_exist_ok=True)
    (run / "before").mkdir(exist_ok=True)
    for name in ("config.yaml", "summary.json"):
        shutil.copyfile(start / name, run / "before" / name)


def _load(file: Path, model: torch.nn.Module, may_lack: str | None = None) -> None:
    tensors, wanted = load_file(file), _state(model).keys()
    lacking = {name for name in wanted - tensors.keys() if may_lack is None or may_lack not in name}
    if lacking or tensors.keys() - wanted:
        raise ValueError("it holds the weights of another model")
    if may_lack:
        tensors = {name: _widened(name, value, _state(model)[name]) for name, value in tensors.items()}
    model.load_state_dict(tensors, strict=False)


def _widened(name: str, value: Tensor, wanted: Tensor) -> Tensor:
    """An adapter's matrix of a lower rank as the first part of the one that is wanted; other weights as they are."""
    axis = rank_axis(name)
    if axis is None or value.shape[axis] >= wanted.shape[axis]:
        return value
    rest = wanted.narrow(axis, value.shape[axis], wanted.shape[axis] - value.shape[axis])
    return torch.cat([value.to(rest), rest], axis)


def save_system(folder: Path, model: Any) -> None:
    """Save the model as a folder that `open_system` reads, file by file in one move each."""
    with atomic_dir(folder / "best.new") as new:
        model.save_pretrained(new)
    for file in (folder / "best.new").iterdir():
        os.replace(file, folder / file.name)
    (folder / "best.new").rmdir()


def _state(model: Any) -> dict[str, Tensor]:
    """The weights to keep. A model on pretrained parts says which: what stays as it was is not copied each time."""
    return model.trained_state() if hasattr(model, "trained_state") else model.state_dict()


def _optimizer_tensors(optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    return {
        f"{index}.{name}": torch.as_tensor(value).clone()
        for index, state in optimizer.state_dict()["state"].items()
        for name, value in state.items()
    }


def _restore(optimizer: torch.optim.Optimizer, tensors: dict[str, Tensor]) -> None:
    state: dict[int, dict[str, Tensor]] = {}
    for key, value in tensors.items():
        index, _, name = key.partition(".")
        state.setdefault(int(index), {})[name] = value
    optimizer.load_state_dict({"state": state, "param_groups": optimizer.state_dict()["param_groups"]})
