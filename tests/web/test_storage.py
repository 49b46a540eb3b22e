from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from sqlalchemy import inspect, text

from attune.errors import AttuneError, MissingError, SettingsError
from attune.web.storage import open_database, scrub

MIGRATION = """
import sqlalchemy as sa
from alembic import op
revision, down_revision = "{revision}", {before}
def upgrade():
    {code}
"""


@pytest.fixture
def migrations(tmp_path: Path) -> Path:
    folder = tmp_path / "migrations 50%"  # a folder may be named like this
    folder.mkdir()
    table = 'op.create_table("notes", sa.Column("id", sa.Integer, primary_key=True), sa.Column("text", sa.Text))'
    (folder / "r1.py").write_text(MIGRATION.format(revision="1", before=None, code=table))
    return folder


def test_a_new_database_is_brought_up_to_date_and_an_old_one_further(tmp_path: Path, migrations: Path) -> None:
    url = f"sqlite:///{tmp_path}/store.db"
    with open_database(url, migrations, "notes_version").begin() as connection:
        connection.execute(text("INSERT INTO notes VALUES (1, 'kept')"))
    column = 'op.add_column("notes", sa.Column("colour", sa.Text))'
    (migrations / "r2.py").write_text(MIGRATION.format(revision="2", before='"1"', code=column))
    engine = open_database(url, migrations, "notes_version")
    with engine.connect() as connection:
        assert connection.execute(text("SELECT id, text, colour FROM notes")).all() == [(1, "kept", None)]
    assert set(inspect(engine).get_table_names()) == {"notes", "notes_version"}


@pytest.mark.slow
def test_processes_may_open_a_new_database_at_the_same_time(tmp_path: Path, migrations: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from attune.web.storage import open_database\n"
        "open_database(sys.argv[1], Path(sys.argv[2]), 'notes_version')"
    )
    command = [sys.executable, "-c", code, f"sqlite:///{tmp_path}/store.db", str(migrations)]
    processes = [subprocess.Popen(command, stderr=subprocess.PIPE, text=True) for _ in range(3)]
    assert [(process.communicate()[1], process.returncode) for process in processes] == [("", 0)] * 3


def test_what_is_erased_is_nowhere_in_the_files(tmp_path: Path, migrations: Path) -> None:
    engine = open_database(f"sqlite:///{tmp_path}/store.db", migrations, "notes_version")
    with engine.begin() as connection:
        connection.execute(text("INSERT INTO notes VALUES (1, :text)"), {"text": "my secret " * 2000})
    with engine.begin() as connection:
        connection.execute(text("DELETE FROM notes"))
    scrub(engine)
    engine.dispose()
    assert not any(b"my secret" in file.read_bytes() for file in tmp_path.glob("store.db*"))


def test_whoever_reads_stops_nobody_from_writing(tmp_path: Path, migrations: Path) -> None:
    engine = open_database(f"sqlite:///{tmp_path}/store.db", migrations, "notes_version")
    with engine.execution_options(reading=True).connect() as reading:
        assert reading.execute(text("SELECT count(*) FROM notes")).scalar() == 0
        with engine.begin() as writing:
            writing.execute(text("INSERT INTO notes VALUES (1, 'a')"))
        assert reading.execute(text("SELECT count(*) FROM notes")).scalar() == 0


@pytest.mark.parametrize(
    ("url", "kind", "why"),
    [
        ("nonsense", SettingsError, "expected sqlite:///FILE or postgresql://"),
        ("mysql://localhost/x", SettingsError, "cannot keep a store with 'mysql'"),
        ("sqlite://", SettingsError, "forgets"),
        ("sqlite:////nowhere/at/all.db", MissingError, "no folder"),
        ("postgresql://me:hush@127.0.0.1:1/x", MissingError, "cannot open the store"),
    ],
)
def test_a_store_that_cannot_be_used_says_why_in_one_line_without_its_password(
    url: str, kind: type[AttuneError], why: str, migrations: Path
) -> None:
    with pytest.raises(kind, match=why) as wrong:
        open_database(url, migrations, "notes_version")
    assert "\n" not in str(wrong.value)
    assert "hush" not in str(wrong.value)


def test_a_file_that_is_no_database_is_refused_and_left_alone(tmp_path: Path, migrations: Path) -> None:
    file = tmp_path / "letter.txt"
    file.write_text("Dear friend, " * 100)
    with pytest.raises(MissingError, match="cannot use the store"):
        open_database(f"sqlite:///{file}", migrations, "notes_version")
    assert file.read_text() == "Dear friend, " * 100
