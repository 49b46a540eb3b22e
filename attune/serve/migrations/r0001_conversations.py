"""Conversations, their turns, and feedback."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    op.create_table(
        "serve_conversations",
        sa.Column("id", sa.String(64), primary_key=True),
        sa.Column("owner", sa.String(64), nullable=False),
        sa.Column("user", sa.String(256)),
        sa.Column("system", sa.String(256), nullable=False),
        sa.Column("created", sa.Double, nullable=False),
        sa.Column("updated", sa.Double, nullable=False),
    )
    op.create_index("serve_conversations_by_user", "serve_conversations", ["owner", "user"])
    op.create_table(
        "serve_turns",
        sa.Column(
            "conversation",
            sa.String(64),
            sa.ForeignKey("serve_conversations.id", ondelete="CASCADE"),
            primary_key=True,
        ),
        sa.Column("position", sa.Integer, primary_key=True),
        sa.Column("role", sa.String(8), nullable=False),
        sa.Column("text", sa.Text, nullable=False),
        sa.Column("reply_id", sa.String(64)),
        sa.Column("known", sa.JSON),
        sa.Column("created", sa.Double, nullable=False),
    )
    op.create_table(
        "serve_feedback",
        sa.Column("id", sa.String(64), primary_key=True),
        sa.Column("owner", sa.String(64), nullable=False),
        sa.Column("user", sa.String(256)),
        sa.Column("conversation", sa.String(64)),
        sa.Column("reply_id", sa.String(64)),
        sa.Column("system", sa.String(256)),
        sa.Column("turns", sa.JSON, nullable=False),
        sa.Column("reply", sa.Text, nullable=False),
        sa.Column("thumb", sa.String(8)),
        sa.Column("better", sa.Text),
        sa.Column("created", sa.Double, nullable=False),
    )
    op.create_index("serve_feedback_by_conversation", "serve_feedback", ["conversation"])
    op.create_index("serve_feedback_by_user", "serve_feedback", ["owner", "user"])


def downgrade() -> None:
    for table in ("serve_feedback", "serve_turns", "serve_conversations"):
        op.drop_table(table)
