"""How a reply is chosen: the settings of decoding, for every engine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from attune.errors import SettingsError, did_you_mean

Mode = Literal["greedy", "top-k", "nucleus", "beam", "diverse-beam"]
MODES: tuple[Mode, ...] = ("greedy", "top-k", "nucleus", "beam", "diverse-beam")


@dataclass(frozen=True, slots=True)
class Decoding:
    """How a reply is chosen. `str()` of it is part of every score's signature.

    >>> str(Decoding("nucleus", top_p=0.9, top_k=5))
    'nucleus(max_steps=30,top_k=5,top_p=0.9)'
    """

    mode: Mode = "greedy"
    """greedy, top-k, nucleus (top-k applies too when set), beam or diverse-beam."""
    max_steps: int = 30
    """Longest reply in tokens."""
    top_k: int = 0
    """Sample among this many best tokens (0: all)."""
    top_p: float = 1.0
    """Sample among the best tokens that hold this much probability."""
    temperature: float = 1.0
    """Divide scores by this before sampling."""
    beams: int = 1
    """Hypotheses kept by beam search."""
    groups: int = 1
    """Groups of diverse beam search; they share `beams` equally."""
    diversity: float = 0.0
    """Diverse beam: penalty for a token for each earlier group that chose it at this step."""
    length_penalty: float = 1.0
    """Beam: a hypothesis scores its log-probability ÷ length ** this."""
    block_ngram: int = 0
    """No n-gram of this size twice in a reply (seed 002: 4); 0 switches it off."""

    def __post_init__(self) -> None:
        if self.mode not in MODES:
            raise SettingsError(did_you_mean(str(self.mode), MODES, "decoding mode"))
        checks = [
            (self.max_steps >= 1, "max_steps must be at least 1"),
            (self.mode != "top-k" or self.top_k >= 1, "mode top-k needs top_k ≥ 1"),
            (0 < self.top_p <= 1, "top_p must be in (0, 1]"),
            (self.temperature > 0, "temperature must be above 0"),
            ("beam" not in self.mode or self.beams >= 2, f"mode {self.mode} needs beams ≥ 2"),
            ("beam" in self.mode or self.beams == 1, f"beams belongs to the beam modes, not to {self.mode}"),
            (
                self.mode != "diverse-beam" or (self.groups >= 2 and self.beams % self.groups == 0),
                "diverse-beam needs groups ≥ 2 that divide beams",
            ),
            (self.block_ngram in (0, *range(2, 11)), "block_ngram must be 0 or 2…10"),
        ]
        for holds, why in checks:
            if not holds:
                raise SettingsError(f"decoding: {why}")

    def __str__(self) -> str:
        default = type(self)()
        named = (
            f"{name}={getattr(self, name)}"
            for name in self.__dataclass_fields__
            if name == "max_steps" or (name != "mode" and getattr(self, name) != getattr(default, name))
        )
        return f"{self.mode}({','.join(named)})"
