"""How much faster the trainer is than the same models trained the way public code trains them (FACTS A.0, A.3).

For each system all ways start from the same weights, have the same loss of the same batch (which is checked first), see the same
examples in batches of 16, and take their steps in turn. One point is changed at a time:

    public        random batches padded to the longest, logits at every position, the loss in separate passes;
                  MoEL: a loop over all its listeners
    + listeners   MoEL: batched products, and only of the listeners that the gate chose
    + buckets     batches of like length
    + targets     logits only where there is a target
    + one pass    loss and gradient formed from the logits in one pass; KEMP: no distribution is built

Ratios are of CPU time, which other programs on the machine disturb least; examples/s are by the clock on the wall. EmpDG is
measured without its critics, MoEL as at the end of training, when the gold emotion is no longer shown. `attune`, on a pretrained
decoder, has a comparison of its own (benchmarks/finetune_speed.py), which `--system attune` starts.

    python benchmarks/train_speed.py [--system moel]… [--examples 960] [--variant paper] [--data DIR]
"""

from __future__ import annotations

import argparse
import copy
import itertools
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import finetune_speed
import numpy as np
import torch
from moel_speed import Loop
from stepping import Stepping
from torch import Tensor
from torch.nn import functional as F

from attune.models.codec import PAD, Batch, Encoded
from attune.train.data import bucketed, corpus, load_examples, load_split
from attune.train.prepare import prepare
from attune.train.recipes import load_recipe

SYSTEMS = ("transformer", "emoprepend", "moel", "mime", "empdg", "kemp", "attune")
BATCH = 16

Nll = Callable[..., tuple[Tensor, Tensor]]  # model, states [B, T, ·], cache, targets [B, T], smoothing → loss, NLLs
Batches = Callable[[list[Encoded], int, int, int], list[np.ndarray]]


class Way(NamedTuple):
    """How a model is trained. Without `nll` the loss is formed as the system does it."""

    name: str
    batches: Batches
    nll: Nll | None = None
    loop: bool = False


def log_probs(model: Any, hidden: Tensor, rows: Tensor, cache: dict[str, Tensor]) -> Tensor:
    """[N, V] of states [N, ·] that belong to these rows of the batch."""
    if "words" in cache:  # a mixture of generating and copying
        return model.scores(hidden, {"words": cache["words"][rows]})
    return F.linear(*model.output_layer(hidden)).log_softmax(-1)


def at_every_position(
    model: Any, hidden: Tensor, cache: dict[str, Tensor], target: Tensor, smoothing: float
) -> tuple[Tensor, Tensor]:
    rows = torch.arange(len(target)).repeat_interleave(target.shape[1])
    return in_passes(log_probs(model, hidden.flatten(0, 1), rows, cache), target.flatten(), smoothing)


def at_targets(
    model: Any, hidden: Tensor, cache: dict[str, Tensor], target: Tensor, smoothing: float
) -> tuple[Tensor, Tensor]:
    wanted = target != PAD
    return in_passes(log_probs(model, hidden[wanted], wanted.nonzero()[:, 0], cache), target[wanted], smoothing)


def in_passes(log_probs: Tensor, target: Tensor, smoothing: float) -> tuple[Tensor, Tensor]:
    """A full matrix of smoothed targets and the divergence from it, or the plain likelihood."""
    nll = F.nll_loss(log_probs, target, reduction="none", ignore_index=PAD)
    if not smoothing:
        return nll.sum(), nll.detach()
    wish = torch.full_like(log_probs, smoothing / log_probs.shape[-1])
    wish.scatter_add_(1, target[:, None], torch.full_like(wish[:, :1], 1 - smoothing))
    wish[target == PAD] = 0
    entropy = torch.xlogy(wish, wish).sum()
    return F.kl_div(log_probs, wish, reduction="sum") - entropy, nll.detach()


def random_batches(items: list[Encoded], size: int, seed: int, epoch: int) -> list[np.ndarray]:
    order = np.random.default_rng([seed, epoch]).permutation(len(items))
    return np.split(order, range(size, len(order), size))


def ways_of(model: Any) -> list[Way]:
    listeners = [Way("+ listeners", random_batches, at_every_position)] if hasattr(model, "listeners") else []
    return [
        Way("public", random_batches, at_every_position, loop=True),
        *listeners,
        Way("+ buckets", bucketed, at_every_position),
        Way("+ targets", bucketed, at_targets),
        Way("+ one pass", bucketed),
    ]


class Training(Stepping):
    """One way of training a copy of a model, with the time it takes."""

    warm_up = 2

    def __init__(self, way: Way, fresh: Any, codec: Any, items: list[Encoded]) -> None:
        super().__init__()
        self.way, self.codec, self.items = way, codec, items
        self.model = copy.deepcopy(fresh).train()
        if way.nll is not None:
            self.model.nll_of = partial(way.nll, self.model)
        if way.loop and hasattr(fresh, "listeners"):
            self.model.listeners = Loop(self.model.listeners)
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=3e-4, betas=(0.9, 0.98), eps=1e-9, fused=True)
        self.batches = way.batches(items, BATCH, 0, 0)

    def loss(self, batch: Batch) -> Tensor:
        torch.manual_seed(0)
        terms = self.model.losses(batch, int((batch["target"] != PAD).sum()), len(batch["target"]))
        return torch.stack([term for term in terms.values() if term.requires_grad]).sum()


def measure(name: str, variant: str, data: str | None, examples: int) -> tuple[Training, Training]:
    """Train a system in all ways, print what each point brings, and return the first way and the last."""
    sets = ["text.vectors=null", *(["model.oracle_steps=0"] if name == "moel" else [])]
    folder = corpus(data)
    dialogues = load_split(folder, "train")
    fresh, codec, _ = prepare(load_recipe(name, variant, sets), folder, dialogues)
    items = codec.encode(load_examples(dialogues, "listener-turns", "train")[:examples])
    trainings = [Training(way, fresh, codec, list(items)) for way in ways_of(fresh)]
    batch = codec.collate([items[i] for i in trainings[0].batches[0]])
    losses = torch.stack([training.loss(batch).detach() for training in trainings])
    torch.testing.assert_close(losses, losses[:1].expand_as(losses), rtol=1e-4, atol=1e-4)
    for places in itertools.zip_longest(*(training.batches for training in trainings)):
        for training, chosen in zip(trainings, places, strict=True):
            training.step(chosen)
    print(f"\n{name} ({variant}): {fresh.num_parameters():,} parameters, {len(items)} examples")
    print(f"{'':14}{'examples/s':>12}{'CPU ms each':>13}{'× public':>10}{'× before':>10}")
    public = before = trainings[0].cpu / trainings[0].seen
    for one in trainings:
        each = one.cpu / one.seen
        rate = one.seen / one.wall
        print(f"{one.way.name:14}{rate:12.1f}{each * 1e3:13.1f}{public / each:10.2f}{before / each:10.2f}", flush=True)
        before = each
    return trainings[0], trainings[-1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--system", action="append", choices=SYSTEMS)
    parser.add_argument("--variant", default="paper")
    parser.add_argument("--examples", type=int, default=960)
    parser.add_argument("--data", default=None)
    arguments = parser.parse_args()
    print(f"batch {BATCH}, {torch.get_num_threads()} threads")
    found = {}
    for name in arguments.system or SYSTEMS:
        if name == "attune":
            finetune_speed.measure(arguments.data)
            continue
        public, ours = measure(name, arguments.variant, arguments.data, arguments.examples)
        found[name] = (
            public.seen / public.wall,
            ours.seen / ours.wall,
            public.cpu / ours.cpu * ours.seen / public.seen,
        )
    print(f"\n{'system':14}{'public ex/s':>12}{'ours ex/s':>12}{'× (CPU)':>10}")
    for name, (public_rate, our_rate, ratio) in found.items():
        print(f"{name:14}{public_rate:12.1f}{our_rate:12.1f}{ratio:10.2f}")


if __name__ == "__main__":
    main()
