"""The table of parts holds together."""

from __future__ import annotations

import pytest

from attune.errors import SettingsError
from attune.parts import PARTS, Part


def test_every_part_is_pinned_and_says_its_licence() -> None:
    assert len(PARTS) >= 8
    for name, part in PARTS.items():
        assert part.name == name
        assert part.licence
        assert part.why
        assert part.version
        for inside, checksum in part.files.items():
            assert len(checksum) == 64, inside
            assert int(checksum, 16), inside
            assert not inside.endswith((".pickle", ".pkl", ".bin", ".pt")), "never pickles"


def test_research_only_parts_are_not_called_permissive() -> None:
    for part in PARTS.values():
        if "NC" in part.licence.split() or "BY-NC" in part.licence or "research" in part.licence:
            assert not part.permissive, part.name


def test_an_unknown_part_is_answered_with_the_nearest_one() -> None:
    with pytest.raises(SettingsError, match="did you mean 'minilm'"):
        PARTS["minilmm"]


@pytest.mark.parametrize("inside", ["../x", "a/../../x", "/etc/x"])
def test_a_path_that_leads_out_of_the_package_is_refused(inside: str) -> None:
    with pytest.raises(ValueError, match="leads out"):
        Part("bad", "bad", "1", {inside: "0"}, "MIT", True, "", 0)


def test_files_are_kept_below_the_folder_they_share() -> None:
    part = Part("p", "p", "1", {"a/b/one": "0", "a/b/c/two": "0"}, "MIT", True, "", 0)
    assert part.kept == {"a/b/one": "one", "a/b/c/two": "c/two"}
    lone = Part("p", "p", "1", {"one": "0"}, "MIT", True, "", 0)
    assert lone.kept == {"one": "one"}
