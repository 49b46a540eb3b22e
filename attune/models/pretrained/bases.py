"""A pretrained encoder or decoder by its name: a packaged default, a folder, or a model of the Hugging Face hub.

Weights are safetensors (or the packaged GGUF), never pickles, and no code of a checkpoint is ever run.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import torch
from filelock import FileLock
from safetensors import SafetensorError
from transformers import AutoConfig, AutoModel, AutoModelForCausalLM, AutoTokenizer, GgufConfig, PreTrainedConfig
from transformers.models.auto.modeling_auto import (
    MODEL_FOR_CAUSAL_LM_MAPPING,
    MODEL_FOR_CAUSAL_LM_MAPPING_NAMES,
    MODEL_FOR_MASKED_LM_MAPPING_NAMES,
    MODEL_MAPPING,
)
from transformers.utils import logging

from attune.errors import DataError, MissingError, SettingsError, did_you_mean
from attune.files import atomic_dir, cache_dir, sha256
from attune.parts import PARTS, locate

Role = Literal["encoder", "decoder"]
PACKAGED: dict[str, Role] = {"minilm": "encoder", "mpnet": "encoder", "smollm2": "decoder"}  # parts
NATIVE_CROSS = ("gpt2",)  # decoders with cross-attention of their own

_WEIGHTS = ("model.safetensors", "model.safetensors.index.json")
_TOKENIZERS = (("tokenizer.json",), ("vocab.json", "merges.txt"), ("vocab.txt",), ("tokenizer.model",))
_HUB_FILES = ["config.json", "*.safetensors", "model.safetensors.index.json", "tokenizer*", "vocab.*", "merges.txt"]
_HUB_FILES += ["special_tokens_map.json", "added_tokens.json"]
# What a checkpoint may lack: parts that are made anew, or that are taken off.
_NEW = ("crossattention", "ln_cross_attn", "pooler", "position_ids")


@dataclass(frozen=True)
class Base:
    """A checkpoint that a system stands on.

    >>> find_base("minilm", "encoder").config.hidden_size
    384
    """

    name: str
    role: Role
    folder: Path

    @cached_property
    def config(self) -> PreTrainedConfig:
        """Its architecture. A GPT-2 decoder gets cross-attention here."""
        config = AutoConfig.from_pretrained(self.folder)
        if self.role == "decoder" and config.model_type in NATIVE_CROSS:
            config.add_cross_attention = True
        return config

    @cached_property
    def checksum(self) -> str:
        """Of its weights: the part's pinned one, or that of the files."""
        if self.name in PACKAGED:
            files = PARTS[self.name].files
            return next(value for file, value in files.items() if file.endswith((".safetensors", ".gguf")))
        sums = [sha256(file) for file in sorted(self.folder.glob("model*.safetensors"))]
        return sums[0] if len(sums) == 1 else hashlib.sha256("".join(sums).encode()).hexdigest()

    def tokenizer(self) -> Any:
        return open_tokenizer(self.folder)

    def load(self) -> Any:
        """Its weights, in single precision. Tensors that the checkpoint lacks are an error, not left random."""
        auto: Any = AutoModel if self.role == "encoder" else AutoModelForCausalLM
        with quiet():
            try:
                model, told = auto.from_pretrained(
                    self.folder,
                    config=self.config,
                    dtype=torch.float32,
                    attn_implementation=attention(self.config, self.role),
                    use_safetensors=True,
                    output_loading_info=True,
                )
            except (OSError, ValueError, RuntimeError, SafetensorError) as error:
                raise DataError(f"{self.role} '{self.name}' in {self.folder}: {_first_line(error)}") from None
        lacking = sorted(key for key in told["missing_keys"] if not any(part in key for part in _NEW))
        if lacking:
            raise DataError(
                f"{self.role} '{self.name}' in {self.folder}: its weights lack {len(lacking)} tensors that its "
                f"config.json asks for, such as {lacking[0]}"
            )
        return model


def attention(config: PreTrainedConfig, role: Role) -> str:
    """How a model of transformers computes attention: the fast way, if it knows it (MPNet, with its own biases, does not)."""
    kinds = MODEL_MAPPING if role == "encoder" else MODEL_FOR_CAUSAL_LM_MAPPING
    kind = kinds.get(type(config), None)
    return "eager" if kind is not None and not getattr(kind, "_supports_sdpa", False) else "sdpa"


def find_base(name: str, role: Role) -> Base:
    """The checkpoint of a name, with everything that a system needs of it, or an error that says what to do."""
    if name in PACKAGED:
        if PACKAGED[name] != role:
            right = next(other for other, kind in PACKAGED.items() if kind == role)
            raise SettingsError(
                f"'{name}' is packaged as the {PACKAGED[name]}, not the {role}; the {role} is '{right}'"
            )
        folder = _unpacked_smollm2() if name == "smollm2" else locate(name)
    elif Path(name).is_dir():
        folder = Path(name)
    elif Path(name).exists() or name.startswith((".", "/", "~")) or name.count("/") > 1:
        raise MissingError(f"no folder at {name}; {_choices(role)}")
    else:
        folder = _from_hub(name, role)
    base = Base(name, role, folder)
    _check_files(base)
    _check_role(base)
    return base


def open_tokenizer(folder: Path) -> Any:
    """The fast tokenizer of a checkpoint or run folder, without cutting and padding of its own."""
    try:
        with quiet():
            tokenizer = AutoTokenizer.from_pretrained(folder)
    except (OSError, ValueError) as error:
        raise DataError(f"{folder}: its tokenizer cannot be opened ({_first_line(error)})") from None
    tokenizer.backend_tokenizer.no_truncation()
    tokenizer.backend_tokenizer.no_padding()
    return tokenizer


@contextmanager
def quiet() -> Iterator[None]:
    """Without transformers' own reports; what matters in them is checked here."""
    before = logging.get_verbosity()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(before)


def _choices(role: Role) -> str:
    packaged = next(name for name, kind in PACKAGED.items() if kind == role)
    article = "an" if role == "encoder" else "a"
    return f"{article} {role} is the packaged '{packaged}', a folder with config.json, model.safetensors and tokenizer.json, or a hub name"


def _from_hub(name: str, role: Role) -> Path:
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError, RepositoryNotFoundError

    offline = os.environ.get("ATTUNE_OFFLINE", "0") not in ("", "0")
    try:
        return Path(snapshot_download(name, allow_patterns=_HUB_FILES, local_files_only=offline))
    except HFValidationError:
        raise SettingsError(f"{did_you_mean(name, PACKAGED, role)}; {_choices(role)}") from None
    except RepositoryNotFoundError:
        raise MissingError(f"the hub has no model '{name}', or it is not public; {_choices(role)}") from None
    except (HfHubHTTPError, OSError) as error:
        why = "ATTUNE_OFFLINE is set" if offline else _first_line(error)
        raise MissingError(
            f"{role} '{name}': it is not in the hub's cache on this machine, and the hub cannot be reached ({why}); "
            f"fetch it where there is a network, or use another: {_choices(role)}"
        ) from None


def _check_files(base: Base) -> None:
    there = {file.name for file in base.folder.iterdir()}
    lacking = [] if "config.json" in there else ["config.json"]
    if not there & set(_WEIGHTS):
        pickled = sorted(name for name in there if name.endswith((".bin", ".pt", ".ckpt")))
        note = f" ({pickled[0]} is a pickle, which is never opened: save it as safetensors)" if pickled else ""
        lacking.append(f"model.safetensors{note}")
    elif _WEIGHTS[0] not in there:
        shards = set(json.loads((base.folder / _WEIGHTS[1]).read_text(encoding="utf-8"))["weight_map"].values())
        lacking += sorted(shards - there)
    if not any(there.issuperset(files) for files in _TOKENIZERS):
        lacking.append("tokenizer.json")
    if lacking:
        raise MissingError(f"{base.role} '{base.name}': the folder {base.folder} lacks {', '.join(lacking)}")


def _check_role(base: Base) -> None:
    """An encoder reads both ways (trained to fill masks), a decoder speaks from left to right."""
    try:
        kind, both = base.config.model_type, base.config.is_encoder_decoder
    except (OSError, ValueError) as error:
        raise DataError(f"{base.folder / 'config.json'}: {_first_line(error)}") from None
    reads = kind in MODEL_FOR_MASKED_LM_MAPPING_NAMES
    speaks = kind in MODEL_FOR_CAUSAL_LM_MAPPING_NAMES and not reads
    if both or not (reads if base.role == "encoder" else speaks):
        found = "both in one" if both else "an encoder" if reads else "a decoder" if speaks else "neither of the two"
        raise SettingsError(f"'{base.name}' was given as {base.role} but is {found} ({kind}); {_choices(base.role)}")


def _unpacked_smollm2() -> Path:
    """The packaged decoder with its weights in single precision: unpacked once, then kept in the cache."""
    import gguf  # noqa: F401  transformers reads the file with it

    part = PARTS["smollm2"]
    folder = cache_dir() / "bases" / f"smollm2-{part.version}"
    done = ("config.json", "model.safetensors", "tokenizer.json")
    if all((folder / file).is_file() for file in done):
        return folder
    packed = locate("smollm2")
    folder.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(folder.parent / "smollm2.lock"):
        if all((folder / file).is_file() for file in done):  # another process was quicker
            return folder
        print("smollm2: unpacking the language model, once; this takes a minute or two", file=sys.stderr)
        with quiet(), atomic_dir(folder) as new:
            AutoTokenizer.from_pretrained(packed.parent, gguf_file=packed.name).save_pretrained(new)
            AutoModelForCausalLM.from_pretrained(
                packed.parent,
                gguf_file=packed.name,
                dtype=torch.float32,
                quantization_config=GgufConfig(dequantize=True),
            ).save_pretrained(new)
    return folder


def _first_line(error: BaseException) -> str:
    return str(error).strip().split("\n")[0][:200]
