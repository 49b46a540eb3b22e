"""Alembic's environment: runs the migrations of one package on a connection that is already open."""

from __future__ import annotations

from alembic import context


def run() -> None:
    """Upgrade inside the caller's transaction; `migration_config` says where and what."""
    attributes = context.config.attributes
    context.configure(
        connection=attributes["connection"],
        version_table=attributes["version_table"],
        render_as_batch=True,  # SQLite alters a table by copying it
    )
    context.run_migrations()


if __name__ == "env_py":  # the name under which Alembic loads this file
    run()
