"""How much faster `attune`'s decoder is trained than by a plain loop that fine-tunes all its weights.

All ways read the same dialogues, whole, in batches of the recipe's size, with the same targets, and take their steps in turn; on
the same batch they have the same loss, which is checked first. One point is changed at a time:

    plain        all weights learn; random batches padded to the longest; logits at every position
    + adapters   low-rank adapters on the upper layers; the lower ones have no gradient
    + buckets    batches of like length
    + targets    logits only where there is a target, loss and gradient in one pass
    + kept       what the lower layers make of a dialogue is read, as in every epoch but the first (if any are frozen)
    + bf16       products in 16 bits, for which a processor needs instructions (AVX-512 BF16, AMX) to be any faster

Tokens are those of the dialogues, padding not counted. Ratios are of CPU time.

    python benchmarks/finetune_speed.py [--variant first] [--dialogues 144] [--data DIR]
    (also: benchmarks/train_speed.py --system attune)
"""

from __future__ import annotations

import argparse
import copy
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from stepping import Stepping
from torch import Tensor
from torch.nn import functional as F

from attune.models import SYSTEMS
from attune.models.pretrained.bases import find_base
from attune.models.pretrained.conversations import Conversation
from attune.models.pretrained.speaking import IGNORE
from attune.train.data import bucketed, corpus, load_examples, load_split
from attune.train.recipes import load_recipe


class Way(NamedTuple):
    name: str
    full: bool = False
    random: bool = False
    everywhere: bool = False
    kept: bool = False
    rounded: bool = False


WAYS = (
    Way("plain", full=True, random=True, everywhere=True),
    Way("+ adapters", random=True, everywhere=True),
    Way("+ buckets", everywhere=True),
    Way("+ targets"),
    Way("+ kept", kept=True),
    Way("+ bf16", kept=True, rounded=True),
)


class Training(Stepping):
    """One way of training, with the time it takes."""

    def __init__(self, way: Way, model: Any, codec: Any, items: list[Conversation], size: int, folder: Path) -> None:
        super().__init__()
        self.way, self.codec, self.items = way, codec, items
        self.model = find_base(model.config.decoder, "decoder").load() if way.full else copy.deepcopy(model)
        self.model.train()
        learning = [parameter for parameter in self.model.parameters() if parameter.requires_grad]
        self.optimizer = torch.optim.AdamW(learning, lr=1e-5, fused=True)
        order = np.random.default_rng(0).permutation(len(items))
        self.batches = np.split(order, range(size, len(order), size)) if way.random else bucketed(items, size, 0, 0)
        if way.rounded:
            self.model.learn_in("bf16")
        if way.kept and self.model.config.decoder_frozen:
            self.model.remember(items, folder)
            for places in self.batches:
                batch = codec.collate([items[i] for i in places])
                self.model.kept.states(batch["row"], batch["length"], self._below(batch))

    def _below(self, batch: dict[str, Tensor]) -> Callable[[Tensor], Tensor]:
        return lambda places: self.model.lower(batch["ids"][places])

    def loss(self, batch: dict[str, Tensor]) -> Tensor:
        with torch.autocast("cpu", torch.bfloat16, enabled=self.way.rounded):
            return self._loss(batch)

    def _loss(self, batch: dict[str, Tensor]) -> Tensor:
        if self.way.everywhere:
            decoder = self.model if self.way.full else self.model.decoder
            logits = decoder(input_ids=batch["ids"], use_cache=False).logits
            return F.cross_entropy(logits.flatten(0, 1), batch["target"].flatten(), ignore_index=IGNORE)
        return self.model.losses(batch, int((batch["target"] != IGNORE).sum()), len(batch["ids"]))["reply"]

    def size(self, places: np.ndarray) -> int:
        return sum(len(self.items[i].ids) for i in places)


def measure(data: str | None = None, dialogues: int = 144, variant: str = "default") -> None:
    """Train in all ways and print what each point brings."""
    recipe = load_recipe("attune", variant)
    size = recipe.training.batch_size
    kind = SYSTEMS["attune"]
    torch.manual_seed(0)
    model, codec = kind.fresh(kind.config_class(**recipe.model))
    read = load_split(corpus(data, kind.corpus), "train")[:dialogues]
    items = codec.encode_dialogues(load_examples(read, "listener-turns", "train"), training=True)
    items = items[: len(items) // size * size]
    ways = [way for way in WAYS if model.config.decoder_frozen or way.rounded or not way.kept]
    with tempfile.TemporaryDirectory() as folder:
        trainings = [Training(way, model, codec, items, size, Path(folder)) for way in ways]
        batch = codec.collate(items[:size])
        with torch.no_grad():
            losses = torch.stack([training.loss(batch) for training in trainings])
        torch.testing.assert_close(
            losses, losses[:1].expand_as(losses), rtol=2e-3, atol=2e-3
        )  # kept states are rounded, and so are products in bf16
        for step in range(len(trainings[0].batches)):
            for training in trainings:
                training.step(training.batches[step])
    print(f"\nattune ({variant}): {len(items)} dialogues, batch {size}, loss {float(losses[0]):.3f} in all ways")
    print(f"{'':14}{'tokens/s':>12}{'CPU ms each':>13}{'× plain':>10}{'× before':>10}")
    plain = before = trainings[0].cpu / trainings[0].seen
    for one in trainings:
        each, rate = one.cpu / one.seen, one.seen / one.wall
        print(f"{one.way.name:14}{rate:12.1f}{each * 1e3:13.2f}{plain / each:10.2f}{before / each:10.2f}", flush=True)
        before = each


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--variant", default="first", help="of the recipe: first, or whole for adapters on every layer")
    parser.add_argument("--dialogues", type=int, default=144)
    parser.add_argument("--data", default=None)
    arguments = parser.parse_args()
    print(f"{torch.get_num_threads()} threads")
    measure(arguments.data, arguments.dialogues, arguments.variant)


if __name__ == "__main__":
    main()
