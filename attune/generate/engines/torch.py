"""A decoder in torch behind the engines' interface: the reference that the others are measured against."""

from __future__ import annotations

import threading
from collections.abc import Generator, Iterator, Sequence
from typing import Any

import numpy as np
import torch
from tokenizers import Tokenizer
from tokenizers.decoders import DecodeStream
from torch import Tensor

from attune.generate.decoding import Cache, decode, stream
from attune.generate.engines.base import Generated
from attune.generate.engines.readings import Readings
from attune.generate.settings import Decoding
from attune.generate.systems import TokenNll
from attune.models.pretrained.attention import GROUPED
from attune.models.pretrained.speaking import IGNORE, Speaks
from attune.models.pretrained.tokens import pad, real


class Prompted(Speaks):
    """A causal decoder that reads a prompt and nothing else."""

    def __init__(self, decoder: Any) -> None:
        self.decoder = decoder.eval()
        self.decoder.set_attn_implementation(GROUPED)

    def recalled(self, known: Sequence[Tensor | None]) -> Cache:
        """A state as after reading what is known of each row (:class:`Readings`), padded on the right."""
        counts = [_count(row) for row in known]
        cache = {"past.seen": torch.arange(max(counts)) < torch.tensor(counts)[:, None]}
        some = next((row for row in known if row is not None), None)
        if some is not None:
            layers, two, heads, _, width = some.shape
            whole = some.new_zeros(layers, two, len(known), heads, max(counts), width)
            for place, row in enumerate(known):
                if row is not None:
                    whole[:, :, place, :, : counts[place]] = row
            cache |= {f"past.{i}.{name}": whole[i, j] for i in range(layers) for j, name in enumerate(("key", "value"))}
        return cache

    def rows(self, cache: Cache) -> Iterator[Tensor]:
        """What `recalled` takes, row by row."""
        layers = range(len(cache) // 2)
        for place, seen in enumerate(cache["past.seen"]):
            yield torch.stack(
                [torch.stack([cache[f"past.{i}.{name}"][place][:, seen] for name in ("key", "value")]) for i in layers]
            )


class TorchEngine:
    """A causal language model of transformers, in the precision it has."""

    name = "torch"
    batch = 128
    """Replies decoded together: the weights are read from memory once for all of them."""
    together = 16
    """Texts of like length read together: enough to keep a processor busy, few enough that little of them is padding."""

    def __init__(
        self, decoder: Any, tokenizer: Tokenizer, *, eos: int, forbidden: Sequence[int] = (), remembered: int = 2048
    ) -> None:
        """`remembered` megabytes keep what was made of prompts. The decoder's weights must not change meanwhile."""
        self.model, self.tokenizer, self.eos = Prompted(decoder), tokenizer, eos
        self.forbidden = [token for token in forbidden if token != eos]
        self.readings = Readings(remembered)

    def close(self) -> None:
        """Nothing is held beyond memory."""

    def generate(
        self,
        prompts: Sequence[Sequence[int]],
        decodings: Sequence[Decoding],
        seeds: Sequence[int],
        *,
        stop: threading.Event | None = None,
        scored: bool = True,
    ) -> list[Generated]:
        """Replies to all prompts; `stop` is looked at between batches. To be scored they are read once more."""
        alike: dict[tuple[Decoding, int], list[int]] = {}  # what one call can decode: the last token starts the reply
        for row in sorted(range(len(prompts)), key=lambda row: len(prompts[row])):
            alike.setdefault((decodings[row], int(prompts[row][-1])), []).append(row)
        said: list[list[int]] = [[] for _ in prompts]
        for (decoding, last), rows in alike.items():
            for start in range(0, len(rows), self.batch):
                if stop is not None and stop.is_set():
                    break
                places = rows[start : start + self.batch]
                replies = decode(
                    self.model,
                    self._read([prompts[row] for row in places]),
                    decoding,
                    bos=last,
                    eos=self.eos,
                    forbidden=self.forbidden,
                    seeds=[seeds[row] for row in places],
                )
                for row, ids in zip(places, replies, strict=True):
                    said[row] = ids
        if not scored:
            return [Generated(tuple(ids), ()) for ids in said]
        spoken = [row for row, ids in enumerate(said) if ids]
        whole = [said[row] + [self.eos] * (len(said[row]) < decodings[row].max_steps) for row in spoken]
        found = [Generated((), ())] * len(prompts)
        for row, nll in zip(spoken, self._nll([prompts[row] for row in spoken], whole), strict=True):
            found[row] = Generated(tuple(said[row]), tuple((-nll).tolist()))
        return found

    def stream(self, prompt: Sequence[int], decoding: Decoding, seed: int = 0) -> Generator[str, None, None]:
        text = DecodeStream(skip_special_tokens=True)
        read, last = self._read([prompt]), int(prompt[-1])
        for token in stream(self.model, read, decoding, bos=last, eos=self.eos, forbidden=self.forbidden, seed=seed):
            if piece := text.step(self.tokenizer, token):
                yield piece

    def nll(self, prompts: Sequence[Sequence[int]], continuations: Sequence[Sequence[int]]) -> list[TokenNll]:
        return [TokenNll(float(row.sum()), len(row)) for row in self._nll(prompts, continuations)]

    @torch.inference_mode()
    def after(self, prompts: Sequence[Sequence[int]], tokens: Sequence[int]) -> np.ndarray:
        found = np.empty((len(prompts), len(tokens)))
        order = sorted(range(len(prompts)), key=lambda row: len(prompts[row]))
        for start in range(0, len(order), self.batch):
            rows = order[start : start + self.batch]
            last = torch.tensor([[int(prompts[row][-1])] for row in rows])
            hidden = self.model.states(last, self.model.start(self._read([prompts[row] for row in rows])))
            scores = self.model.scores(hidden[:, -1], {}).double().log_softmax(-1)
            found[rows] = scores[:, list(tokens)].numpy()
        return found

    @torch.inference_mode()
    def _nll(self, prompts: Sequence[Sequence[int]], continuations: Sequence[Sequence[int]]) -> list[np.ndarray]:
        """Of each token of each continuation, in double precision."""
        found: list[np.ndarray] = [np.empty(0)] * len(prompts)
        order = sorted(range(len(prompts)), key=lambda row: (len(continuations[row]), len(prompts[row])))
        for start in range(0, len(order), self.together):
            rows = order[start : start + self.together]
            target = [np.asarray(continuations[row]) for row in rows]
            response = [np.append(prompts[row][-1], continuations[row][:-1]) for row in rows]
            batch = {"response": pad(response, self.eos), "target": pad(target, IGNORE)}
            _, nll = self.model.token_nll(batch, self._read([prompts[row] for row in rows]), 0.0)
            ends = np.cumsum([len(row) for row in target])
            for row, part in zip(rows, np.split(nll.double().numpy(), ends[:-1]), strict=True):
                found[row] = part
        return found

    @torch.inference_mode()
    def _read(self, prompts: Sequence[Sequence[int]]) -> Cache:
        """All but the last tokens, which start the replies. What was read before, or stands here twice, is not read again."""
        whole = [tuple(int(token) for token in prompt[:-1]) for prompt in prompts]
        known = {ids: self.readings.find(ids) for ids in whole}
        rest = {ids: np.array(ids[_count(row) :], dtype=np.int64) for ids, row in known.items()}
        new = sorted((ids for ids in rest if len(rest[ids])), key=lambda ids: len(rest[ids]))
        for start in range(0, len(new), self.together):
            part = new[start : start + self.together]
            ahead = [rest[ids] for ids in part]
            before = self.model.recalled([known[ids] for ids in part])
            _, cache = self.model.read_ahead(pad(ahead, self.eos), real(ahead), before)
            for ids, row in zip(part, self.model.rows(cache), strict=True):
                known[ids] = row
                self.readings.keep(ids, row)
        return self.model.recalled([known[ids] for ids in whole])


def _count(row: Tensor | None) -> int:
    """How many tokens are known of a row."""
    return 0 if row is None else row.shape[3]
