from __future__ import annotations

import math
from itertools import product
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from attune.dialogue.types import Dialogue
from attune.errors import SettingsError
from attune.generate.decoding import block_repeats, decode
from attune.generate.settings import Decoding
from tests.systems import VARIANTS, small_system, test_examples, variant_id

DECODINGS = [
    Decoding("greedy", max_steps=8),
    Decoding("greedy", max_steps=8, block_ngram=2),
    Decoding("top-k", max_steps=8, top_k=5),
    Decoding("nucleus", max_steps=8, top_p=0.8, temperature=0.7),
    Decoding("beam", max_steps=8, beams=3),
    Decoding("beam", max_steps=8, beams=4, block_ngram=2, length_penalty=0.5),
    Decoding("diverse-beam", max_steps=8, beams=4, groups=2, diversity=0.7),
]


@pytest.mark.parametrize("variant", VARIANTS, ids=variant_id)
@pytest.mark.parametrize("decoding", DECODINGS, ids=str)
def test_batches_and_the_cache_change_no_token(
    variant: tuple[str, dict[str, Any]], decoding: Decoding, dialogues: list[Dialogue]
) -> None:
    name, settings = variant
    system = small_system(name, dialogues, **settings)
    contexts = [example.context for example in test_examples(dialogues)]
    together = system.reply(contexts, decoding=decoding, seed=3)
    alone = [system.reply([context], decoding=decoding, seed=3)[0] for context in contexts]
    assert together == alone
    items = system.codec.encode_contexts(contexts)
    with torch.inference_mode():
        read = system.model.encode(system.codec.collate(items))
    seeds = list(range(len(items)))
    cached, uncached = (
        decode(system.model, read, decoding, bos=system.codec.bos, eos=system.codec.eos, seeds=seeds, use_cache=use)
        for use in (True, False)
    )
    assert cached == uncached
    assert all(1 <= len(reply) <= decoding.max_steps for reply in cached)


class Chain:
    """A model that is a table: the score of a token given the one before it."""

    def __init__(self, table: torch.Tensor) -> None:
        self.table = table

    def start(self, read: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        return dict(read)

    def decode(self, ids: torch.Tensor, cache: dict[str, torch.Tensor]) -> torch.Tensor:
        return ids[..., None].float()

    def scores(self, hidden: torch.Tensor, cache: dict[str, torch.Tensor]) -> torch.Tensor:
        return self.table[hidden[:, 0].long()].clone()


def chain(seed: int, words: int = 5) -> Chain:
    return Chain(torch.randn(words, words, generator=torch.Generator().manual_seed(seed)) * 2)


def best_by_exhaustion(model: Chain, steps: int, words: int, length_penalty: float) -> list[int]:
    """Bos is 0, eos is 1: try every reply there is."""
    table = model.table.clone()
    table[:, 0] = -torch.inf
    found = []
    for length in range(1, steps + 1):
        for reply in product(range(2, words), repeat=length):
            total, previous = 0.0, 0
            for place, token in enumerate([*reply, 1] if length < steps else reply):
                row = table[previous].clone()
                if place == 0:
                    row[1] = -torch.inf
                total += row.log_softmax(-1)[token].item()
                previous = token
            count = length + (length < steps)
            found.append((total / count**length_penalty, list(reply)))
    return max(found)[1]


@pytest.mark.parametrize("seed", range(5))
def test_a_wide_beam_finds_what_exhaustive_search_finds(seed: int) -> None:
    model, steps, words = chain(seed), 3, 5
    decoding = Decoding("beam", max_steps=steps, beams=40)
    found = decode(model, {"x": torch.zeros(2, 1)}, decoding, bos=0, eos=1, forbidden=[0])
    assert found == [best_by_exhaustion(model, steps, words, 1.0)] * 2


def test_groups_without_a_penalty_are_plain_beams_and_with_one_they_differ() -> None:
    model, read = chain(7), {"x": torch.zeros(1, 1)}

    def groups(diversity: float) -> list[list[int]]:
        decoding = Decoding("diverse-beam", max_steps=4, beams=2, groups=2, diversity=diversity)
        return decode(model, read, decoding, bos=0, eos=1, forbidden=[0])

    greedy = decode(model, read, Decoding("greedy", max_steps=4), bos=0, eos=1, forbidden=[0])
    assert groups(0.0) == greedy  # two groups of one beam each, both greedy
    chosen: list[torch.Tensor] = []
    spy = chain(7)
    original = spy.decode
    spy.decode = lambda ids, cache: (chosen.append(ids), original(ids, cache))[1]  # type: ignore[method-assign]
    decode(
        spy, read, Decoding("diverse-beam", max_steps=4, beams=2, groups=2, diversity=1e4), bos=0, eos=1, forbidden=[0]
    )
    assert chosen[1][0] != chosen[1][1], "a large penalty must keep the second group from the first one's token"


def test_sampling_follows_the_probabilities_it_is_given() -> None:
    table = torch.full((4, 4), -torch.inf)
    table[0] = torch.tensor([0.0, 0.0, math.log(0.7), math.log(0.3)])
    table[2:, 1] = 0.0
    decoding = Decoding("top-k", max_steps=2, top_k=3)
    read = {"x": torch.zeros(4000, 1)}
    replies = decode(Chain(table), read, decoding, bos=0, eos=1, forbidden=[0], seeds=list(range(4000)))
    share = sum(reply == [2] for reply in replies) / len(replies)
    assert abs(share - 0.7) < 0.03
    only = decode(Chain(table), read, Decoding("nucleus", max_steps=2, top_p=0.6), bos=0, eos=1, forbidden=[0])
    assert set(map(tuple, only)) == {(2,)}, "top_p 0.6 leaves only the token that holds 0.7"


@given(st.lists(st.integers(0, 3), min_size=1, max_size=12), st.integers(2, 4))
def test_no_blocked_token_is_missed_and_none_too_many(tokens: list[int], size: int) -> None:
    scores = torch.zeros(1, 4)
    block_repeats(scores, torch.tensor([tokens]), size)
    for word in range(4):
        row = [*tokens, word]
        grams = [tuple(row[i : i + size]) for i in range(len(row) - size + 1)]
        repeats = bool(grams) and grams[-1] in grams[:-1]
        assert (scores[0, word].item() == -math.inf) == repeats


@pytest.mark.parametrize(
    ("settings", "word"),
    [
        ({"mode": "greddy"}, "did you mean 'greedy'"),
        ({"mode": "beam"}, "beams"),
        ({"mode": "greedy", "beams": 4}, "beams"),
        ({"mode": "diverse-beam", "beams": 4, "groups": 3}, "groups"),
        ({"mode": "top-k"}, "top_k"),
        ({"top_p": 0.0}, "top_p"),
        ({"max_steps": 0}, "max_steps"),
    ],
)
def test_settings_that_contradict_are_refused(settings: dict[str, Any], word: str) -> None:
    with pytest.raises(SettingsError, match=word):
        Decoding(**settings)
