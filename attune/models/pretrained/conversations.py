"""Dialogues for a causal decoder that reads controls: whole ones to learn from, and prompts to answer."""

from __future__ import annotations

import shutil
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import torch

from attune.dialogue.text import normal_form
from attune.dialogue.types import Context, Example
from attune.emotion.taxonomy import EMOTION_ID
from attune.errors import SettingsError
from attune.models.pretrained.speaking import IGNORE
from attune.models.pretrained.tokens import Batch, pad, real
from attune.models.pretrained.ways import CommonWays
from attune.models.prompt import NOTHING_KNOWN, Control, Prompts

Controls = Callable[[Sequence[Example]], list[Control]]  # examples → what is known, from their contexts alone


@dataclass(frozen=True, slots=True)
class Asked:
    """One example as ids: the prompt, whose last token is `bos`, and the response with its end (empty: a context alone)."""

    context: np.ndarray  # [P] int32
    response: np.ndarray  # [T] int32
    hidden: int = 0  # sub-words know all

    @property
    def size(self) -> int:
        return len(self.context) + len(self.response)


@dataclass(frozen=True, slots=True)
class Conversation:
    """A whole dialogue as ids. `target` has at each place the token that is to be said next, or IGNORE."""

    ids: np.ndarray  # [S] int32
    target: np.ndarray  # [S] int32
    felt: np.ndarray  # [S] int32: where a control is about to begin, the token of the emotion; else IGNORE
    row: int = -1  # its number in the training set
    common: np.ndarray | None = None  # [S] int32: where most replies would go on otherwise, their token; else IGNORE

    @property
    def response(self) -> np.ndarray:
        """All its targets."""
        return self.target[self.target != IGNORE]

    @property
    def size(self) -> int:
        return len(self.ids)


class ConversationCodec:
    """Text ↔ tensors. `controls` tells what is known before each listener turn; by itself, nothing is."""

    pad = IGNORE

    def __init__(self, config: Any, tokenizers: dict[str, Any]) -> None:
        self.config, self.tokenizer = config, tokenizers["decoder"]
        self.prompts = Prompts(self.tokenizer.backend_tokenizer, config.control_tokens, config.longest)
        self.eos = self.prompts.eos
        (self.bos,) = self.prompts.ids("\n")
        settings = config.bases["decoder"]["config"]
        if config.longest > settings["max_position_embeddings"]:
            raise SettingsError(f"longest must be at most {settings['max_position_embeddings']} with this decoder")
        unused = range(len(self.tokenizer), settings["vocab_size"])
        self.forbidden: Sequence[int] = sorted({*self.tokenizer.all_special_ids, *unused} - {self.eos})
        self.vocabulary = f"{Path(config.decoder).name}-{len(self.tokenizer)}"
        self.controls: Controls = lambda examples: [NOTHING_KNOWN] * len(examples)
        self.beside: dict[str, Path] = {}  # what else belongs into a run, by its place there

    # — to answer —

    def encode(self, examples: Sequence[Example], targets: bool = True) -> list[Asked]:
        """One item an example. Without `targets` only the context is read: what a system may see at test time."""
        asked = [list(before_listeners(example)) for example in examples]
        known = iter(self.controls(list(chain.from_iterable(asked))))
        items = []
        for example, places in zip(examples, asked, strict=True):
            prompt = self.prompt(example.context, [next(known) for _ in places])
            said = self._saying(example) if targets else ()
            items.append(Asked(prompt, np.array(said, dtype=np.int32)))
        return items

    def encode_contexts(self, contexts: Sequence[Context]) -> list[Asked]:
        return self.encode([Example("", context, context[-1]) for context in contexts], targets=False)

    def prompt(self, context: Context, controls: Sequence[Control]) -> np.ndarray:
        """A prompt with these controls, one for each listener turn of the context and one for the reply."""
        return np.array(self.prompts.prompt(context, [self.shown(control) for control in controls]), dtype=np.int32)

    def shown(self, control: Control) -> Control:
        """What the configuration lets through of a control."""
        return control.shown(self.config.emotion, self.config.label, self.config.concepts)

    def said(self, ids: Sequence[int]) -> tuple[str, str]:
        """A reply in normal form, and as a person sees it."""
        text = self.prompts.text(ids)
        return normal_form(text), text

    # — to learn —

    def encode_dialogues(self, examples: Sequence[Example], *, training: bool, seed: int = 0) -> list[Conversation]:
        """The examples as whole dialogues, each up to its last example; every example's response is a target.

        In training, parts of the controls are left out and some ask for the label that the reply has: by the seed and the
        example's id, so that a dialogue is the same in every epoch.
        """
        groups: dict[str, list[Example]] = {}
        for example in examples:
            groups.setdefault(example.id.rsplit(":", 1)[0], []).append(example)
        known = iter(self.controls([example for group in groups.values() for example in group]))
        ways = CommonWays(map(self._saying, examples)) if training and self.config.unlikelihood else None
        items = []
        for row, group in enumerate(groups.values()):
            controls = {len(example.context): next(known) for example in group}
            if training:
                controls = {len(e.context): self.thinned(controls[len(e.context)], e, seed) for e in group}
            last = max(group, key=lambda example: len(example.context))
            items.append(self._conversation(last, controls, row, self.config.all_turns and training, ways))
        return items

    def thinned(self, control: Control, example: Example, seed: int) -> Control:
        """A control as training shows it."""
        rng = np.random.default_rng([seed, zlib.crc32(example.id.encode())])
        draws = rng.random(4)
        keep = draws[:3] >= self.config.dropped
        label, asked = (control.label if keep[1] else None), False
        if example.response.label and draws[3] < self.config.asked:
            label, asked = example.response.label, True
        return Control(control.emotion if keep[0] else None, label, asked, control.concepts if keep[2] else ())

    def _saying(self, example: Example) -> tuple[int, ...]:
        """A response as it is a target."""
        return *self.prompts.ids(example.response.text), self.eos

    def _conversation(
        self, last: Example, controls: dict[int, Control], row: int, all_turns: bool, ways: CommonWays | None = None
    ) -> Conversation:
        # ids of a turn, where its targets begin (0: it has none), and whether it is an example's response
        pieces: list[tuple[tuple[int, ...], int, bool]] = []
        for place, turn in enumerate((*last.context, last.response)):
            control = self.shown(controls.get(place, NOTHING_KNOWN))
            whole = self.prompts.turn(turn.role, turn.text, control)
            said = len(self.prompts.ids(turn.text)) + 2  # with the end and the line behind it
            first = len(whole) - said if place in controls or (all_turns and place) else 0
            pieces.append((whole, first, place in controls))
        kept = self.prompts.window([ids for ids, *_ in pieces], self.config.longest)
        if len(kept) < len(pieces):
            pieces = [pieces[0], *pieces[len(pieces) - len(kept) + 1 :]] if len(kept) > 1 else [(kept[0], 0, False)]
        ids = np.array(list(chain.from_iterable(ids for ids, *_ in pieces)), dtype=np.int32)
        target, felt, common = (np.full(len(ids), IGNORE, dtype=np.int32) for _ in range(3))
        emotion = self.prompts.feelings[EMOTION_ID[last.emotion]] if last.emotion in EMOTION_ID else IGNORE
        start = 0
        for turn_ids, first, response in pieces:
            if response:
                felt[start + self.prompts.heard - 1] = emotion
            if first:
                places = slice(start + first - 1, start + len(turn_ids) - 2)  # each place says the next token
                target[places] = ids[places.start + 1 : places.stop + 1]
                if ways and response:
                    common[places] = ways.instead(target[places].tolist())
            start += len(turn_ids)
        # the last end and the line behind it are never read
        return Conversation(ids[:-2], target[:-2], felt[:-2], row, common[:-2] if ways else None)

    # — tensors —

    def collate(self, items: Sequence[Any]) -> Batch:
        if isinstance(items[0], Conversation):
            batch = {
                "ids": pad([item.ids for item in items], self.eos),
                "target": pad([item.target for item in items], IGNORE),
                "felt": pad([item.felt for item in items], IGNORE),
                "row": torch.tensor([item.row for item in items]),
                "length": torch.tensor([len(item.ids) for item in items]),
            }
            if items[0].common is not None:
                batch["common"] = pad([item.common for item in items], IGNORE)
            return batch
        prefixes = [item.context[:-1] for item in items]
        batch = {"prefix": pad(prefixes, self.eos), "prefix_real": real(prefixes)}
        if len(items[0].response):
            batch["target"] = pad([item.response for item in items], IGNORE)
            batch["response"] = pad(
                [np.append(np.int32(self.bos), item.response[:-1]) for item in items],
                self.eos,
            )
        return batch

    def training_batch(self, items: Sequence[Conversation], rng: np.random.Generator) -> Batch:
        return self.collate(items)

    def save(self, folder: Path) -> None:
        self.tokenizer.save_pretrained(folder / "decoder")
        for name, source in self.beside.items():
            (folder / name).parent.mkdir(exist_ok=True)
            if source.is_dir():
                shutil.copytree(source, folder / name, dirs_exist_ok=True)
            else:
                shutil.copy(source, folder / name)


def before_listeners(example: Example) -> Iterator[Example]:
    """The example of each listener turn of the context, and the example itself: whatever has a control.

    >>> from attune.dialogue.types import Turn
    >>> context = (Turn("speaker", "Hi."), Turn("listener", "Hello."), Turn("speaker", "I won!"))
    >>> [(e.id, len(e.context)) for e in before_listeners(Example("d:4", context, Turn("listener", "Great!")))]
    [('d:2', 1), ('d:4', 3)]
    """
    dialogue = example.id.rsplit(":", 1)[0]
    for i, turn in enumerate(example.context):
        if turn.role == "listener":
            yield Example(f"{dialogue}:{i + 1}" if dialogue else "", example.context[:i], turn)
    yield example
