"""The one decoding path: greedy, top-k, nucleus, beam and diverse beam, cached, batched, stopping at the end of the reply.

Anything with `start(read)`, `decode(ids, cache)` and `scores(hidden, cache)` over batch-first caches can be decoded.
Each row is decoded as if it were alone: batches change speed, never tokens.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from attune.errors import SettingsError
from attune.generate.settings import Decoding

Cache = dict[str, Tensor]
CROWDED = 0.8  # of a batch: when fewer rows go on, the others are let go, which copies what is cached


class Decodable(Protocol):
    """What decoding needs of a model."""

    def start(self, read: dict[str, Tensor]) -> Cache: ...
    def decode(self, ids: Tensor, cache: Cache) -> Tensor: ...
    def scores(self, hidden: Tensor, cache: Cache) -> Tensor: ...


@torch.inference_mode()
def decode(
    model: Decodable,
    read: dict[str, Tensor],
    decoding: Decoding,
    *,
    bos: int,
    eos: int,
    forbidden: Sequence[int] = (),
    seeds: Sequence[int] | None = None,
    use_cache: bool = True,
) -> list[list[int]]:
    """Replies as token ids without BOS and EOS, one for each row of `read`.

    `forbidden` ids are never chosen, nor EOS as the first token: a reply is never empty. `seeds` (one a row) fix
    sampling. `use_cache=False` decodes the whole prefix at each step; it exists to prove that the cache changes nothing.
    """
    rows = len(next(iter(read.values())))
    step = _Step(model, read, decoding, bos, eos, forbidden, use_cache)
    if "beam" in decoding.mode:
        return _beam(step, decoding, rows, eos)
    return _single(step, decoding, rows, eos, seeds or [0] * rows)


def stream(
    model: Decodable,
    read: dict[str, Tensor],
    decoding: Decoding,
    *,
    bos: int,
    eos: int,
    forbidden: Sequence[int] = (),
    seed: int = 0,
) -> Iterator[int]:
    """The tokens of one reply as they are chosen: those that :func:`decode` gives. Beam search has no next token to show."""
    if "beam" in decoding.mode:
        raise SettingsError(f"a reply cannot be streamed with the decoding mode {decoding.mode}")
    with torch.inference_mode():
        step = _Step(model, read, decoding, bos, eos, forbidden, cached=True)
    tokens = _chosen(step, decoding, 1, eos, [seed])
    while True:
        with torch.inference_mode():  # not held while the caller is at work
            found = next(tokens, None)
        if found is None:
            return
        yield from found[1]


class _Step:
    """Scores of the next token for every live row, with what is never allowed taken out."""

    def __init__(
        self,
        model: Decodable,
        read: Any,
        decoding: Decoding,
        bos: int,
        eos: int,
        forbidden: Sequence[int],
        cached: bool,
    ):
        self.model, self.decoding, self.eos, self.cached = model, decoding, eos, cached
        self.forbidden = list(forbidden)
        self.cache = model.start(read)
        rows = len(next(iter(self.cache.values())))
        self.tokens = torch.full((rows, 1), bos)  # [rows, steps + 1]
        self.fresh = set(self.cache)

    def log_probs(self) -> Tensor:
        """[rows, V]"""
        if not self.cached:
            self.cache = {name: self.cache[name] for name in self.fresh}
        ids = self.tokens[:, -1:] if self.cached else self.tokens
        hidden = self.model.decode(ids, self.cache)
        scores = self.model.scores(hidden[:, -1], self.cache).float()
        scores[:, self.forbidden] = -torch.inf
        if self.tokens.shape[1] == 1:
            scores[:, self.eos] = -torch.inf
        if self.decoding.block_ngram:
            block_repeats(scores, self.tokens[:, 1:], self.decoding.block_ngram)
        return scores.log_softmax(-1)

    def keep(self, rows: Tensor) -> None:
        self.cache = {name: value.index_select(0, rows) for name, value in self.cache.items()}
        self.tokens = self.tokens.index_select(0, rows)

    def append(self, chosen: Tensor) -> None:
        self.tokens = torch.cat([self.tokens, chosen[:, None]], 1)


def block_repeats(scores: Tensor, tokens: Tensor, size: int) -> None:
    """Forbid, in place, each token that would repeat an n-gram of `size` that stands in its row already.

    >>> scores = torch.zeros(1, 5)
    >>> block_repeats(scores, torch.tensor([[1, 2, 3, 1, 2]]), 3)
    >>> scores[0].tolist()
    [0.0, 0.0, 0.0, -inf, 0.0]
    """
    if tokens.shape[1] < size:
        return
    windows = tokens.unfold(1, size, 1)  # [rows, count, size]
    begun = (windows[:, :, :-1] == tokens[:, None, 1 - size :]).all(-1)
    row, window = begun.nonzero(as_tuple=True)
    scores[row, windows[row, window, -1]] = -torch.inf


def _single(step: _Step, decoding: Decoding, rows: int, eos: int, seeds: Sequence[int]) -> list[list[int]]:
    replies: list[list[int]] = [[] for _ in range(rows)]
    for live, tokens in _chosen(step, decoding, rows, eos, seeds):
        for row, token in zip(live, tokens, strict=True):
            replies[row].append(token)
    return replies


def _chosen(
    step: _Step, decoding: Decoding, rows: int, eos: int, seeds: Sequence[int]
) -> Iterator[tuple[list[int], list[int]]]:
    """Step by step, the rows that go on and the token chosen for each."""
    live, going = torch.arange(rows), torch.ones(rows, dtype=torch.bool)  # the rows at hand, and whether they go on
    draws = None
    if decoding.mode != "greedy":
        draws = torch.stack(
            [torch.from_numpy(np.random.default_rng(seed).random(decoding.max_steps)) for seed in seeds]
        )
    for i in range(decoding.max_steps):
        log_probs = step.log_probs()
        chosen = log_probs.argmax(-1) if draws is None else _sample(log_probs, draws[live, i], decoding)
        going &= chosen != eos
        yield live[going].tolist(), chosen[going].tolist()
        step.append(chosen)
        if not (left := int(going.sum())):
            break
        if left <= CROWDED * len(live):
            keep = going.nonzero().squeeze(1)
            step.keep(keep)
            live, going = live[keep], going[keep]


def _sample(log_probs: Tensor, draw: Tensor, decoding: Decoding) -> Tensor:
    """Inverse transform sampling: one uniform draw a row, so a row's reply does not depend on its batch."""
    width = min(decoding.top_k or log_probs.shape[-1], log_probs.shape[-1])
    best, index = (log_probs / decoding.temperature).log_softmax(-1).topk(width, sorted=True)
    probs = best.double().exp()
    before = probs.cumsum(-1) - probs
    probs = probs.masked_fill(before >= decoding.top_p, 0)  # the best token always stays
    mass = probs.cumsum(-1)
    place = (mass < draw[:, None] * mass[:, -1:]).sum(-1, keepdim=True).clamp_max(width - 1)
    return index.gather(1, place).squeeze(1)


def _beam(step: _Step, decoding: Decoding, rows: int, eos: int) -> list[list[int]]:
    """Beam search; with groups, diverse beam search with a Hamming penalty between groups."""
    beams, groups = decoding.beams, decoding.groups
    size = beams // groups
    step.keep(torch.arange(rows).repeat_interleave(beams))
    totals = torch.full((rows, groups, size), -torch.inf)
    totals[:, :, 0] = 0.0  # every group starts from one hypothesis
    finished: list[list[list[tuple[float, list[int]]]]] = [[[] for _ in range(groups)] for _ in range(rows)]
    live = torch.arange(rows)
    for i in range(decoding.max_steps):
        log_probs = step.log_probs().unflatten(0, (len(live), groups, size))
        words = log_probs.shape[-1]
        used = torch.zeros(len(live), words) if groups > 1 else None
        origin = torch.empty(len(live), groups, size, dtype=torch.long)
        chosen = torch.empty_like(origin)
        last = i == decoding.max_steps - 1
        for g in range(groups):
            joint = totals[live, g][:, :, None] + log_probs[:, g]  # [live, size, V]
            ranked = joint if used is None else joint - decoding.diversity * used[:, None]
            _, flat = ranked.flatten(1).topk(2 * size)
            value = joint.flatten(1).gather(1, flat)
            came, token = flat // words, flat % words
            for r, row in enumerate(live.tolist()):
                slot = 0
                for score, beam, word in zip(value[r].tolist(), came[r].tolist(), token[r].tolist(), strict=True):
                    if slot == size:
                        break
                    if word == eos or last:
                        done = finished[row][g]
                        if score > -torch.inf and len(done) < size:
                            place = (r * groups + g) * size + beam
                            said = step.tokens[place, 1:].tolist() + ([] if word == eos else [word])
                            done.append((score / (i + 1) ** decoding.length_penalty, said))
                        if word == eos:
                            continue
                    origin[r, g, slot], chosen[r, g, slot], totals[row, g, slot] = beam, word, score
                    slot += 1
                for empty in range(slot, size):  # fewer than `size` words were possible
                    origin[r, g, empty], chosen[r, g, empty], totals[row, g, empty] = 0, eos, -torch.inf
            if used is not None:
                used.scatter_add_(1, chosen[:, g], torch.ones_like(chosen[:, g], dtype=used.dtype))
        going = [r for r, row in enumerate(live.tolist()) if any(len(done) < size for done in finished[row])]
        if last or not going:
            break
        base = torch.arange(len(live) * groups).view(len(live), groups, 1) * size
        step.keep((base + origin)[going].flatten())
        step.append(chosen[going].flatten())
        live = live[going]
    return [
        max((item for done in groups_done for item in done), key=lambda item: item[0])[1] for groups_done in finished
    ]
