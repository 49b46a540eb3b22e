"""The model card of a system: what it is made of, what it took, what it scores, what it must not be used for.

Every figure is read from the run's own files and from results folders; nothing is typed in by hand.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import yaml

from attune.errors import DataError, MissingError
from attune.evaluate.scores import Scores
from attune.evaluate.tables import run_table
from attune.evaluate.trainings import trainings
from attune.files import atomic_write
from attune.knowledge.sources import SOURCES
from attune.models import SYSTEMS
from attune.parts import PARTS

CARD = "MODEL_CARD.md"
_SUBRUNS = ("perceiver",)  # folders of a run that are runs themselves
_DATA = {
    "empathetic_dialogues": (
        "EmpatheticDialogues (Rashkin et al., 2019), CC BY-NC 4.0: not for commercial use. So the weights are CC BY-NC 4.0 too."
    ),
    "empathetic_intents/train_data": (
        "The labelled utterances of Welivita and Pu (2020), a public research release without a licence, on top of "
        "EmpatheticDialogues (CC BY-NC 4.0). So the weights are for non-commercial use."
    ),
}
_LABELS = (
    "Labels of the turns: those of the corpus's JSONL release, as the classifier of Welivita and Pu (2020) predicted them; "
    "no person gave them."
)
_KNOWLEDGE = ("vad-warriner", "wordvectors")  # parts that CKECE reads beside ConceptNet
_LIMITS = """## Limits

- It learnt from conversations of a few turns between crowd workers, in American English, about invented or remembered situations.
  It knows nothing of you, of today, or of facts; what it says about the world may be false.
- The 32 emotions are those of the corpus. What it perceives is a guess about words, not about a person; it is often wrong.
- Replies can be dull, odd, or miss the point; a small network has small reserves.
- It was scored against one reference per context, by programs. That says little about how people would judge it.

## Safety

It is a machine, not a therapist and not a crisis service. Talk to it through the agent (`attune chat`, `attune serve`,
`attune.load()`), whose guard answers people at risk with a message written by people; the bare weights have no guard.
`docs/safety.md` says what the guard does and does not promise.
"""


def write_card(run: str | Path, results: Sequence[str | Path] = (), out: str | Path | None = None) -> Path:
    """Write the card of a run (or of its export) with the scores of these results folders."""
    run = Path(run)
    if not (run / "config.yaml").is_file():
        raise MissingError(f"no run at {run} (looked for {run / 'config.yaml'})")
    target = Path(out) if out else run / CARD
    with atomic_write(target) as file:
        file.write(card(run, [Scores.read(folder) for folder in results]))
    return target


def card(run: Path, scores: Sequence[Scores]) -> str:
    """The text of the card."""
    return "\n".join(_sections(run, _recipe(run), scores)) + "\n"


def _recipe(run: Path) -> dict[str, Any]:
    recipe = yaml.safe_load((run / "config.yaml").read_text(encoding="utf-8"))
    if not isinstance(recipe, dict) or recipe.get("system") not in SYSTEMS:
        raise DataError(f"{run / 'config.yaml'}: not a run's recipe")
    return recipe


def _command(recipe: dict[str, Any]) -> str:
    variant = "" if recipe["variant"] in ("paper", "default") else f" --variant {recipe['variant']}"
    return f"`attune train {recipe['system']}{variant}`"


def _sections(run: Path, recipe: dict[str, Any], scores: Sequence[Scores]) -> Iterator[str]:
    kind = SYSTEMS[recipe["system"]]
    yield f"# {recipe['system']}, variant `{recipe['variant']}`\n"
    yield f"{recipe['about']}\n" if recipe.get("about") else ""
    yield "Written by `attune card` from the run and its results; do not edit.\n"
    yield "## Data and licences\n"
    yield f"- Trained on: {_DATA.get(kind.corpus, kind.corpus)}"
    if kind.turn_labels:
        yield f"- {_LABELS}"
    if getattr(kind.config_class(**recipe["model"]), "concepts", 0):
        yield f"- Knowledge, read in training and in use: ConceptNet 4, which comes with Attune ({SOURCES['conceptnet4'].licence})"
        yield from (f"- Knowledge, read in training and in use: {_part(name)}" for name in _KNOWLEDGE)
    yield from (f"- Base: {line}" for line in _bases(run))
    yield "- The code is Apache-2.0.\n"
    yield "## Training\n"
    *earlier, _ = trainings(run)
    if earlier:
        yield f"First {', then '.join(_command(_recipe(folder)) for folder in earlier)}, each from the weights of the one before. Last\n"
    yield f"{_command(recipe)}, with this recipe:\n"
    shown = {key: recipe[key] for key in ("model", "text", "training", "decoding") if recipe.get(key)}
    yield f"```yaml\n{yaml.safe_dump(shown, sort_keys=False, allow_unicode=True).rstrip()}\n```\n"
    for folder in earlier:
        yield from _training(folder, f"`{_recipe(folder)['variant']}`")
    yield from _training(run, "It")
    for name in _SUBRUNS:
        yield from _training(run / name, f"The {name} in it")
    yield "## Scores\n"
    if not scores:
        yield "None yet.\n"
    for one in scores:
        yield f"{one.title}, on the split {one.signature.split} of {kind.corpus}:\n"
        yield run_table(one).markdown()
        yield f"\nSignature: `{one.signature}`\n"
    yield _LIMITS


def _bases(run: Path) -> Iterator[str]:
    """The pretrained parts below a run, told by its configurations."""
    seen = set()
    for folder in (run, *(run / name for name in _SUBRUNS)):
        try:
            config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        except (OSError, ValueError):
            continue
        for name in [*(config.get("bases") or {}), *config.get("parts", [])]:
            base = config.get(name, name)
            if base not in seen:
                seen.add(base)
                yield _part(base) if base in PARTS else f"`{base}`"


def _part(name: str) -> str:
    part = PARTS[name]
    return f"`{name}`, {part.why} ({part.requirement}, {part.licence})"


def _training(run: Path, what: str) -> Iterator[str]:
    if not (run / "summary.json").is_file():
        return
    told = json.loads((run / "summary.json").read_text(encoding="utf-8"))
    best = next(
        (f"{key.removeprefix('best_valid_')} {told[key]:.4g}" for key in told if key.startswith("best_valid_")), ""
    )
    yield (
        f"{what} took {told['seconds'] / 3600:.1f} hours, {told['steps']:,} steps and {told['examples']:,} examples; "
        f"{told['parameters'] / 1e6:.1f} M parameters; the best on validation was step {told['best_step']:,} ({best}).\n"
    )
