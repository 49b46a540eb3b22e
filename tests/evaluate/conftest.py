"""A small system that sees only contexts, a small corpus, and a cache of its own for every test."""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from attune.dialogue.protocols import examples
from attune.dialogue.text import as_written, normalise
from attune.dialogue.types import Context, Dialogue, Example
from attune.emotion.taxonomy import EMOTIONS
from attune.generate.systems import Said, TokenNll

OUTSIDE = {name: os.environ.get(name) for name in ("ATTUNE_CACHE", "ATTUNE_OFFLINE")}


class Parrot:
    """Answers with the last words it heard; its numbers are checksums of what it is allowed to see."""

    name = "parrot"
    capabilities = frozenset({"reply", "nll", "perceive"})
    decoding = "greedy(max_steps=30)"
    text_form = "normal-form"
    vocabulary = "train-100"

    def __init__(self, path: Path | None = None) -> None:
        self.path = path
        self.calls: list[int] = []

    def reply(
        self, contexts: Sequence[Context], *, decoding: object = None, seed: int = 0, progress: object = None
    ) -> list[Said]:
        self.calls.append(len(contexts))
        words = [[*normalise(context[-1].text)[-3:], "really", "?"] for context in contexts]
        return [Said(" ".join(said), as_written(said)) for said in words]

    def nll(self, examples: Sequence[Example], *, progress: object = None) -> list[TokenNll]:
        found = []
        for example in examples:
            tokens = len(normalise(example.response.text)) + 1
            heard = " ".join(turn.text for turn in (*example.context, example.response))
            found.append(TokenNll(tokens * (3 + number(heard)), tokens, 2))
        return found

    def perceive(self, contexts: Sequence[Context], *, progress: object = None) -> np.ndarray:
        logits = np.array([[number(f"{context[0].text} {e}") * 3 for e in EMOTIONS] for context in contexts])
        return np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)


def number(text: str) -> float:
    """A number in [0, 1) that depends on all of the text."""
    return zlib.crc32(text.encode()) / 2**32


@pytest.fixture(autouse=True)
def no_downloads(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Parts are absent, and nothing is fetched or kept outside the test."""
    monkeypatch.setenv("ATTUNE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("ATTUNE_OFFLINE", "1")


@pytest.fixture
def real_cache(no_downloads: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """The cache of the person who runs the tests, and permission to fetch into it."""
    for name, value in OUTSIDE.items():
        monkeypatch.delenv(name) if value is None else monkeypatch.setenv(name, value)


@pytest.fixture
def parrot() -> Parrot:
    return Parrot()


@pytest.fixture
def asked(dialogues: list[Dialogue]) -> list[Example]:
    """The examples of the four dialogues."""
    return list(examples(dialogues))


@pytest.fixture
def corpus(dialogues: list[Dialogue], tmp_path: Path) -> Path:
    """A corpus folder: three dialogues to test on, all four to train on."""
    folder = tmp_path / "corpus"
    folder.mkdir()
    for split, chosen in {"train": dialogues, "test": dialogues[1:]}.items():
        lines = [
            json.dumps(
                {
                    "id": dialogue.id,
                    "emotion": dialogue.emotion,
                    "situation": dialogue.situation,
                    "turns": [{"role": turn.role, "text": turn.text} for turn in dialogue.turns],
                }
            )
            for dialogue in chosen
        ]
        (folder / f"{split}.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return folder
