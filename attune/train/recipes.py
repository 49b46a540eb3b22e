"""Recipes: one commented YAML per system, every key checked when it is read."""

from __future__ import annotations

import copy
import re
from dataclasses import asdict
from pathlib import Path
from typing import Any, Literal, get_type_hints

import yaml
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError
from transformers import PreTrainedConfig

from attune.errors import MissingError, SettingsError, did_you_mean
from attune.generate.settings import Decoding
from attune.models import RECIPES, SYSTEMS


class _Loader(yaml.SafeLoader):
    """Reads `1e-4` as the number it is; to PyYAML alone it is a word, and only `1.0e-4` a number."""


_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float", re.compile(r"[-+]?\d+\.?\d*[eE][-+]?\d+$"), list("-+0123456789")
)


class Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class TextSettings(Section):
    """How text becomes ids."""

    vocabulary: Literal["train", "all-splits"] = "train"
    """Words of the training turns, or of all splits: the latter only to compare with published figures."""
    unk_singletons: float = Field(0.5, ge=0, le=1)
    """How often a word that training has once becomes UNK there, so that UNK is learnt."""
    word_dropout: float = Field(0.0, ge=0, lt=1)
    """How often any word that is read becomes UNK in training (word-level systems), so that none is learnt by heart."""
    vectors: str | None = None
    """GloVe or fastText text file to start the word vectors from: a path, or a path below ATTUNE_DATA."""
    perceiver: str | None = None
    """Run of the system `perceiver` (for `attune`), or the variant of it that is trained first, beside the run. Without it,
    that of the run which training starts with, or the base variant."""
    annotations: str | None = None
    """Folder of `attune knowledge annotate` over the corpus; without it, they are made once and kept in the cache."""


class TrainingSettings(Section):
    """How the weights are found."""

    protocol: str = "listener-turns"
    """The protocol that makes the training examples; validation is always on listener-turns."""
    corpus: str | None = None
    """The folder below ATTUNE_DATA that is learnt from when no other is given; without it, the one that the system is made for."""
    skip: int = Field(0, ge=0)
    """Leave out this many of the first training examples (to go on with those that another training left)."""
    limit: int | None = Field(None, ge=1)
    """Use only this many training examples (for ablations and trials)."""
    start: str | None = None
    """A finished run of the same system whose weights training begins with, or the variant of it that is trained first, beside
    the run. They stay the best until others beat them."""
    valid_limit: int | None = Field(None, ge=1)
    """Validate on only this many examples, the first ones (for systems that read slowly)."""
    batch_size: int = Field(16, ge=1)
    epochs: int = Field(20, ge=1)
    """At most this many passes over the training examples."""
    optimizer: Literal["adam", "adamw"] = "adam"
    lr: float = Field(1e-4, gt=0)
    """Peak learning rate. With schedule noam: the factor in front of d_model ** -0.5."""
    schedule: Literal["noam", "linear", "constant"] = "noam"
    """noam: warm up, then 1/√step. linear: warm up, then down to zero over `epochs`. constant: warm up, then flat."""
    warmup: int = Field(8000, ge=1)
    """Steps of warm-up."""
    betas: tuple[float, float] = (0.9, 0.98)
    eps: float = Field(1e-9, gt=0)
    weight_decay: float = Field(0.0, ge=0)
    precision: Literal["full", "bf16"] = "full"
    """bf16: in training the products of matrices are taken in 16 bits, twice as fast on processors that can; the weights and
    what is measured on validation stay in full precision. Stages other than maximum-likelihood are always in full."""
    clip: float = Field(0.0, ge=0)
    """Largest gradient norm; 0 leaves gradients alone."""
    average: float = Field(0.0, ge=0, lt=1)
    """Validate and keep the mean of the weights over the steps, each counting so much of the one after it; 0: the weights."""
    validate_every: int = Field(2000, ge=1)
    """Steps between validations."""
    select: Literal["ppl", "loss", "emotion_accuracy", "label_accuracy", "accuracy"] = "ppl"
    """What makes a checkpoint the best on validation."""
    ppl_at_most: float | None = Field(None, gt=1)
    """Only weights with at most this perplexity on validation can be the best, once there are any; before, the lowest is."""
    patience: int = Field(3, ge=1)
    """Stop after this many validations without a better one."""
    min_steps: int = Field(0, ge=0)
    """Validations before this step do not count against patience."""
    checkpoint_every: int = Field(500, ge=1)
    """Steps between checkpoints to resume from."""
    seed: int = 0
    tensorboard: bool = False
    """Also write TensorBoard event files into the run."""


class Recipe(Section):
    """Everything that makes a run: the folder's `config.yaml` is a dump of it."""

    system: str
    variant: str = "paper"
    about: str = ""
    """One sentence for people: what this variant is, what it costs and scores here."""
    model: dict[str, Any] = {}
    """Keys of the system's own configuration class."""
    text: TextSettings = TextSettings()
    training: TrainingSettings = TrainingSettings()
    decoding: dict[str, Any] = {}

    def decode(self) -> Decoding:
        return Decoding(**self.decoding)

    def same_run(self, other: Recipe) -> bool:
        """Whether both make the same run: what one leaves out has its default, and the words about it do not count."""
        return self.variant == other.variant and self.settled() == other.settled()

    def settled(self) -> dict[str, Any]:
        """Every setting that makes the run, by `section.key`, with its default where the recipe leaves it out."""
        sections = {
            "model": SYSTEMS[self.system].config_class(**self.model).to_dict(),
            "text": self.text.model_dump(),
            "training": self.training.model_dump(),
            "decoding": asdict(self.decode()),
        }
        flat = {f"{name}.{key}": value for name, section in sections.items() for key, value in section.items()}
        return {"system": self.system, **flat}

    def dump(self) -> str:
        return yaml.safe_dump(self.model_dump(mode="json"), sort_keys=False, allow_unicode=True)


def load_recipe(system: str, variant: str | None = None, sets: list[str] | None = None) -> Recipe:
    """A system's recipe by name (`emoprepend`) or file (`mine.yaml`), its variant, and `section.key=value` on top."""
    path = Path(system)
    if path.suffix in (".yaml", ".yml"):
        if not path.is_file():
            raise MissingError(f"no recipe file at {path}")
    else:
        if system not in SYSTEMS:
            raise SettingsError(did_you_mean(system, SYSTEMS, "system"))
        path = RECIPES / f"{system}.yaml"
    try:
        raw = _read(path.read_text(encoding="utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise SettingsError(f"{path}: not YAML: {' '.join(str(error).split())}") from None
    if not isinstance(raw, dict):
        raise SettingsError(f"{path}: expected keys and values, found {type(raw).__name__}")
    variants = raw.pop("variants", None) or {}
    if variant and variant != raw.get("variant", "paper"):
        raw = merge(_on(raw, variants, variant, system), {"variant": variant})
    for item in sets or []:
        key, equals, value = item.partition("=")
        if not equals:
            raise SettingsError(f"--set takes section.key=value, not '{item}'")
        put: Any = _read(value)
        for part in reversed(key.split(".")):
            put = {part: put}
        raw = merge(raw, put)
    return check(raw, str(path))


def _read(text: str) -> Any:
    return yaml.load(text, _Loader)


def _on(raw: dict[str, Any], variants: dict[str, Any], name: str, system: str) -> dict[str, Any]:
    """The settings of a variant: on top of the base, or of the variant that it names with `from`."""
    if name not in variants:
        raise SettingsError(did_you_mean(name, [*variants, raw.get("variant", "paper")], f"variant of {system}"))
    own = dict(variants[name])
    below = own.pop("from", None)
    return merge(_on(raw, variants, below, system) if below else raw, own)


def variants(system: str) -> list[str]:
    """The names of a system's variants, its base variant first."""
    raw = _read((RECIPES / f"{system}.yaml").read_text(encoding="utf-8"))
    return [raw.get("variant", "paper"), *(raw.get("variants") or {})]


def check(raw: dict[str, Any], source: str) -> Recipe:
    """Validate a recipe completely: an unknown key or a conflict is found now, not an hour later."""
    try:
        recipe = Recipe.model_validate(raw)
    except ValidationError as error:
        raise SettingsError(f"{source}: {_explain(error)}") from None
    if recipe.system not in SYSTEMS:
        raise SettingsError(f"{source}: " + did_you_mean(recipe.system, SYSTEMS, "system"))
    config_class = SYSTEMS[recipe.system].config_class
    kinds = _model_keys(config_class)
    for key, value in recipe.model.items():
        if key not in kinds:
            raise SettingsError(f"{source}: " + did_you_mean(key, kinds, "key of model:"))
        try:
            TypeAdapter(kinds[key]).validate_python(value)
        except ValidationError as error:
            raise SettingsError(f"{source}: model.{key}: {error.errors()[0]['msg']}, not {value!r}") from None
    for key in recipe.decoding:
        if key not in Decoding.__dataclass_fields__:
            raise SettingsError(f"{source}: " + did_you_mean(key, Decoding.__dataclass_fields__, "key of decoding:"))
    try:
        config = config_class(**recipe.model)
        recipe.decode()
        if recipe.training.select not in config.measures:
            raise SettingsError("training.select: " + did_you_mean(recipe.training.select, config.measures, "measure"))
    except SettingsError as error:
        raise SettingsError(f"{source}: {error}") from None
    return recipe


def _model_keys(config_class: Any) -> dict[str, Any]:
    """The keys that a system's configuration class declares itself, with their types."""
    found: dict[str, Any] = {}
    for c in config_class.__mro__:
        if issubclass(c, PreTrainedConfig) and c is not PreTrainedConfig:
            own = {key: kind for key, kind in vars(c).get("__annotations__", {}).items() if key not in found}
            found |= get_type_hints(type(c.__name__, (), {"__annotations__": own, "__module__": c.__module__}))
        elif c is PreTrainedConfig:
            break
    return found


def merge(base: dict[str, Any], over: dict[str, Any]) -> dict[str, Any]:
    """`over` on top of `base`, section by section.

    >>> merge({"a": {"x": 1, "y": 2}}, {"a": {"y": 3}})
    {'a': {'x': 1, 'y': 3}}
    """
    out = copy.deepcopy(base)
    for key, value in over.items():
        out[key] = merge(out[key], value) if isinstance(value, dict) and isinstance(out.get(key), dict) else value
    return out


def _explain(error: ValidationError) -> str:
    first = error.errors()[0]
    where = [str(part) for part in first["loc"]]
    if first["type"] == "extra_forbidden":
        section: Any = Recipe
        for part in where[:-1]:
            section = section.model_fields[part].annotation
        place = f"key of {where[-2]}:" if len(where) > 1 else "key"
        return did_you_mean(where[-1], section.model_fields, place)
    return f"{'.'.join(where)}: {first['msg']}, not {first['input']!r}"
