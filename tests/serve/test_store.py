"""What is kept, in SQLite and (slow) in a real PostgreSQL."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import text

from attune.dialogue.readers import read
from attune.dialogue.types import Turn
from attune.serve.store import VERSION_TABLE, Opinion, Said, Store, metadata, training_dialogue


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.slow)])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/store.db"
    found: str = request.getfixturevalue("postgres")
    return found


@pytest.fixture
def store(url: str) -> Iterator[Store]:
    opened = Store(url)
    yield opened
    opened.close()


DOG = Said("c" * 32, [Turn("speaker", "My dog died.")], "Oh no.", "r1", {"emotion": "sad"}, "kemp", user="ann")
LONGER = replace(
    DOG,
    turns=[*DOG.turns, Turn("listener", "Oh no."), Turn("speaker", "She was 12. 😢 مرحبا")],
    text="That is a long time.",
    reply_id="r2",
)


def texts(store: Store, id: str = "c" * 32) -> list[str]:
    found = store.conversation(id, "")
    return [turn["text"] for turn in found["turns"]] if found else []


def test_the_tables_are_those_that_the_migrations_make(store: Store) -> None:
    with store.engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"version_table": VERSION_TABLE, "compare_type": True})
        assert compare_metadata(context, metadata) == []


def test_a_conversation_grows_with_each_reply(store: Store) -> None:
    assert store.keep(DOG)
    assert store.keep(LONGER)
    kept = store.conversation(DOG.conversation, "")
    assert kept is not None
    assert texts(store) == ["My dog died.", "Oh no.", "She was 12. 😢 مرحبا", "That is a long time."]
    assert [turn["role"] for turn in kept["turns"]] == ["speaker", "listener"] * 2
    assert (kept["user"], kept["system"]) == ("ann", "kemp")
    first = kept["turns"][1]
    assert (first["reply_id"], first["attune"]) == ("r1", {"emotion": "sad"})


def test_a_reply_that_was_asked_for_again_and_an_edited_message_take_the_old_ones_place(store: Store) -> None:
    store.keep(LONGER)
    store.keep(replace(LONGER, text="I am sorry.", reply_id="r3"))
    assert texts(store)[-1] == "I am sorry."
    store.keep(replace(DOG, turns=[Turn("speaker", "My cat died.")]))
    assert texts(store) == ["My cat died.", "Oh no."]


def test_what_came_with_another_key_is_out_of_reach(store: Store) -> None:
    store.keep(replace(DOG, owner="phone"))
    assert not store.keep(replace(LONGER, owner="web"))
    assert store.conversation(DOG.conversation, "web") is None
    assert store.erase(conversation=DOG.conversation, owner="web") == {"conversations": 0, "feedback": 0}
    assert store.erase(user="ann", owner="web") == {"conversations": 0, "feedback": 0}
    assert store.conversation(DOG.conversation, "phone") is not None


def test_feedback_is_replaced_and_taken_back(store: Store) -> None:
    opinion = Opinion(DOG.turns, "Oh no.", "up", None, "r1", DOG.conversation, "kemp", user="ann")
    id = store.add_feedback(opinion)
    assert id
    assert store.add_feedback(replace(opinion, thumb="down", better="I am so sorry.")) == id
    (kept,) = store.export_feedback()
    assert (kept["thumb"], kept["better"], kept["turns"]) == (
        "down",
        "I am so sorry.",
        [{"role": "speaker", "text": "My dog died."}],
    )
    assert store.add_feedback(replace(opinion, thumb=None)) is None
    assert list(store.export_feedback()) == []


def test_a_user_is_erased_with_everything(store: Store) -> None:
    store.keep(DOG)
    store.keep(replace(DOG, conversation="d" * 32, user="bob"))
    for number, (conversation, user) in enumerate([("c", None), ("d", "bob"), ("x", "ann")]):
        store.add_feedback(
            Opinion(DOG.turns, "Oh no.", "up", reply_id=f"r{number}", conversation=conversation * 32, user=user)
        )
    assert store.erase(user="ann") == {"conversations": 1, "feedback": 2}
    assert [row["user"] for row in store.export()] == ["bob"]
    assert [row["user"] for row in store.export_feedback()] == ["bob"]
    assert store.erase(conversation="d" * 32) == {"conversations": 1, "feedback": 1}
    with store.engine.connect() as connection:
        assert connection.execute(text("SELECT count(*) FROM serve_turns")).scalar() == 0


def test_one_piece_of_feedback_is_erased_by_its_id_and_only_by_its_owner(store: Store) -> None:
    id, other = (store.add_feedback(Opinion(DOG.turns, "Oh no.", "up", owner="phone")) for _ in range(2))
    assert id
    assert store.erase_feedback(id, owner="web") == {"conversations": 0, "feedback": 0}
    assert store.erase_feedback(id, owner="phone") == {"conversations": 0, "feedback": 1}
    assert [row["id"] for row in store.export_feedback()] == [other]


def test_replies_in_the_same_conversation_at_the_same_time_leave_it_whole(store: Store) -> None:
    with ThreadPoolExecutor(6) as threads:
        assert all(threads.map(store.keep, [replace(DOG, text=f"reply {i}", reply_id=f"r{i}") for i in range(12)]))
    assert len(texts(store)) == 2


def test_feedback_becomes_dialogues_that_every_verb_reads(store: Store, tmp_path: Path) -> None:
    store.add_feedback(Opinion(DOG.turns, "Oh no.", "up", reply_id="r1"))
    store.add_feedback(Opinion(DOG.turns, "Who cares.", "down", "I am so sorry.", "r2"))
    store.add_feedback(Opinion(DOG.turns, "Who cares.", "down", reply_id="r3"))
    rows = [row for one in store.export_feedback() if (row := training_dialogue(one))]
    (tmp_path / "train.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    learnt = {dialogue.turns[-1].text for dialogue in read(tmp_path / "train.jsonl")}
    assert learnt == {"Oh no.", "I am so sorry."}
