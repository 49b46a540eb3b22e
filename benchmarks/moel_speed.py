"""How much faster MoEL's listeners are as batched products than as a loop over its decoders.

The loop is what public code does in training: every listener reads every example, and what the gate did not choose is multiplied
by zero. Both have the same weights and give the same numbers, which is checked first; in the whole step everything else is the
same too, the scores over all words above all (`train_speed.py` compares with the public way of doing those as well). Made-up
batches of the paper's size; CPU time, which other programs on the machine disturb least.

    python benchmarks/moel_speed.py [--batch 16] [--context 50] [--response 16] [--repeat 10]
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from attune.models.codec import CLS, EOS, ROLE_ID, Batch
from attune.models.layers.blocks import Cache
from attune.models.layers.experts import Listeners, StackedLinear
from attune.models.moel import Moel, MoelConfig
from attune.train.recipes import load_recipe


class Listener(nn.Module):
    """One decoder layer of ordinary modules, with the weights of listener `i` of a stack. Norms come after, as in `paper`."""

    def __init__(self, stack: Listeners, i: int) -> None:
        super().__init__()
        self.heads = stack.heads
        for name, layer in stack.named_children():
            if isinstance(layer, StackedLinear):
                linear = nn.Linear(*layer.weight.shape[1:])
                linear.weight.data, linear.bias.data = layer.weight[i].T.clone(), layer.bias[i].clone()
                setattr(self, name, linear)
        self.norms = nn.ModuleList(nn.LayerNorm(stack.self_norm.weight.shape[1]) for _ in range(3))

    def attend(self, name: str, x: Tensor, over: Tensor, mask: Tensor | None) -> Tensor:
        key, value = getattr(self, f"{name}_key_value")(over).chunk(2, -1)
        parts = (getattr(self, f"{name}_query")(x), key, value)
        query, key, value = (part.unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in parts)
        mixed = F.scaled_dot_product_attention(query, key, value, attn_mask=mask, is_causal=mask is None)
        return getattr(self, f"{name}_out")(mixed.transpose(1, 2).flatten(2))

    def forward(self, x: Tensor, memory: Tensor, real: Tensor) -> Tensor:
        x = self.norms[0](x + self.attend("self", x, x, None))
        x = self.norms[1](x + self.attend("cross", x, memory, real[:, None, None]))
        return self.norms[2](x + self.narrow(self.widen(x).relu()))


class Loop(nn.Module):
    """All listeners one after another, in the place of :class:`Listeners`."""

    def __init__(self, stack: Listeners) -> None:
        super().__init__()
        self.each = nn.ModuleList(Listener(stack, i) for i in range(len(stack.widen.weight)))

    def start(self, memory: Tensor, listeners: Tensor, weights: Tensor) -> Cache:
        dense = weights.new_zeros(len(weights), len(self.each)).scatter(1, listeners, weights)
        return {"listener_weights": dense, "memory": memory}

    def forward(self, x: Tensor, cache: Cache) -> Tensor:
        outputs = torch.stack([listener(x, cache["memory"], cache["memory_mask"]) for listener in self.each], 1)
        return (outputs * cache["listener_weights"][:, :, None, None]).sum(1)


def made_up(batch: int, context: int, response: int, words: int) -> Batch:
    ids = torch.randint(7, words, (batch, context))
    ids[:, 0] = CLS
    target = torch.randint(7, words, (batch, response))
    target[:, -1] = EOS
    return {
        "context": ids,
        "roles": torch.full_like(ids, ROLE_ID["speaker"]),
        "real": torch.ones_like(ids, dtype=torch.bool),
        "responder": torch.full((batch,), ROLE_ID["listener"]),
        "response": target.roll(1, 1),
        "target": target,
        "emotion": torch.randint(0, 32, (batch,)),
    }


def seconds(function: Callable[[], object], repeat: int) -> float:
    function()
    taken = []
    for _ in range(repeat):
        started = time.process_time()
        function()
        taken.append(time.process_time() - started)
    return statistics.median(taken)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--context", type=int, default=50)
    parser.add_argument("--response", type=int, default=16)
    parser.add_argument("--words", type=int, default=16_000)
    parser.add_argument("--repeat", type=int, default=10)
    arguments = parser.parse_args()
    torch.manual_seed(0)
    settings = load_recipe("moel").model
    model = Moel(MoelConfig(**{**settings, "vocab_size": arguments.words, "vector_size": 100, "oracle_steps": 0}))
    batch = made_up(arguments.batch, arguments.context, arguments.response, arguments.words)
    tokens = batch["target"].numel()

    def listen() -> Tensor:
        x = torch.ones(arguments.batch, arguments.response, model.config.d_model, requires_grad=True)
        cache = model.listeners.start(memory, listeners, weights) | {"memory_mask": batch["real"]}
        heard = model.listeners(x, cache)
        (heard * wish).sum().backward()
        return heard.detach()

    def train() -> None:
        terms = model.losses(batch, tokens, arguments.batch)
        torch.stack([term for term in terms.values() if term.requires_grad]).sum().backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    with torch.no_grad():
        read = model.eval().encode(batch)
    memory, listeners, weights = read["memory"], read["listeners"], read["weights"]
    wish = torch.randn(arguments.batch, arguments.response, model.config.d_model)
    taken, heard = [], []
    stack = model.listeners
    for listening in (Loop(stack), stack):
        model.listeners = listening
        heard.append(listen())
        optimizer = torch.optim.Adam(model.parameters(), lr=0.0, fused=True)
        model.train()
        taken.append((seconds(listen, arguments.repeat), seconds(train, arguments.repeat)))
    torch.testing.assert_close(heard[1], heard[0], rtol=1e-3, atol=1e-4)
    print(
        f"{len(stack.widen.weight)} listeners, batch {arguments.batch}, {torch.get_num_threads()} threads, CPU milliseconds"
    )
    print(f"{'':34}{'loop':>9}{'batched':>9}{'ratio':>8}")
    for name, loop, ours in zip(("listeners, forward and backward", "a whole training step"), *taken, strict=True):
        print(f"{name:34}{loop * 1e3:9.0f}{ours * 1e3:9.0f}{loop / ours:8.1f}")


if __name__ == "__main__":
    main()
