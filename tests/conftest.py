"""Fixtures for all tests. What a machine lacks is named once, here, and the tests that need it are skipped by that name."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from attune.dialogue.types import Dialogue, Turn
from attune.errors import MissingError

settings.register_profile("attune", deadline=None)  # a busy machine is no failure
settings.load_profile("attune")


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


@pytest.fixture(scope="session")
def default_parts() -> None:
    """What the default system talks with, fetched if it is not here yet."""
    from attune.parts import locate
    from attune.respond.opening import parts_of

    for part in parts_of("default"):
        try:
            locate(part.name)
        except MissingError as error:
            pytest.skip(f"needs the default system's parts: {error}")


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    """A real browser without a window, driven by Playwright."""
    found = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if found is None:
        pytest.skip("needs Chromium (apt-get install chromium)")
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        pytest.skip("needs Playwright (pip install playwright)")
    root = hasattr(os, "geteuid") and os.geteuid() == 0  # Chromium's sandbox does not start as root
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found, args=["--no-sandbox"] if root else [])
        yield browser
        browser.close()


@pytest.fixture
def dialogues() -> list[Dialogue]:
    """Four small dialogues of our own, in the shape of EmpatheticDialogues."""
    said = [
        (
            "proud",
            ["I finally got the job!", "Congratulations! What will you do there?", "I'll teach maths.", "Lovely!"],
        ),
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


FEELINGS = {
    "proud": ("I won the {} race today!", "Congratulations! You must be proud.", "I am, I trained for {} weeks."),
    "sad": ("My {} died last night.", "I am so sorry to hear that.", "Thank you. It was {} years old."),
    "afraid": (
        "There was a {} in the dark street.",
        "Oh no, that sounds scary. Are you safe?",
        "I ran for {} minutes.",
    ),
    "grateful": ("My neighbour fixed my {} for free.", "How kind of them!", "It would have cost {} pounds."),
}
THINGS = ("dog", "cat", "bike", "car", "horse", "boat", "piano", "roof", "radio", "parrot")


@pytest.fixture(scope="session")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A made-up corpus folder with three splits, small enough to train on in seconds."""
    folder = tmp_path_factory.mktemp("corpus")
    for split, count in (("train", 48), ("valid", 12), ("test", 12)):
        rows = []
        for i in range(count):
            emotion = list(FEELINGS)[i % len(FEELINGS)]
            texts = [
                *(text.format(THINGS[(i * 7) % 10 if "weeks" not in text else 3]) for text in FEELINGS[emotion][:2])
            ]
            texts += [FEELINGS[emotion][2].format(i % 9 + 2), "That is something."]
            turns = [{"role": ("speaker", "listener")[j % 2], "text": text} for j, text in enumerate(texts)]
            rows.append({"id": f"{split}{i}", "emotion": emotion, "situation": texts[0], "turns": turns})
        (folder / f"{split}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder
