"""What a server keeps, and only when it is told to: conversations with their turns, and feedback that was given with consent.

Everything belongs to an owner, the API key it came with ("" without keys): nobody reads or erases what came with another key.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from sqlalchemy import (
    JSON,
    Column,
    Connection,
    Double,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    RowMapping,
    String,
    Table,
    Text,
    and_,
    delete,
    insert,
    or_,
    select,
    text,
    update,
)
from sqlalchemy.dialects import postgresql, sqlite

from attune.dialogue.types import Turn
from attune.web.storage import open_database, scrub

MIGRATIONS = Path(__file__).parent / "migrations"
VERSION_TABLE = "serve_version"
metadata = MetaData()
conversations = Table(
    "serve_conversations",
    metadata,
    Column("id", String(64), primary_key=True),
    Column("owner", String(64), nullable=False),
    Column("user", String(256)),
    Column("system", String(256), nullable=False),
    Column("created", Double, nullable=False),
    Column("updated", Double, nullable=False),
    Index("serve_conversations_by_user", "owner", "user"),
)
turns = Table(
    "serve_turns",
    metadata,
    Column("conversation", String(64), ForeignKey("serve_conversations.id", ondelete="CASCADE"), primary_key=True),
    Column("position", Integer, primary_key=True),
    Column("role", String(8), nullable=False),
    Column("text", Text, nullable=False),
    Column("reply_id", String(64)),
    Column("known", JSON),
    Column("created", Double, nullable=False),
)
feedback = Table(
    "serve_feedback",
    metadata,
    Column("id", String(64), primary_key=True),
    Column("owner", String(64), nullable=False),
    Column("user", String(256)),
    Column("conversation", String(64)),
    Column("reply_id", String(64)),
    Column("system", String(256)),
    Column("turns", JSON, nullable=False),
    Column("reply", Text, nullable=False),
    Column("thumb", String(8)),
    Column("better", Text),
    Column("created", Double, nullable=False),
    Index("serve_feedback_by_conversation", "conversation"),
    Index("serve_feedback_by_user", "owner", "user"),
)


@dataclass(frozen=True)
class Said:
    """A reply and the turns it answers, to be kept. `known` is what the agent said about its reply."""

    conversation: str
    turns: Sequence[Turn]
    text: str
    reply_id: str
    known: Mapping[str, Any]
    system: str
    owner: str = ""
    user: str | None = None


@dataclass(frozen=True)
class Opinion:
    """What a person thinks of a reply: a thumb, or what they would have said."""

    turns: Sequence[Turn]
    reply: str
    thumb: str | None = None
    better: str | None = None
    reply_id: str | None = None
    conversation: str | None = None
    system: str | None = None
    owner: str = ""
    user: str | None = None


class Store:
    """The tables of a server in SQLite or PostgreSQL. Its methods block; the app calls them in threads."""

    def __init__(self, url: str) -> None:
        self.engine = open_database(url, MIGRATIONS, VERSION_TABLE)
        self.reader = self.engine.execution_options(reading=True)
        self._insert = sqlite.insert if self.engine.dialect.name == "sqlite" else postgresql.insert

    def close(self) -> None:
        self.engine.dispose()

    def alive(self) -> bool:
        """Whether the database answers."""
        try:
            with self.reader.connect() as connection:
                connection.execute(text("SELECT 1"))
        except Exception:  # whatever the driver raises, it does not answer
            return False
        return True

    def keep(self, said: Said) -> bool:
        """Keep a conversation as it stands after a reply; False if its id belongs to somebody else.

        The turns come with each request: those that are kept already stay, and what differs (a reply that was asked for
        again, a message that was edited) takes the place of what was there.
        """
        now = time.time()
        row = {"id": said.conversation, "owner": said.owner, "user": said.user, "system": said.system}
        new: list[tuple[Any, ...]] = [(turn.role, turn.text, None, None) for turn in said.turns]
        new.append(("listener", said.text, said.reply_id, dict(said.known)))
        with self.engine.begin() as connection:
            fresh = {**row, "created": now, "updated": now}
            connection.execute(self._insert(conversations).values(fresh).on_conflict_do_nothing(index_elements=["id"]))
            mine = select(conversations.c.owner).where(conversations.c.id == said.conversation).with_for_update()
            if connection.execute(mine).scalar_one() != said.owner:
                return False
            changed = {"updated": now, "system": said.system} | ({"user": said.user} if said.user else {})
            connection.execute(update(conversations).where(conversations.c.id == said.conversation).values(changed))
            same = self._same(connection, said.conversation, new)
            outdated = (turns.c.conversation == said.conversation) & (turns.c.position >= same)
            connection.execute(delete(turns).where(outdated))
            names = ("role", "text", "reply_id", "known")
            rows = [
                {"conversation": said.conversation, "position": at, "created": now, **dict(zip(names, new[at]))}
                for at in range(same, len(new))
            ]
            connection.execute(insert(turns), rows)
        return True

    def _same(self, connection: Connection, conversation: str, new: Sequence[tuple[Any, ...]]) -> int:
        """How many turns from the beginning are kept already; never the last, which is the new reply."""
        kept = select(turns.c.role, turns.c.text).where(turns.c.conversation == conversation).order_by(turns.c.position)
        count = 0
        for old, (role, said, *_) in zip(connection.execute(kept), new[:-1]):
            if (old.role, old.text) != (role, said):
                break
            count += 1
        return count

    def add_feedback(self, opinion: Opinion) -> str | None:
        """Keep an opinion; a later one about the same reply takes its place and id, and one without thumb or words takes it back."""
        row = asdict(opinion) | {"turns": [{"role": turn.role, "text": turn.text} for turn in opinion.turns]}
        id = f"feedback-{uuid.uuid4().hex}"
        with self.engine.begin() as connection:
            if opinion.reply_id:
                earlier = (feedback.c.reply_id == opinion.reply_id) & (feedback.c.owner == opinion.owner)
                id = connection.execute(select(feedback.c.id).where(earlier)).scalar() or id
                connection.execute(delete(feedback).where(earlier))
            if not opinion.thumb and not opinion.better:
                return None
            connection.execute(insert(feedback).values(**row, id=id, created=time.time()))
        return id

    def conversation(self, id: str, owner: str) -> dict[str, Any] | None:
        """One conversation with its turns and feedback."""
        return next(self.export(conversation=id, owner=owner), None)

    def export(
        self, *, conversation: str | None = None, user: str | None = None, owner: str | None = None
    ) -> Iterator[dict[str, Any]]:
        """Conversations, the oldest first: all of them, or one, or those of a user."""
        wanted = select(conversations).where(*_about(conversations, "id", conversation, user, owner))
        with self.reader.connect() as connection:
            for row in connection.execute(wanted.order_by(conversations.c.created, conversations.c.id)).all():
                said = select(turns).where(turns.c.conversation == row.id).order_by(turns.c.position)
                mine = (feedback.c.conversation == row.id) & (feedback.c.owner == row.owner)
                yield {
                    "id": row.id,
                    "user": row.user,
                    "system": row.system,
                    "created": _when(row.created),
                    "updated": _when(row.updated),
                    "turns": [_turn(turn) for turn in connection.execute(said).mappings()],
                    "feedback": [_opinion(one) for one in connection.execute(select(feedback).where(mine)).mappings()],
                }

    def export_feedback(
        self, *, conversation: str | None = None, user: str | None = None, owner: str | None = None
    ) -> Iterator[dict[str, Any]]:
        """Feedback, the oldest first."""
        wanted = select(feedback).where(*_about(feedback, "conversation", conversation, user, owner))
        with self.reader.connect() as connection:
            for row in connection.execute(wanted.order_by(feedback.c.created, feedback.c.id)).mappings():
                yield _opinion(row)

    def erase(
        self, *, conversation: str | None = None, user: str | None = None, owner: str | None = None
    ) -> dict[str, int]:
        """Erase a conversation, or everything of a user, with the feedback about it; how many of each."""
        if conversation is None and user is None:
            raise ValueError("say which conversation or which user")
        doomed = _about(conversations, "id", conversation, user, owner)
        in_them = feedback.c.conversation.in_(select(conversations.c.id).where(*doomed))
        of_it = and_(*_about(feedback, "conversation", conversation, user, owner))
        mine = [feedback.c.owner == owner] if owner is not None else []
        with self.engine.begin() as connection:
            opinions = connection.execute(delete(feedback).where(or_(in_them, of_it), *mine)).rowcount
            count = connection.execute(delete(conversations).where(*doomed)).rowcount  # their turns go with them
        scrub(self.engine)
        return {"conversations": count, "feedback": opinions}

    def erase_feedback(self, id: str, owner: str | None = None) -> dict[str, int]:
        """Erase one opinion; how many it were, as in `erase`."""
        mine = [feedback.c.owner == owner] if owner is not None else []
        with self.engine.begin() as connection:
            opinions = connection.execute(delete(feedback).where(feedback.c.id == id, *mine)).rowcount
        scrub(self.engine)
        return {"conversations": 0, "feedback": opinions}


def training_dialogue(row: Mapping[str, Any]) -> dict[str, Any] | None:
    """Feedback as a dialogue to learn from, in our own JSONL: the reply a person would have given, or one they liked.

    >>> row = {"id": "f1", "turns": [{"role": "speaker", "text": "I won!"}], "reply": "No.", "better": "Well done!", "thumb": None}
    >>> training_dialogue(row)["turns"][-1]
    {'role': 'listener', 'text': 'Well done!'}
    """
    answer = row["better"] or (row["reply"] if row["thumb"] == "up" else None)
    return answer and {"id": row["id"], "turns": [*row["turns"], {"role": "listener", "text": answer}]}


def _about(table: Table, id: str, conversation: str | None, user: str | None, owner: str | None) -> list[Any]:
    wanted = {id: conversation, "user": user, "owner": owner}
    return [table.c[name] == value for name, value in wanted.items() if value is not None]


def _turn(row: RowMapping) -> dict[str, Any]:
    shown = {"role": row["role"], "text": row["text"], "created": _when(row["created"])}
    return shown | ({"reply_id": row["reply_id"], "attune": row["known"]} if row["reply_id"] else {})


def _opinion(row: RowMapping) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name != "owner"} | {"created": _when(row["created"])}


def _when(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")
