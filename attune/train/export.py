"""A run of `attune` as the light runtime loads it: the decoder's adapters as GGUF, the perceiver's weights in half precision; no
torch, no base weights.

They are made from the run's tensors alone, by numpy, and the same run gives the same bytes. Beside them the run itself may stand,
in half precision, for torch. Of a run of `classifier-41` what training added to the encoder is kept, in low rank.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load_file, save_file

from attune.emotion.wording import WORDING
from attune.errors import DataError, MissingError, SettingsError
from attune.files import atomic_dir, sha256
from attune.generate.attune import PERCEIVER
from attune.generate.engines.perceiver import WEIGHTS, differences, packaged
from attune.generate.light import ADAPTER, MORE
from attune.generate.light_labeller import HEAD, factors
from attune.knowledge.sentences import mapped
from attune.models import adapters
from attune.parts import locate
from attune.train.export_adapter import Kind, write_adapter

LABELLER = "classifier-41"
LABELLER_BYTES = 4_700_000  # of the products that are kept of a classifier
TORCH = "torch"  # the folder of an export that holds the run
COMMON = "common.json"  # the phrases that many replies share, if they were gathered for the run
# What the light runtime reads of a run's configuration.
KEPT = ("model_type", "control_tokens", "concepts", "emotion", "label", "longest", "lora_rank")


def export(run: str | Path, out: str | Path, kind: Kind = "q8_0", torch: bool = False) -> dict[str, int]:
    """Write a run of `attune` to a new folder, which takes the place of what is there; gives the size of each file in bytes.

    With `torch` the folder has one for torch too, which opens as the run does as long as it stands in this one. For a run of
    `classifier-41` neither setting has a meaning: see :func:`export_labeller`.
    """
    run, out = Path(run), Path(out)
    config = _config(run, "attune", LABELLER)
    if config["model_type"] == f"attune-{LABELLER}":
        return export_labeller(run, out)
    perceiver = _config(run / PERCEIVER, "perceiver")
    packaged(perceiver)
    if config["decoder"] != "smollm2":
        raise SettingsError(
            f"only a run on the packaged decoder 'smollm2' can be exported, not on '{config['decoder']}'"
        )
    _apart(run, out)
    with atomic_dir(out) as new:
        stayed, added = _parted(_tensors(run), config.get("lora_fixed", 0))
        decoder = config["bases"]["decoder"]["config"]
        for file, tensors in ((ADAPTER, stayed), (MORE, added)):
            if tensors:
                write_adapter(new / file, tensors, decoder, 2.0 * _rank(tensors), kind)
        _there(run / "decoder" / "tokenizer.json")
        _copy(run, new, "config.yaml", COMMON, "decoder/*")
        _copy(run, new, *(f"{PERCEIVER}/{name}" for name in ("config.*", "encoder/*", WORDING)))
        _halve(_tensors(run / PERCEIVER), new / PERCEIVER / WEIGHTS)
        if torch:
            _copy(run, new / TORCH, "config.*", COMMON, "summary.json", "before/**/*.*")  # a training may go on from it
            _halve(stayed, new / TORCH / WEIGHTS)
            if added:
                _halve(added, new / TORCH / adapters.MORE)
        settings = {name: config[name] for name in KEPT} | {"lora_fixed": config.get("lora_fixed", 0)}
        settings["decoder_share"] = config["decoder_share"] if config["emotion_weight"] else 0.0
        settings |= {"family": "light", "decoder": config["decoder"]}
        settings["parts"] = [config["decoder"], perceiver["encoder"]]
        settings["vocabulary"] = config["bases"]["decoder"]["config"]["vocab_size"]
        settings["checksum"] = config["bases"]["decoder"]["checksum"]
        kept = sorted(str(file.relative_to(new)) for name in ("*.gguf", "*/*.safetensors") for file in new.glob(name))
        return _written(new, settings, *kept, "decoder/tokenizer.json")


def export_labeller(run: Path, out: Path, size: int = LABELLER_BYTES) -> dict[str, int]:
    """Write a run of `classifier-41` to a new folder: what it adds to the packaged encoder's layers, in low rank and this size.

    What it adds to the embeddings is left out: it changes little, and would be larger than all else.
    """
    config = _config(run, LABELLER)
    base = packaged(config)
    _apart(run, out)
    tensors = _tensors(run)
    before = mapped(locate(base) / WEIGHTS, base)
    kept: dict[str, Any] = {name: tensors[name].astype(np.float16) for name in HEAD}
    added = differences(tensors, before)
    kept |= {name: value.astype(np.float16) for name, value in added.items() if value.ndim == 1}
    kept |= factors(
        {name: value for name, value in added.items() if name not in kept and "embeddings" not in name}, size
    )
    with atomic_dir(out) as new:
        save_file(kept, new / WEIGHTS)
        _copy(run, new, "config.yaml")
        settings = {
            name: config[name] for name in ("model_type", "encoder", "pooling", "context_tokens", "temperature")
        }
        settings |= {"family": "light-classifier", "parts": [base]}
        settings["bases"] = {"encoder": {"checksum": config["bases"]["encoder"]["checksum"]}}
        return _written(new, settings, WEIGHTS)


def _apart(run: Path, out: Path) -> None:
    if out.resolve() == run.resolve():
        raise SettingsError(f"{out}: the export needs a folder of its own, not the run's")


def _written(new: Path, settings: dict[str, Any], *summed: str) -> dict[str, int]:
    """The sizes of an export's files, once its configuration, with their checksums, is among them."""
    settings["files"] = {name: sha256(new / name) for name in summed}
    (new / "config.json").write_text(json.dumps(settings, indent=2, sort_keys=True) + "\n", encoding="utf-8")
    return {str(file.relative_to(new)): file.stat().st_size for file in sorted(new.rglob("*")) if file.is_file()}


def _copy(source: Path, target: Path, *patterns: str) -> None:
    for file in sorted(file for pattern in patterns for file in source.glob(pattern)):
        copy = target / file.relative_to(source)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, copy)
        if file.name == "config.json":
            copy.write_text(json.dumps(_anywhere(json.loads(copy.read_text())), indent=2) + "\n", encoding="utf-8")


def _anywhere(config: Any) -> Any:
    """A configuration without the places that a base had on the machine of the training."""
    if not isinstance(config, dict):
        return config
    return {key: _anywhere(value) for key, value in config.items() if key != "_name_or_path"}


def _halve(tensors: dict[str, np.ndarray], file: Path) -> None:
    """Weights in half precision."""
    save_file({name: value.astype(np.float16) for name, value in tensors.items()}, file, {"format": "pt"})


def _parted(tensors: dict[str, np.ndarray], fixed: int) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """The adapters as they were at the start of the training, and what it added to them; all is the former where nothing stayed."""
    if not fixed:
        return tensors, {}
    parts = {name: np.split(value, [fixed], adapters.rank_axis(name) or 0) for name, value in tensors.items()}
    stayed, added = ({name: part[side] for name, part in parts.items()} for side in (0, 1))
    return stayed, added


def _rank(tensors: dict[str, np.ndarray]) -> int:
    return next(len(value) for name, value in tensors.items() if adapters.rank_axis(name) == 0)


def _config(run: Path, *systems: str) -> dict[str, Any]:
    """A run's configuration, if it is of one of these systems."""
    file = _there(run / "config.json")
    try:
        found: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
        kind = found["model_type"].removeprefix("attune-")
    except (ValueError, KeyError, AttributeError, TypeError) as error:
        raise DataError(f"{file}: not a run's configuration ({error})") from None
    if kind not in systems:
        known = " and ".join(f"'{system}'" for system in systems)
        raise SettingsError(f"the run at {run} is of '{kind}'; only runs of {known} can be exported here")
    if "family" in found:
        raise SettingsError(f"{run} is an export already; give the run that it was made of")
    return found


def _tensors(run: Path) -> dict[str, np.ndarray]:
    file = _there(run / WEIGHTS)
    try:
        return {name: value.astype(np.float32) for name, value in load_file(file).items()}
    except SafetensorError as error:
        raise DataError(f"{file}: cannot be read ({error})") from None


def _there(file: Path) -> Path:
    if not file.is_file():
        raise MissingError(f"nothing to export: {file} is not there")
    return file
