from __future__ import annotations

from pathlib import Path

import pytest

from attune.errors import DataError, SettingsError
from attune.respond.guard.answers import Answers, helplines
from attune.respond.guard.classifier import HEARD
from attune.respond.guard.rules import read_data


@pytest.mark.parametrize("label", HEARD[1:])
def test_every_risk_has_a_whole_message_and_shorter_ones(label: str) -> None:
    answers, said = Answers("GB"), list[str]()
    for _ in range(3):
        said.append(answers.to_risk(label, said))
    assert len(set(said)) == 3
    assert len(said[0]) > len(said[1])
    assert "999" in said[0]
    assert "computer program" in said[0]


def test_without_a_country_nobody_is_sent_to_a_number_of_another_country(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ATTUNE_COUNTRY", raising=False)
    answer = Answers().to_risk("self-harm", [])
    assert "your local emergency number" in answer
    assert "findahelpline.com" in answer


def test_the_country_may_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ATTUNE_COUNTRY", "de")
    assert "0800 111 0 111" in Answers().to_risk("self-harm", [])
    assert "988" in Answers("us").to_risk("self-harm", [])


def test_a_line_that_a_country_lacks_falls_back_to_the_international_one() -> None:
    assert helplines("CA")["crisis"].endswith("988")
    assert "findahelpline.com" in helplines("CA")["abuse"]


def test_an_unknown_country_is_named_with_the_known_ones() -> None:
    with pytest.raises(SettingsError, match=r"no helplines for the country 'UKK'; known are AT, AU.*ATTUNE_HELPLINES"):
        Answers("UKK")


def test_every_country_has_an_emergency_number() -> None:
    countries = read_data("helplines.yaml")
    assert len(countries) > 20
    assert all("emergency" in lines for lines in countries.values())
    assert all(len(country) == 2 and country.isupper() for country in set(countries) - {"default"})


def test_a_file_of_ones_own_goes_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "lines.yaml"
    file.write_text('GB: {crisis: "our own line, 123"}\nxx: {emergency: "000", crisis: "Xx-line"}\n')
    monkeypatch.setenv("ATTUNE_HELPLINES", str(file))
    assert helplines("gb")["crisis"] == "our own line, 123"
    assert helplines("gb")["emergency"] == "999"
    assert helplines("XX")["crisis"] == "Xx-line"


@pytest.mark.parametrize(
    "text", ["- a list", "GB: 999", "GB: {police: '999'}", "GB: {crisis: 116123}", "NO: {crisis: x}", "a: [", "\x00"]
)
def test_a_broken_file_is_said_to_be_broken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    file = tmp_path / "lines.yaml"
    file.write_text(text)
    monkeypatch.setenv("ATTUNE_HELPLINES", str(file))
    with pytest.raises(DataError, match=r"lines\.yaml"):
        helplines("GB")


def test_a_file_that_is_not_there_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ATTUNE_HELPLINES", "nowhere.yaml")
    with pytest.raises(DataError, match=r"nowhere\.yaml \(ATTUNE_HELPLINES\) cannot be read"):
        helplines(None)


def test_the_message_counts_as_said_though_its_spaces_changed() -> None:
    answers = Answers("GB")
    first = answers.to_risk("abuse", [])
    assert answers.to_risk("abuse", [first.replace(" ", "  ")]) != first


def test_the_fallback_changes_with_the_seed_and_is_not_repeated() -> None:
    answers = Answers()
    assert answers.instead([], 0, in_danger=False) != answers.instead([], 1, in_danger=False)
    said: list[str] = []
    for _ in range(8):
        said.append(answers.instead(said, 3, in_danger=False))
    assert len(set(said)) == 8
    assert answers.instead([], 0, in_danger=True) != answers.instead([], 0, in_danger=False)


def test_who_has_a_name_says_it_and_that_it_is_a_program() -> None:
    named, plain = Answers(name="Robin {of} Attune"), Answers()
    first = named.to_machine_asked([])
    assert first.startswith("I'm Robin {of} Attune, a computer program, not a person")
    assert "still Robin {of} Attune, a computer program" in named.to_machine_asked([first])
    assert named.own(first)
    assert plain.to_machine_asked([]).startswith("I'm a computer program, not a person")
