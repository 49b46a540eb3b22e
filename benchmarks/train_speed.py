"""How much faster the trainer is than the same model trained the way public code trains it (FACTS A.0).

Both start from the same weights and see the same number of examples in batches of 16 with the same optimiser. One point
is changed at a time:

    public       random batches padded to the longest, logits at every position, smoothed loss in separate passes
    + buckets    batches of like length
    + targets    logits only where there is a target
    + one pass   loss and gradient formed from the logits in one pass

    python benchmarks/train_speed.py [--examples 1600] [--system emoprepend] [--data DIR]
"""

from __future__ import annotations

import argparse
import copy
import resource
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from attune.models.codec import PAD, Batch, Encoded
from attune.models.layers.loss import smoothed_nll
from attune.train.data import bucketed, corpus, in_order, load_examples, load_split
from attune.train.prepare import prepare
from attune.train.recipes import load_recipe

SMOOTHING = 0.1
BATCH = 16

Loss = Callable[[Any, Tensor, Tensor], Tensor]  # model, states [B, T, d], targets [B, T] → mean per token


def at_every_position(model: Any, hidden: Tensor, target: Tensor) -> Tensor:
    logits = F.linear(*model.output_layer(hidden)).flatten(0, 1)
    return smoothed_in_passes(logits, target.flatten())


def at_targets(model: Any, hidden: Tensor, target: Tensor) -> Tensor:
    wanted = target != PAD
    return smoothed_in_passes(F.linear(*model.output_layer(hidden[wanted])), target[wanted])


def in_one_pass(model: Any, hidden: Tensor, target: Tensor) -> Tensor:
    wanted = target != PAD
    loss, _ = smoothed_nll(*model.output_layer(hidden[wanted]), target[wanted], SMOOTHING)
    return loss / wanted.sum()


def smoothed_in_passes(logits: Tensor, target: Tensor) -> Tensor:
    """Log-softmax, a full matrix of smoothed targets, and the divergence between them."""
    log_probs = F.log_softmax(logits, -1)
    wish = torch.full_like(log_probs, SMOOTHING / logits.shape[-1])
    wish.scatter_add_(1, target[:, None], torch.full_like(wish[:, :1], 1 - SMOOTHING))
    wish[target == PAD] = 0
    entropy = torch.xlogy(wish, wish).sum()
    return (F.kl_div(log_probs, wish, reduction="sum") - entropy) / (target != PAD).sum()


def random_batches(items: list[Encoded], size: int, seed: int, epoch: int) -> list[np.ndarray]:
    order = np.random.default_rng([seed, epoch]).permutation(len(items))
    return np.split(order, range(size, len(order), size))


def step(model: Any, batch: Batch, loss_of: Loss) -> Tensor:
    read = model.encode(batch)
    loss = loss_of(model, model.decode(batch["response"], model.start(read)), batch["target"])
    if "emotion" in read:
        loss = loss + F.cross_entropy(read["emotion"], batch["emotion"])
    return loss


@torch.inference_mode()
def validation_nll(model: Any, codec: Any, items: list[Encoded]) -> float:
    model.eval()
    total = sum(
        float(model.losses(codec.collate([items[i] for i in places]), 1, 1)["nll"]) for places in in_order(items, 64)
    )
    return total / sum(len(item.response) for item in items)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--examples", type=int, default=1600)
    parser.add_argument("--system", default="emoprepend")
    parser.add_argument("--data", default=None)
    arguments = parser.parse_args()
    data = corpus(arguments.data)
    recipe = load_recipe(arguments.system, "paper", ["text.vectors=null", "training.warmup=100"])
    dialogues = load_split(data, "train")
    fresh, codec, _ = prepare(recipe, data, dialogues)
    items = codec.encode(load_examples(dialogues, "listener-turns", "train")[: arguments.examples])
    valid = codec.encode(load_examples(load_split(data, "valid"), "listener-turns", "valid")[:512])
    points: list[tuple[str, Any, Loss]] = [
        ("public", random_batches, at_every_position),
        ("+ buckets", bucketed, at_every_position),
        ("+ targets", bucketed, at_targets),
        ("+ one pass", bucketed, in_one_pass),
    ]
    print(
        f"{arguments.system}: {fresh.num_parameters():,} parameters, {len(items)} examples, batch {BATCH}, "
        f"{torch.get_num_threads()} threads"
    )
    print(f"{'':12}{'examples/s':>12}{'× public':>10}{'× before':>10}{'valid NLL':>11}{'peak MB':>9}")
    first = before = 0.0
    for name, batches_of, loss_of in points:
        model = copy.deepcopy(fresh)
        optimizer = torch.optim.Adam(model.parameters(), lr=3e-4, betas=(0.9, 0.98), eps=1e-9, fused=True)
        spent, seen = 0.0, 0
        for number, places in enumerate(batches_of(items, BATCH, 0, 0)):
            started = time.perf_counter()
            model.train()
            batch = codec.collate([items[i] for i in places])
            step(model, batch, loss_of).backward()
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            if number >= 3:  # the first batches warm up
                spent += time.perf_counter() - started
                seen += len(places)
        rate = seen / spent
        first, before = first or rate, before or rate
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
        nll = validation_nll(model, codec, valid)
        print(f"{name:12}{rate:12.1f}{rate / first:10.2f}{rate / before:10.2f}{nll:11.4f}{peak:9}", flush=True)
        before = rate


if __name__ == "__main__":
    main()
