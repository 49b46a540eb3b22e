"""The exchange that the README shows is what the default system says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from attune.files import default_system
from attune.respond.agent import load

README = Path(__file__).parents[2] / "README.md"


@pytest.mark.skipif(not (default_system() / "adapter.gguf").is_file(), reason="needs the default system's weights")
def test_the_exchange_in_the_readme_is_a_real_one() -> None:
    block = re.search(r"<!-- exchange:begin -->(.*)<!-- exchange:end -->", README.read_text(), re.DOTALL)
    assert block
    conversations = [re.findall(r"^(you|attune): (.+)$", part, re.MULTILINE) for part in block[1].split("```text")[1:]]
    assert conversations
    agent = load()
    for turns in conversations:
        said: list[str] = []
        for who, text in turns:
            if who == "attune":
                assert agent.reply(said, seed=0).text == text
            said.append(text)
        assert len(said) >= 2
