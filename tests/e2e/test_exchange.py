"""The exchange that the README shows is what the default system says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from attune.dialogue.types import Example, Turn
from attune.files import default_system
from attune.respond.agent import Agent, load

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
                reply = agent.reply(said, seed=0).text
                if reply != text:  # another processor rounds otherwise, and now and then another candidate is the best
                    assert likelihood(agent, said, text) > likelihood(agent, said, reply) - 0.7
            said.append(text)
        assert len(said) >= 2


def likelihood(agent: Agent, said: list[str], reply: str) -> float:
    """The log-probability of a reply per token."""
    turns = tuple(Turn("listener" if i % 2 else "speaker", text) for i, text in enumerate(said))
    (found,) = agent.system.nll([Example("", turns, Turn("listener", reply))])
    return -found.nll / found.tokens
