"""How near the replies come to the references: AVG BLEU, sacreBLEU, and the cosine of sentence embeddings.

AVG BLEU is the mean of corpus-level cumulative BLEU-1, -2, -3 and -4, unsmoothed, with brevity penalty, over the whitespace tokens of
`prediction` and `reference`, 0–100. sacreBLEU is the library's default on text as a person sees it, where there is such text.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np

from attune.errors import AttuneError, MissingError
from attune.evaluate.metrics import SAME_ITEMS, Summed, part_at_hand
from attune.evaluate.outputs import Outputs
from attune.files import atomic_write, cache_dir

_BOTH = frozenset({"prediction", "reference"})
_DECODED = SAME_ITEMS | {"decoding"}
_ORDERS = 4
_KEPT = 16  # sets of embeddings in the cache, at most 8 MB each for a test split


@cache
def _bleu(**settings: Any) -> Any:
    """A sacreBLEU object that only counts: effective order silences its advice on single sentences."""
    try:
        from sacrebleu.metrics import BLEU
    except ImportError:
        raise MissingError("needs the package sacrebleu (pip install 'attune-dialogue[train]')") from None
    return BLEU(effective_order=True, force=True, **settings)


def _counts(said: Sequence[str], meant: Sequence[str], **settings: str) -> np.ndarray:
    """[n, 10]: length of prediction and reference, then matching and all n-grams of order 1 to 4."""
    bleu = _bleu(**settings)
    found = [bleu.sentence_score(reply, [reference]) for reply, reference in zip(said, meant, strict=True)]
    return np.array([[one.sys_len, one.ref_len, *one.counts, *one.totals] for one in found], dtype=float)


def _per_row(score: Callable[[Any, list[int]], float]) -> Callable[[np.ndarray], np.ndarray]:
    """BLEU of sums [..., 10], one row at a time, by the library."""

    def combine(sums: np.ndarray) -> np.ndarray:
        from sacrebleu.metrics import BLEU

        return np.asarray(np.apply_along_axis(lambda row: score(BLEU, row.astype(int).tolist()), -1, sums))

    return combine


def _average(bleu: Any, row: list[int]) -> float:
    said, meant, right, total = row[0], row[1], row[2:6], row[6:10]
    orders = [
        bleu.compute_bleu(right[:n], total[:n], said, meant, smooth_method="none", max_ngram_order=n).score
        for n in range(1, _ORDERS + 1)
    ]
    return float(np.mean(orders))


def _default(bleu: Any, row: list[int]) -> float:
    return float(bleu.compute_bleu(row[2:6], row[6:10], row[0], row[1], smooth_method="exp").score)


def _as_given(outputs: Outputs) -> np.ndarray:
    return _counts(outputs.column("prediction"), outputs.column("reference"), tokenize="none", smooth_method="none")


def _as_seen(outputs: Outputs) -> np.ndarray:
    return _counts(*_seen(outputs))


def _seen(outputs: Outputs) -> tuple[list[str], list[str]]:
    """Replies and references as a person sees them, if all have such text; otherwise as given."""
    names = ("text", "raw_reference") if _kind(outputs) == "as-seen" else ("prediction", "reference")
    return outputs.column(names[0]), outputs.column(names[1])


def _kind(outputs: Outputs) -> str:
    return "as-given" if outputs.lacks("text") or outputs.lacks("raw_reference") else "as-seen"


def _sacrebleu_signature(outputs: Outputs) -> str:
    from sacrebleu.metrics import BLEU

    bleu = BLEU()
    bleu.corpus_score(["one"], [["one"]])  # so that it knows how many references there are
    return f"{bleu.get_signature()}|input:{_kind(outputs)}"


def _cosines(outputs: Outputs) -> np.ndarray:
    part_at_hand("minilm")
    said, meant = (_embedded(texts) for texts in _seen(outputs))
    return np.stack([(said * meant).sum(1), np.ones(len(said))], 1).astype(float)


def _embedded(texts: Sequence[str]) -> np.ndarray:
    """Sentence embeddings [n, 384], each different text encoded once; the last few sets are kept in the cache.

    The references of a split are the same for every system, and they are most of the work.
    """
    from attune.knowledge.sentences import load_encoder

    different = sorted(set(texts))
    name = hashlib.sha256("\0".join(different).encode()).hexdigest()[:16]
    folder = cache_dir() / "embeddings"
    try:
        vectors = np.load(folder / f"{name}.npy", allow_pickle=False)
    except (OSError, ValueError):
        vectors = load_encoder().encode(different)
        with contextlib.suppress(AttuneError), atomic_write(folder / f"{name}.npy", "wb") as file:
            np.save(file, vectors)
        for old in sorted(folder.glob("*.npy"), key=lambda path: path.stat().st_mtime)[:-_KEPT]:
            old.unlink(missing_ok=True)
    place = {text: i for i, text in enumerate(different)}
    return np.asarray(vectors[[place[text] for text in texts]])


AVG_BLEU = Summed(
    name="avg_bleu",
    title="AVG BLEU",
    about="mean of corpus-level cumulative BLEU-1…4, unsmoothed, with brevity penalty, on tokens as given",
    needs=_BOTH,
    agree=_DECODED,
    statistics=_as_given,
    combine=_per_row(_average),
)
SACREBLEU = Summed(
    name="sacrebleu",
    title="sacreBLEU",
    about="sacreBLEU's default corpus score, on text as a person sees it",
    needs=_BOTH,
    agree=_DECODED,
    statistics=_as_seen,
    combine=_per_row(_default),
    signature=_sacrebleu_signature,
)
SES = Summed(
    name="ses",
    title="SES",
    about="mean cosine of the sentence embeddings of reply and reference (all-MiniLM-L6-v2)",
    needs=_BOTH,
    agree=_DECODED,
    digits=3,
    statistics=_cosines,
    signature=lambda outputs: f"model:all-MiniLM-L6-v2|input:{_kind(outputs)}",
    combine=lambda sums: sums[..., 0] / sums[..., 1],
)
