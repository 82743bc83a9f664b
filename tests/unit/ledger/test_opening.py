"""Opening a ledger: forward only, once, whoever comes first and whoever dies."""

from __future__ import annotations

import sqlite3

import pytest
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import text
from sqlalchemy.dialects import postgresql
from sqlalchemy.schema import CreateIndex, CreateTable

from contracts.errors import InvalidSettingsError, LedgerUnavailableError
from runtime.ledger import Ledger, database, migration
from runtime.ledger.schema import metadata
from tests.assets import ledger_processes
from tests.assets.submissions import submission


def test_the_migrations_lead_to_the_tables_that_the_program_uses(ledger) -> None:
    with ledger.database.reading() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        assert compare_metadata(context, metadata) == []


def test_every_script_is_known_to_the_program_in_its_order() -> None:
    config = Config()
    config.set_main_option("script_location", str(migration.SCRIPTS))
    scripts = ScriptDirectory.from_config(config).walk_revisions()

    assert tuple(script.revision for script in scripts)[::-1] == migration.REVISIONS


def test_what_was_accepted_is_there_after_opening_again(url) -> None:
    asked = submission()
    with Ledger.open(url) as ledger:
        ledger.accept(asked, label="x")

    with Ledger.open(url) as ledger:
        assert ledger.get(asked.execution_id).label == "x"


def test_processes_that_open_a_new_ledger_at_once_all_succeed(url) -> None:
    processes = [ledger_processes.start("open_together", url) for _ in range(3)]

    assert ledger_processes.race(processes) == ["opened"] * 3


def test_a_process_killed_while_it_migrates_leaves_a_ledger_that_opens(url) -> None:
    killed = ledger_processes.start("die_migrating", url)
    assert killed.wait() == -9
    killed.communicate()

    with Ledger.open(url) as ledger:
        assert ledger.list() == ()


def test_a_ledger_that_a_newer_program_changed_is_not_touched(url) -> None:
    with Ledger.open(url) as ledger, ledger.database.writing() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))

    with pytest.raises(LedgerUnavailableError, match="has schema 9999, newer than this program's"):
        Ledger.open(url)


def test_a_file_that_is_no_database_is_named(tmp_path) -> None:
    (tmp_path / "ledger.db").write_bytes(b"not a database, but long enough to be read as the header of one" * 20)

    with pytest.raises(LedgerUnavailableError, match=f"{tmp_path}/ledger.db does not answer: file is not a database"):
        Ledger.open(f"sqlite:///{tmp_path}/ledger.db")


def test_a_writer_that_waits_too_long_for_another_may_try_again(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(database, "LEDGER_BUSY_SECONDS", 0.05)
    file = tmp_path / "ledger.db"
    with Ledger.open(f"sqlite:///{file}") as ledger:
        other = sqlite3.connect(file, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(LedgerUnavailableError, match="database is locked") as busy:
            ledger.next_task_id()
        other.execute("ROLLBACK")
        other.close()

        assert busy.value.retry == "later"
        assert ledger.next_task_id() == 1


def test_readers_do_not_wait_for_a_writer(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(database, "LEDGER_BUSY_SECONDS", 0.05)
    file = tmp_path / "ledger.db"
    with Ledger.open(f"sqlite:///{file}") as ledger:
        other = sqlite3.connect(file, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        assert ledger.list() == ()
        other.close()


@pytest.mark.parametrize("url", ["nonsense", "nonsense://someone:hush@x/y", "oracle+nothing://someone:hush@x"])
def test_a_url_of_no_usable_database_is_a_wrong_setting_and_is_not_shown(url) -> None:
    with pytest.raises(InvalidSettingsError, match="database_url names no database") as refused:
        Ledger.open(url)

    assert "hush" not in str(refused.value.to_document())


def test_every_table_and_index_can_be_made_in_postgresql() -> None:
    for table in metadata.sorted_tables:
        assert str(CreateTable(table).compile(dialect=postgresql.dialect())).strip().startswith("CREATE TABLE")
        for index in table.indexes:
            assert str(CreateIndex(index).compile(dialect=postgresql.dialect())).startswith("CREATE INDEX")
