"""How probable the reference is. All of it counts: nothing is cut off, and the end of the reply is one more token.

`ppl_token` and `ppl_reply_macro` are per token of the system's own vocabulary, so they compare systems of one vocabulary only.
The others divide by something that the vocabulary does not change: words, bytes, or GPT-2's tokens of the raw reference. There an
unknown word may not be free: each byte it hides costs ln 256 nats.

A word-level system gives the likelihood of the *normal form*; what case and contractions would cost is not in it. `ppl_word` and
`bits_per_byte` of such a system (`text:normal-form` in its signature) are lower than they would be for the raw text and never share
a column with a system that models raw text; `ppl_gpt2_token` is only computed for systems that do.
"""

from __future__ import annotations

import math

import numpy as np

from attune.evaluate.gpt2 import count_tokens
from attune.evaluate.metrics import SAME_ITEMS, Summed
from attune.evaluate.outputs import Outputs

_NLL = frozenset({"nll", "tokens"})
_RAW = frozenset({"nll", "raw_reference"})


def _per_token(outputs: Outputs) -> np.ndarray:
    return np.stack([outputs.numbers("nll"), outputs.numbers("tokens")], 1)


def _per_reply(outputs: Outputs) -> np.ndarray:
    return np.stack([outputs.numbers("nll") / outputs.numbers("tokens"), np.ones(len(outputs))], 1)


def _total(outputs: Outputs) -> np.ndarray:
    """Nats per reply, with the bytes behind unknown words paid for."""
    return outputs.numbers("nll") + math.log(256) * outputs.numbers("unk_bytes")


def _per_word(outputs: Outputs) -> np.ndarray:
    return np.stack([_total(outputs), [len(raw.split()) + 1 for raw in outputs.column("raw_reference")]], 1)


def _per_byte(outputs: Outputs) -> np.ndarray:
    return np.stack([_total(outputs) / math.log(2), [len(raw.encode()) for raw in outputs.column("raw_reference")]], 1)


def _per_gpt2_token(outputs: Outputs) -> np.ndarray:
    return np.stack([_total(outputs), np.array(count_tokens(outputs.column("raw_reference"))) + 1], 1)


def _exp_mean(sums: np.ndarray) -> np.ndarray:
    return np.asarray(np.exp(sums[..., 0] / sums[..., 1]))


PPL_TOKEN = Summed(
    name="ppl_token",
    title="PPL (token)",
    about="exp(NLL of all references ÷ their tokens), end of reply counted",
    needs=_NLL,
    better="lower",
    agree=SAME_ITEMS | {"text", "vocabulary"},
    statistics=_per_token,
    combine=_exp_mean,
)
PPL_REPLY_MACRO = Summed(
    name="ppl_reply_macro",
    title="PPL (mean of replies)",
    about="exp(mean over replies of NLL ÷ tokens): the papers' estimator, in which short replies weigh more",
    needs=_NLL,
    better="lower",
    agree=SAME_ITEMS | {"text", "vocabulary"},
    statistics=_per_reply,
    combine=_exp_mean,
)
PPL_WORD = Summed(
    name="ppl_word",
    title="PPL (word)",
    about="exp(NLL ÷ (whitespace words of the raw references + one end each)); unknown words pay ln 256 per byte",
    needs=_RAW,
    better="lower",
    agree=SAME_ITEMS | {"text"},
    statistics=_per_word,
    combine=_exp_mean,
)
BITS_PER_BYTE = Summed(
    name="bits_per_byte",
    title="bits/byte",
    about="NLL in bits, end of reply included, ÷ UTF-8 bytes of the raw references; unknown words pay 8 bits per byte",
    needs=_RAW,
    better="lower",
    agree=SAME_ITEMS | {"text"},
    digits=3,
    statistics=_per_byte,
    combine=lambda sums: sums[..., 0] / sums[..., 1],
)
PPL_GPT2_TOKEN = Summed(
    name="ppl_gpt2_token",
    title="PPL (GPT-2 token)",
    about="exp(NLL of the raw cased references ÷ (their GPT-2 tokens + one end each)); unknown words pay ln 256 per byte",
    needs=_RAW | {"nll of raw text"},
    better="lower",
    agree=SAME_ITEMS,
    statistics=_per_gpt2_token,
    combine=_exp_mean,
)
