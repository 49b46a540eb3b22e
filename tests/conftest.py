"""Fixtures for all tests. What a machine lacks is named once, here, and the tests that need it are skipped by that name."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from attune.dialogue.types import Dialogue, Turn


def _data(*parts: str) -> Path:
    root = os.environ.get("ATTUNE_DATA")
    path = Path(root, *parts) if root else None
    if path is None or not path.exists():
        pytest.skip(f"needs the data folder ATTUNE_DATA/{'/'.join(parts)}")
    return path.resolve()


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """The folder of real data (`ATTUNE_DATA`); absent on most machines."""
    return _data()


@pytest.fixture(scope="session")
def ed_dir() -> Path:
    """EmpatheticDialogues, the official splits."""
    return _data("empathetic_dialogues")


@pytest.fixture
def dialogues() -> list[Dialogue]:
    """Four small dialogues of our own, in the shape of EmpatheticDialogues."""
    said = [
        ("proud", ["I finally got the job!", "Congratulations! What will you do there?", "I'll teach maths.", "Lovely!"]),
        ("sad", ["My old dog died on Monday.", "I'm so sorry. How old was she?"]),
        ("afraid", ["I hear steps upstairs, but I'm alone.", "Oh no! Can you call someone?", "My sister is coming."]),
        (
            "grateful",
            ["A stranger paid for my lunch.", "How kind!", "It was.", "Did you know them?", "No.", "That's rare."],
        ),
    ]
    return [
        Dialogue(
            id=f"d{i}",
            turns=tuple(Turn(("speaker", "listener")[j % 2], text) for j, text in enumerate(texts)),  # type: ignore[arg-type]
            emotion=emotion,
            situation=texts[0],
        )
        for i, (emotion, texts) in enumerate(said, 1)
    ]
