"""How a score was taken, as one line of text. Scores that differ in what matters never share a column."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, fields

from attune import __version__
from attune.errors import DataError


@dataclass(frozen=True, slots=True)
class Signature:
    """The fields of a signature, in the order in which they are printed.

    `text` is what the likelihood is of: `raw` text, its `normal-form` (lower case, contractions expanded), or
    `as-given`. `vocabulary` is a name and a size; `oov` is the share of reference tokens outside it, in percent.

    >>> s = Signature("listener-turns-v1", "test", 5259, vocabulary="train-22000", decoding="greedy, max 30")
    >>> str(s)
    'protocol:listener-turns-v1|split:test|n:5259|text:as-given|vocabulary:train-22000|oov:?|decoding:greedy, max 30|seed:0|attune:...'
    >>> Signature.parse(str(s)) == s
    True
    """

    protocol: str
    split: str
    n: int
    text: str = "as-given"
    vocabulary: str = "?"
    oov: float | None = None
    decoding: str = "?"
    seed: int = 0
    attune: str = __version__

    def __post_init__(self) -> None:
        for name in ("protocol", "split", "text", "vocabulary", "decoding", "attune"):
            value = getattr(self, name)
            if "|" in value or not value.isprintable():
                raise DataError(f"a signature's {name} cannot hold '|' or a line end: {value!r}")

    def __str__(self) -> str:
        return "|".join(f"{name}:{value}" for name, value in self.pairs())

    def pairs(self) -> list[tuple[str, str]]:
        """Field names and values as text."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return [(name, "?" if value is None else str(value)) for name, value in values.items()]

    @classmethod
    def parse(cls, text: str) -> Signature:
        """The signature that a line says."""
        pairs = dict(part.partition(":")[::2] for part in text.split("|"))
        names = [field.name for field in fields(cls)]
        if list(pairs) != names:
            raise DataError(f"not a signature (expected {'|'.join(f'{name}:…' for name in names)}): {text[:200]!r}")
        try:
            return cls(
                protocol=pairs["protocol"],
                split=pairs["split"],
                n=int(pairs["n"]),
                text=pairs["text"],
                vocabulary=pairs["vocabulary"],
                oov=None if pairs["oov"] == "?" else float(pairs["oov"]),
                decoding=pairs["decoding"],
                seed=int(pairs["seed"]),
                attune=pairs["attune"],
            )
        except ValueError as error:
            raise DataError(f"not a signature ({error}): {text[:200]!r}") from None

    def differs(self, other: Signature, agree: Collection[str]) -> list[str]:
        """Those of the fields `agree` in which two signatures are not the same.

        >>> a, b = (Signature("listener-turns-v1", "test", 5259, decoding=d) for d in ("greedy", "beam 5"))
        >>> a.differs(b, {"split", "decoding"}), a.differs(b, {"split", "n"})
        (['decoding'], [])
        """
        return [f.name for f in fields(self) if f.name in agree and getattr(self, f.name) != getattr(other, f.name)]
