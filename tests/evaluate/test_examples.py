from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from attune.cli.main import run
from attune.evaluate.examples import Answer, case_studies, write_examples
from attune.evaluate.papers import papers
from attune.respond import agent
from tests.respond.fakes import FakeSystem, fake_agent

TABLES = {
    "000, Table 4": 4,
    "001, Table 6": 2,
    "002, Table 6": 3,
    "002, Table 8": 5,
    "003, Table 4": 2,
    "004, Table 5": 2,
}


def test_the_case_studies_of_all_five_papers_are_there() -> None:
    cases = case_studies()
    assert {table: sum(case.source == table for case in cases) for table in TABLES} == TABLES
    assert len(cases) == sum(TABLES.values())
    assert all(len(case.turns) % 2 == 1 for case in cases), "the last turn is the speaker's"
    assert all(len(case.replies) >= 4 for case in cases)


def test_the_page_holds_every_context_and_reply_beside_ours(tmp_path: Path) -> None:
    page = tmp_path / "docs" / "EXAMPLES.md"
    page.parent.mkdir()
    write_examples(
        {"echo": lambda contexts: [Answer(f"You said | {turns[-1]}", "sad", "consoling") for turns in contexts]},
        page,
        "attune examples echo",
    )
    text = page.read_text()
    assert "Written by `attune examples echo`" in text
    for case in case_studies():
        assert f"| **echo** | You said \\| {case.turns[-1]} | sad, so consoling |" in text
        assert all(f"| {reply} |" in text for reply in case.replies.values())
        assert all(turn in text for turn in case.turns)
    headings = re.findall(r"^## .*\((\d+)\)", text, flags=re.MULTILINE)
    assert set(headings) == set(papers())
    rows = [line for line in text.splitlines() if line.startswith("|")]
    assert {len(re.findall(r"(?<!\\)\|", row)) for row in rows} == {4}


def test_the_command_takes_the_first_candidate_of_each_and_what_people_get(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    system, guarded = FakeSystem(), []

    def load(name: str, *, guard: bool = True, **settings: Any) -> agent.Agent:
        assert name == "mine"
        guarded.append(guard)
        return fake_agent(system, guard=None, **settings)

    monkeypatch.setattr(agent, "load", load)
    with pytest.raises(SystemExit) as ended:
        run(["examples", "mine", "--out", str(tmp_path / "page.md")])
    assert not ended.value.code
    assert guarded == [False, True]
    cases = len(case_studies())
    assert [(ask.count, ask.seed) for ask in system.asks] == [(1, 0)] * cases + [(agent.COUNT, 0)] * cases
    text = (tmp_path / "page.md").read_text()
    assert text.count(f"| **mine** | {system.replies[0]} |") == cases
    assert text.count(f"| **mine, best of {agent.COUNT}** | ") == cases
