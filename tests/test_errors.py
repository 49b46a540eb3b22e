"""Errors are for people: they name the value, the nearest choice, and all choices."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attune import errors
from attune.errors import AttuneError, did_you_mean


@given(st.text(max_size=20), st.lists(st.text(min_size=1, max_size=10), max_size=5))
def test_every_choice_and_the_value_are_named(name: str, choices: list[str]) -> None:
    message = did_you_mean(name, choices, "system")
    assert f"'{name}'" in message
    assert all(choice in message for choice in choices)


def test_the_nearest_choice_is_offered_only_when_it_is_near() -> None:
    assert "did you mean 'kemp'?" in did_you_mean("kmep", ["kemp", "moel"], "system")
    assert "did you mean" not in did_you_mean("zzzz", ["kemp", "moel"], "system")
    assert did_you_mean("x", [], "system") == "unknown system 'x'. Available: none"


@pytest.mark.parametrize("kind", [errors.DataError, errors.SettingsError, errors.MissingError])
def test_every_error_a_user_can_cause_is_one_kind(kind: type[Exception]) -> None:
    assert issubclass(kind, AttuneError)
