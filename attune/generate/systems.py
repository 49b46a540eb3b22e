"""A system as its users meet it: opened from a run folder, offering what it can do (DESIGN 3.5)."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import fields
from pathlib import Path
from typing import NamedTuple, Protocol

import numpy as np
import yaml

from attune.dialogue.types import Context, Example
from attune.errors import DataError, MissingError
from attune.files import sha256
from attune.generate.settings import Decoding
from attune.models import SYSTEMS
from attune.registry import Registry

Progress = Callable[[int], None]  # called with the number of items just done


class Said(NamedTuple):
    """A reply: `prediction` in normal form, `text` as a person sees it."""

    prediction: str
    text: str


class TokenNll(NamedTuple):
    """What a system makes of a reference: total NLL in nats (EOS counted), its tokens, and the bytes hidden behind UNK."""

    nll: float
    tokens: int
    unk_bytes: int = 0


class Answer(NamedTuple):
    """What a system makes of an example, as far as it offers it: what it perceives [32], its likelihood of the reference, its reply."""

    felt: np.ndarray | None = None
    nll: TokenNll | None = None
    said: Said | None = None


class System(Protocol):
    """Capabilities, not kinds: `capabilities` names which of the methods below work."""

    name: str
    path: Path | None
    capabilities: frozenset[str]
    decoding: Decoding

    def reply(
        self,
        contexts: Sequence[Context],
        *,
        decoding: Decoding | None = None,
        seed: int = 0,
        progress: Progress | None = None,
    ) -> list[Said]: ...

    def nll(self, examples: Sequence[Example], *, progress: Progress | None = None) -> list[TokenNll]: ...

    def perceive(self, contexts: Sequence[Context], *, progress: Progress | None = None) -> np.ndarray: ...

    def decide(self, contexts: Sequence[Context], *, progress: Progress | None = None) -> np.ndarray: ...


def open_system(folder: str | Path) -> System:
    """Open a run folder (or the folder of the default system).

    Weights are safetensors and the configuration is JSON: opening a stranger's folder runs none of its code.
    """
    path = Path(folder)
    if not (path / "config.json").is_file():
        known = "a registered system is trained first: attune train " if str(folder) in SYSTEMS else ""
        raise MissingError(
            f"no run at '{folder}' (looked for {path / 'config.json'}); {known}{folder if known else ''}".rstrip("; ")
        )
    try:
        config = json.loads((path / "config.json").read_text())
        name = config.get("model_type", "").removeprefix("attune-")
    except (OSError, ValueError) as error:
        raise DataError(f"{path / 'config.json'}: not a run's configuration ({error})") from None
    return FAMILIES[config.get("family") or SYSTEMS[name].family](path, name)


# A model class names its family; a family knows how a run folder of such a model is opened.
FAMILIES: Registry[Callable[[Path, str], System]] = Registry(
    "family",
    {
        "word": "attune.generate.neural:open_words",
        "pretrained": "attune.generate.pretrained:open_pretrained",
        "classifier": "attune.generate.torch_labeller:open_labeller",
        "perceiver": "attune.generate.pretrained:open_perceiver",
        "attune": "attune.generate.pretrained:open_attune",
        "light": "attune.generate.light:open_light",  # an export says so itself: no torch is asked
        "light-classifier": "attune.generate.light_labeller:open_light_labeller",
    },
)


def needed(path: Path, *files: str) -> None:
    """Make sure that a run folder has these files."""
    for file in files:
        if not (path / file).is_file():
            raise MissingError(f"the run at {path} lacks {file}; it may have been stopped before its first save")


def intact(path: Path, *files: str) -> None:
    """Compare files of an export with the sums in its configuration, as far as it has them; a run has none."""
    sums = json.loads((path / "config.json").read_text(encoding="utf-8")).get("files") or {}
    for file in files:
        if file in sums and sha256(path / file) != sums[file]:
            raise DataError(f"{path / file}: its checksum is not the one in config.json; fetch or export it again")


def told(found: np.ndarray, progress: Progress | None) -> np.ndarray:
    """An answer about all contexts at once, with the progress that it was."""
    if progress:
        progress(len(found))
    return found


def run_decoding(path: Path) -> Decoding:
    """The decoding that a run's recipe asks for."""
    settings = {}
    if (path / "config.yaml").is_file():
        settings = yaml.safe_load((path / "config.yaml").read_text()).get("decoding", {})
    known = {field.name for field in fields(Decoding)}
    return Decoding(**{key: value for key, value in settings.items() if key in known})
