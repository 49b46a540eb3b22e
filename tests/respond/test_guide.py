"""What the guides of the agent and the chat show works."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import attune

GUIDES = Path(attune.__file__).parents[1] / "docs" / "guide"
BLOCKS = [
    pytest.param(language, text, id=f"{name}-{number}")
    for name in ("agent", "chat")
    for number, (language, text) in enumerate(
        re.findall(r"^```(sh|python)\n(.*?)^```$", (GUIDES / f"{name}.md").read_text(encoding="utf-8"), re.M | re.S), 1
    )
]


@pytest.mark.slow
@pytest.mark.parametrize(("language", "text"), BLOCKS)
def test_what_the_guides_show_works(language: str, text: str, tmp_path: Path) -> None:
    command = [sys.executable, "-c"] if language == "python" else ["bash", "-euo", "pipefail", "-c"]
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        [*command, text],
        cwd=tmp_path,
        env={**os.environ, "PATH": path, "OMP_NUM_THREADS": "1"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.strip() or ">" in text
