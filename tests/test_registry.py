"""The one registry behind every extension point."""

from __future__ import annotations

import pytest

from attune.errors import SettingsError
from attune.registry import Registry


def test_a_lazy_entry_is_imported_only_when_asked_for() -> None:
    registry: Registry[object] = Registry("thing", {"colours": "colorsys:rgb_to_hsv", "absent": "no.such.module:x"})
    assert list(registry) == ["absent", "colours"]
    assert "absent" in registry
    import colorsys

    assert registry["colours"] is colorsys.rgb_to_hsv


def test_an_unknown_name_is_answered_with_the_nearest_and_with_all() -> None:
    registry: Registry[int] = Registry("reader")
    registry.register("ed-csv")(1)
    registry.register("cornell")(2)
    with pytest.raises(SettingsError) as caught:
        registry["ed-cvs"]
    assert str(caught.value) == "unknown reader 'ed-cvs'; did you mean 'ed-csv'? Available: cornell, ed-csv"


def test_the_same_name_twice_is_an_error_unless_it_fills_a_placeholder() -> None:
    registry: Registry[object] = Registry("metric", {"late": "nowhere:late"})
    first = object()
    registry.register("bleu")(first)
    registry.register("bleu")(first)  # a module imported again under the same name
    with pytest.raises(SettingsError, match="metric 'bleu' is registered twice"):
        registry.register("bleu")(object())
    registry.register("late")(first)
    assert registry["late"] is first


def test_it_is_a_mapping_in_alphabetical_order() -> None:
    registry: Registry[int] = Registry("thing")
    registry.register("b")(2)
    registry.register("a")(1)
    assert dict(registry) == {"a": 1, "b": 2}
    assert len(registry) == 2
    assert registry.get("a") == 1
