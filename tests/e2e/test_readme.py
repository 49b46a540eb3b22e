"""Every command and program in the README works.

A fenced block of `sh` or `python` is run as it stands. The blocks below one heading run in order in one folder. A comment on the
line before a block changes that:

- ``<!-- test: slow -->``: the heading's blocks run with the slow tests;
- ``<!-- test: skip REASON -->``: not run here. Only allowed for `make`, `git clone`, `cd` and `pip install`; that a `make` target
  exists is checked all the same.
"""

from __future__ import annotations

import gzip
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

import attune
from attune.dialogue.types import Dialogue

TREE = Path(attune.__file__).parents[1]
_BLOCK = re.compile(
    r"^(?:<!-- test: (?P<rule>slow|skip)\b(?P<reason>[^\n]*?)-->\n)?```(?P<language>sh|python)\n(?P<text>.*?)^```$"
    r"|^(?P<heading>#{1,4} [^\n]*)$",
    re.MULTILINE | re.DOTALL,
)


@dataclass(frozen=True)
class Block:
    heading: str
    language: str
    text: str
    rule: str
    reason: str


def blocks(markdown: str) -> list[Block]:
    found, heading = [], ""
    for match in _BLOCK.finditer(markdown):
        if match["heading"]:
            heading = match["heading"].lstrip("# ")
        else:
            reason = (match["reason"] or "").strip()
            found.append(Block(heading, match["language"], match["text"], match["rule"] or "", reason))
    return found


README = blocks((TREE / "README.md").read_text(encoding="utf-8"))
SECTIONS = {
    block.heading: [other for other in README if other.heading == block.heading and other.rule != "skip"]
    for block in README
    if block.rule != "skip"
}


@pytest.fixture(scope="session")
def small_data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data folder with a corpus in the shape of EmpatheticDialogues and a few word vectors, made here."""
    root = tmp_path_factory.mktemp("data")
    feelings = {
        "proud": ("I finally got the job I wanted!", "Congratulations! You must be so proud."),
        "sad": ("My old dog died on Monday.", "I'm so sorry, that must hurt."),
        "afraid": ("I hear steps upstairs_comma_ but I'm alone.", "Oh no! Can you call someone?"),
        "grateful": ("A stranger paid for my lunch.", "How kind of them!"),
    }
    places = ("at home", "at work", "in town", "by the sea", "on the train", "at school")
    corpus = root / "empathetic_dialogues"
    corpus.mkdir()
    for split, copies in (("train", 6), ("valid", 2), ("test", 2)):
        rows = ["conv_id,utterance_idx,context,prompt,speaker_idx,utterance,selfeval,tags"]
        for number in range(copies):
            for emotion, (said, answered) in feelings.items():
                said_there = f"{said} It was {places[number]}."
                for index, text in enumerate((said_there, answered, "Thank you for asking.", "Of course!"), 1):
                    rows.append(f"{split}_{emotion}_{number},{index},{emotion},{said},{(index + 1) % 2},{text},,")
        (corpus / f"{split}.csv").write_text("\n".join(rows) + "\n", encoding="utf-8")
    (root / "glove").mkdir()
    with gzip.open(root / "glove" / "glove.100d.txt.gz", "wt", encoding="utf-8") as vectors:
        for number, word in enumerate(("i", "you", "dog", "job", "kind", "sorry", "proud", "."), 1):
            vectors.write(f"{word} {' '.join(f'{number / (position + 10):.4f}' for position in range(100))}\n")
    return root


def _parameters() -> list[object]:
    return [
        pytest.param(
            section, id=heading, marks=[pytest.mark.slow] if any(block.rule == "slow" for block in section) else []
        )
        for heading, section in SECTIONS.items()
    ]


@pytest.mark.parametrize("section", _parameters())
def test_what_the_readme_says_works(section: list[Block], tmp_path: Path, small_data: Path) -> None:
    here = Path(sys.executable).parent
    environment = {
        **os.environ,
        "ATTUNE_DATA": str(small_data),
        "PATH": f"{here}{os.pathsep}{os.environ['PATH']}",
        "OMP_NUM_THREADS": "1",
    }
    for block in section:
        command = ["bash", "-euo", "pipefail", "-c"] if block.language == "sh" else [sys.executable, "-c"]
        done = subprocess.run(
            [*command, block.text],
            cwd=tmp_path,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        assert done.returncode == 0, f"{block.text}\nended with {done.returncode}:\n{done.stdout[-3000:]}"


def test_only_what_cannot_run_inside_a_test_is_left_out() -> None:
    for block in README:
        if block.rule == "skip":
            assert block.reason, block.text
            for line in block.text.splitlines():
                assert re.match(r"(make|git clone|cd|pip install|#|$)", line), line


def test_every_make_target_in_the_readme_exists() -> None:
    targets = {
        target
        for block in README
        for words in re.findall(r"^make ([\w -]+?)\s*(?:#|$)", block.text, re.MULTILINE)
        for target in words.split()
    }
    assert {"chat", "test"} <= targets
    for target in sorted(targets):
        done = subprocess.run(["make", "-n", target], cwd=TREE, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr


def test_the_first_screen_has_the_two_commands_and_the_place_for_results() -> None:
    text = (TREE / "README.md").read_text(encoding="utf-8")
    first = text.splitlines()[:60]
    assert any(line.startswith("make chat") for line in first)
    assert any(line.startswith("make test") for line in first)
    assert text.count("<!-- results:begin -->") == text.count("<!-- results:end -->") == 1
    assert text.index("<!-- results:begin -->") < text.index("<!-- results:end -->")


def test_blocks_know_their_heading_and_rule() -> None:
    text = "# A\n```sh\none\n```\n## B\n<!-- test: skip it recurses -->\n```sh\nmake x\n```\n```text\nnot run\n```\n"
    assert blocks(text) == [Block("A", "sh", "one\n", "", ""), Block("B", "sh", "make x\n", "skip", "it recurses")]
    slow = "<!-- test: slow -->\n```python\nx\n```\n"
    assert blocks(slow) == [Block("", "python", "x\n", "slow", "")]


def test_the_small_corpus_is_read_whole(small_data: Path) -> None:
    from attune.dialogue.readers import read
    from attune.dialogue.types import ReadReport

    report = ReadReport()
    found: list[Dialogue] = list(read(small_data / "empathetic_dialogues", split="train", report=report))
    assert (len(found), report.bad) == (24, [])
