from __future__ import annotations

import stat
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attune.errors import DataError, MissingError, SettingsError
from attune.web.keys import KeyFile


@pytest.fixture
def keys(tmp_path: Path) -> KeyFile:
    return KeyFile(tmp_path / "keys.txt")


def test_a_key_is_known_by_what_was_printed_and_only_its_hash_is_kept(keys: KeyFile) -> None:
    phone, web = keys.add("phone"), keys.add("web")
    assert (keys.owner(phone), keys.owner(web), keys.owner(phone[:-1]), keys.owner("")) == ("phone", "web", None, None)
    kept = keys.path.read_text()
    assert phone not in kept
    assert phone.removeprefix("attune-") not in kept
    assert stat.S_IMODE(keys.path.stat().st_mode) == 0o600


def test_another_process_sees_a_key_that_was_added_or_removed(keys: KeyFile) -> None:
    running = KeyFile(keys.path)
    assert running.all() == []
    secret = keys.add("phone")
    assert running.owner(secret) == "phone"
    keys.remove("phone")
    assert running.owner(secret) is None
    keys.path.unlink()
    assert running.owner(secret) is None


def test_a_name_is_taken_once_and_the_nearest_is_told(keys: KeyFile) -> None:
    keys.add("phone")
    with pytest.raises(SettingsError, match="there is a key 'phone'"):
        keys.add("phone")
    with pytest.raises(SettingsError, match="did you mean 'phone'"):
        keys.remove("phoen")
    for name in ("", "a b", "a\tb", "x" * 65, "ü\n"):
        with pytest.raises(SettingsError, match="1 to 64"):
            keys.add(name)


def test_a_file_without_keys_is_no_protection(keys: KeyFile) -> None:
    with pytest.raises(MissingError, match="attune serve keys add"):
        keys.checked()


def test_a_damaged_line_is_named_and_lets_nobody_in(keys: KeyFile) -> None:
    secret = keys.add("phone")
    keys.path.write_text("# a comment\n\nphone\tnot-a-hash\tnow\n")
    with pytest.raises(DataError, match=r"keys\.txt:3: expected"):
        keys.owner(secret)


@given(st.text(max_size=100))
def test_any_file_is_read_or_refused_in_one_line(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    path = tmp_path_factory.getbasetemp() / "any-keys.txt"
    path.write_bytes(text.encode("utf-8", "surrogatepass"))
    try:
        KeyFile(path).all()
    except DataError as error:
        refused = str(error)
    else:
        refused = ""
    assert "\n" not in refused
