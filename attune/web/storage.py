"""Databases: SQLite in a file, or PostgreSQL by URL; brought up to date by Alembic when they are opened.

Each package keeps its own tables, its migrations in its folder `migrations/` and its version in a table of its own, so that
`serve` and `study` can share one database.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import alembic.command
from alembic.config import Config
from sqlalchemy import Connection, Engine, create_engine, event, text
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, OperationalError, SQLAlchemyError

from attune.errors import MissingError, SettingsError

ENVIRONMENT = Path(__file__).parent / "migrations"
_EXPECTED = "expected sqlite:///FILE or postgresql://USER:PASSWORD@HOST/DATABASE"


def open_database(url: str, migrations: Path, version_table: str) -> Engine:
    """Connect, and run the migrations that this database has not had. Several processes may do so at once.

    `engine.execution_options(reading=True)` is for transactions that only read: with SQLite they stop nobody.
    """
    where = _checked(url)
    engine = create_engine(where, pool_pre_ping=True)
    if engine.dialect.name == "sqlite":
        event.listen(engine, "connect", _prepare_sqlite)
        event.listen(engine, "begin", _begin_sqlite)
    try:
        with engine.begin() as connection:
            if engine.dialect.name == "postgresql":
                connection.execute(text("SELECT pg_advisory_xact_lock(hashtext(:name))"), {"name": version_table})
            alembic.command.upgrade(migration_config(connection, migrations, version_table), "head")
    except OperationalError as error:
        engine.dispose()
        reason = str(error.orig).strip().splitlines()[0]
        raise MissingError(f"cannot open the store {where.render_as_string(hide_password=True)}: {reason}") from error
    except SQLAlchemyError as error:
        engine.dispose()
        reason = str(error).splitlines()[0]
        raise MissingError(f"cannot use the store {where.render_as_string(hide_password=True)}: {reason}") from error
    return engine


def migration_config(connection: Connection, migrations: Path, version_table: str) -> Config:
    """What Alembic needs to know; also for its own commands, as `alembic.command.current`."""
    config = Config()
    config.set_main_option("script_location", str(ENVIRONMENT))
    config.set_main_option("path_separator", "newline")
    config.set_main_option("version_locations", str(migrations).replace("%", "%%"))
    config.attributes |= {"connection": connection, "version_table": version_table}
    return config


def _checked(url: str) -> URL:
    try:
        where = make_url(url)
    except ArgumentError:
        raise SettingsError(f"'{url}' is not the URL of a store; {_EXPECTED}") from None
    if where.drivername in ("postgresql", "postgres"):
        return where.set(drivername="postgresql+psycopg")
    if where.drivername == "sqlite":
        if not where.database or where.database == ":memory:":
            raise SettingsError(f"a store in memory forgets; {_EXPECTED}")
        folder = Path(where.database).parent
        if not folder.is_dir():
            raise MissingError(f"no folder {folder} for the store {url}")
        return where
    if where.drivername == "postgresql+psycopg":
        return where
    raise SettingsError(f"cannot keep a store with '{where.drivername}'; {_EXPECTED}")


def _prepare_sqlite(connection: Any, record: object) -> None:
    connection.isolation_level = None  # transactions are begun below, not by the driver
    for setting in ("journal_mode=WAL", "foreign_keys=ON", "secure_delete=ON", "busy_timeout=10000"):
        connection.execute(f"PRAGMA {setting}")


def _begin_sqlite(connection: Connection) -> None:
    # a transaction that reads first and writes then could not get the lock any more
    connection.exec_driver_sql("BEGIN" if connection.get_execution_options().get("reading") else "BEGIN IMMEDIATE")


def scrub(engine: Engine) -> None:
    """After erasing: leave nothing of it in SQLite's journal. PostgreSQL frees it with its own vacuum."""
    if engine.dialect.name == "sqlite":
        raw = engine.raw_connection()
        try:
            raw.driver_connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")  # type: ignore[union-attr]
        finally:
            raw.close()
