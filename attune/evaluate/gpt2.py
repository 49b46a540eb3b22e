"""Counting GPT-2's tokens, the unit in which papers with pretrained decoders print perplexity.

The part `gpt2-bpe` is a list of byte strings in the order in which GPT-2's BPE may join them. The two halves of a string are
found by joining its bytes with the earlier ranks only; that gives the merges that a fast byte-level tokenizer is built of.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Sequence
from functools import cache
from itertools import pairwise
from pathlib import Path

from tokenizers import Tokenizer
from tokenizers.models import BPE
from tokenizers.pre_tokenizers import ByteLevel

from attune.errors import DataError
from attune.evaluate.metrics import part_at_hand


def count_tokens(texts: Sequence[str]) -> list[int]:
    """How many GPT-2 tokens each text has."""
    return [len(encoding.ids) for encoding in gpt2_tokenizer().encode_batch(list(texts), add_special_tokens=False)]


@cache
def gpt2_tokenizer() -> Tokenizer:
    """GPT-2's byte-level BPE, from the part `gpt2-bpe`."""
    return byte_level_bpe(_read_ranks(part_at_hand("gpt2-bpe")))


def byte_level_bpe(ranks: dict[bytes, int]) -> Tokenizer:
    """A fast tokenizer of ranked byte strings.

    >>> letters = {bytes([b]): b for b in range(256)}
    >>> byte_level_bpe(letters | {b"oh": 256, b" no": 258, b"no": 257}).encode("oh no").tokens
    ['oh', 'Ġno']
    """
    shown = _shown_bytes()
    name = {token: "".join(shown[byte] for byte in token) for token in ranks}
    merges = []
    for token, rank in sorted(ranks.items(), key=lambda pair: pair[1]):
        halves = _join(token, ranks, rank) if len(token) > 1 else []
        if len(halves) == 2:
            merges.append((name[halves[0]], name[halves[1]]))
    tokenizer = Tokenizer(BPE(vocab={name[token]: rank for token, rank in ranks.items()}, merges=merges))
    tokenizer.pre_tokenizer = ByteLevel(add_prefix_space=False, use_regex=True)
    return tokenizer


def _join(token: bytes, ranks: dict[bytes, int], below: int) -> list[bytes]:
    """The pieces of a byte string after every join that ranks under `below`, lowest first."""
    pieces = [bytes([byte]) for byte in token]
    while len(pieces) > 2:
        joined = [ranks.get(left + right, below) for left, right in pairwise(pieces)]
        best = min(range(len(joined)), key=joined.__getitem__)
        if joined[best] >= below:
            break
        pieces[best : best + 2] = [pieces[best] + pieces[best + 1]]
    return pieces


def _shown_bytes() -> dict[int, str]:
    """The character that stands for each byte in a byte-level vocabulary: itself if it prints, else one past 255."""
    plain = {*range(33, 127), *range(161, 173), *range(174, 256)}
    others = (byte for byte in range(256) if byte not in plain)
    return {byte: chr(byte) for byte in plain} | {byte: chr(256 + i) for i, byte in enumerate(others)}


def _read_ranks(path: Path) -> dict[bytes, int]:
    ranks = {}
    for number, line in enumerate(path.read_bytes().splitlines(), 1):
        try:
            token, rank = line.split()
            ranks[base64.b64decode(token)] = int(rank)
        except (ValueError, binascii.Error):
            raise DataError(f"{path}:{number}: expected a base64 token and its rank, found {line[:40]!r}") from None
    return ranks
