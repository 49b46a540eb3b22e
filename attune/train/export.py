"""A run of `attune` as the light runtime loads it: the perceiver as ONNX, the decoder's adapters as GGUF; no torch, no base weights.

Both are made from the run's tensors alone, by numpy, and the same run gives the same bytes. Beside them the run itself may stand,
in half precision, for torch.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load_file, save_file

from attune.errors import DataError, MissingError, SettingsError
from attune.files import atomic_dir, sha256
from attune.parts import locate
from attune.train.export_adapter import Kind, write_adapter
from attune.train.export_perceiver import write_perceiver

PERCEIVER, ADAPTER, GRAPH, WEIGHTS = "perceiver", "adapter.gguf", "perceiver.onnx", "model.safetensors"
TORCH = "torch"  # the folder of an export that holds the run
HEADS = ("emotion", "label")
# What the light runtime reads of a run's configuration.
KEPT = ("model_type", "control_tokens", "concepts", "emotion", "label", "longest", "lora_rank")


def export(run: str | Path, out: str | Path, kind: Kind = "q8_0", torch: bool = False) -> dict[str, int]:
    """Write a run of `attune` to a new folder, which takes the place of what is there; gives the size of each file in bytes.

    With `torch` the folder has one for torch too, which opens as the run does.
    """
    run, out = Path(run), Path(out)
    config, perceiver = _config(run, "attune"), _config(run / PERCEIVER, "perceiver")
    if config["decoder"] != "smollm2":
        raise SettingsError(
            f"only a run on the packaged decoder 'smollm2' can be exported, not on '{config['decoder']}'"
        )
    if out.resolve() == run.resolve():
        raise SettingsError(f"{out}: the export needs a folder of its own, not the run's")
    with atomic_dir(out) as new:
        tensors = _tensors(run)
        write_adapter(new / ADAPTER, tensors, config["bases"]["decoder"]["config"], 2.0 * config["lora_rank"], kind)
        export_perceiver(run / PERCEIVER, perceiver, new)
        for role, source in (("decoder", run), ("encoder", run / PERCEIVER)):
            (new / role).mkdir()
            shutil.copyfile(_there(source / role / "tokenizer.json"), new / role / "tokenizer.json")
        if (run / "config.yaml").is_file():  # its recipe, for the decoding
            shutil.copyfile(run / "config.yaml", new / "config.yaml")
        if torch:
            halve(run, new / TORCH)
        settings = {name: config[name] for name in KEPT}
        settings["decoder_share"] = config["decoder_share"] if config["emotion_weight"] else 0.0
        settings |= {"family": "light", "parts": [config["decoder"]], "decoder": config["decoder"]}
        settings["vocabulary"] = config["bases"]["decoder"]["config"]["vocab_size"]
        settings["checksum"] = config["bases"]["decoder"]["checksum"]
        settings["files"] = {name: sha256(new / name) for name in (ADAPTER, GRAPH)}
        (new / "config.json").write_text(json.dumps(settings, indent=2, sort_keys=True) + "\n", encoding="utf-8")
        return {str(file.relative_to(new)): file.stat().st_size for file in sorted(new.rglob("*")) if file.is_file()}


def halve(run: Path, folder: Path) -> None:
    """Copy what opening a run needs, with its weights in half precision."""
    tokenizers = [file for role in (run / "decoder", run / PERCEIVER / "encoder") for file in sorted(role.iterdir())]
    for file in (
        *(place / name for place in (run, run / PERCEIVER) for name in ("config.json", "config.yaml")),
        *tokenizers,
    ):
        if file.is_file():
            copy = folder / file.relative_to(run)
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file, copy)
    for place in (run, run / PERCEIVER):
        halved = {name: value.astype(np.float16) for name, value in _tensors(place).items()}
        save_file(halved, folder / place.relative_to(run) / WEIGHTS, {"format": "pt"})


def export_perceiver(run: Path, config: dict[str, Any], folder: Path) -> None:
    """Write `perceiver.onnx` of a perceiver's run; its logits are calibrated, so their softmax is what `perceive` tells."""
    if config["encoder"] != "minilm":
        raise SettingsError(
            f"only a perceiver on the packaged encoder 'minilm' can be exported, not on '{config['encoder']}'"
        )
    trained = _tensors(run)
    tensors: dict[str, np.ndarray] = {}
    if config["encoder_frozen"] or config["embeddings_frozen"]:
        tensors |= load_file(locate("minilm") / WEIGHTS)
    tensors |= {name.removeprefix("encoder."): value for name, value in trained.items() if name.startswith("encoder.")}
    heads = {}
    for name, temperature in zip(HEADS, config["temperatures"], strict=True):
        heads[name] = trained[f"{name}.weight"] / temperature, trained[f"{name}.bias"] / temperature
    write_perceiver(folder / GRAPH, tensors, heads, pooling=config["pooling"], longest=config["context_tokens"])


def _config(run: Path, system: str) -> dict[str, Any]:
    """A run's configuration, if it is of this system."""
    file = _there(run / "config.json")
    try:
        found: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
        kind = found["model_type"].removeprefix("attune-")
    except (ValueError, KeyError, AttributeError, TypeError) as error:
        raise DataError(f"{file}: not a run's configuration ({error})") from None
    if kind != system:
        raise SettingsError(f"the run at {run} is of '{kind}'; only runs of '{system}' can be exported here")
    if found.get("family") == "light":
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
