"""Opening a ledger: forward only, once, whoever comes first and whoever dies."""

from __future__ import annotations

import sqlite3
import uuid
from datetime import UTC, datetime

import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import MetaData, text
from sqlalchemy.dialects import postgresql
from sqlalchemy.schema import CreateIndex, CreateTable

from contracts.errors import InvalidSettingsError, LedgerUnavailableError
from contracts.messages import refused
from runtime.ledger import Ledger, OutboxMessage, Owner, database, migration
from runtime.ledger.database import Database
from runtime.ledger.schema import metadata
from tests.assets import ledger_processes
from tests.assets.submissions import submission, submission_document


def test_the_migrations_lead_to_the_tables_that_the_program_uses(ledger) -> None:
    with ledger.database.reading() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        assert compare_metadata(context, metadata) == []


def test_every_script_is_known_to_the_program_in_its_order() -> None:
    config = Config()
    config.set_main_option("script_location", str(migration.SCRIPTS))
    scripts = ScriptDirectory.from_config(config).walk_revisions()

    assert tuple(script.revision for script in scripts)[::-1] == migration.REVISIONS


def test_a_ledger_with_content_is_brought_forward_and_keeps_it(url) -> None:
    ids = ledger_at_first_schema(url)

    with Ledger.open(url) as ledger:
        queued, failed = (ledger.get(execution_id) for execution_id in ids)
        assert (queued.state, queued.announced, queued.label) == ("queued", False, "x")
        assert failed.error["message"] == "too long\0"
        assert ledger.figures().executions == {("queued", None): 1, ("failed", "timeout"): 1}
        assert [(one.task_id, one.execution_id, one.kind) for one in ledger.pending_messages()] == [
            (4711, ids[1], "task.status.update")
        ]
        assert [attempt.outcome for attempt in ledger.attempts(ids[1])] == ["timeout"]


def test_what_was_brought_forward_works_on(url) -> None:
    ids = ledger_at_first_schema(url)

    with Ledger.open(url) as ledger:
        ledger.claim(ids[0], Owner.here())
        ledger.enqueue(ids[0], [OutboxMessage("task.log", 1, {})])
        message = refused(task_id=7, timestamp="2030-01-31T12:00:00Z", code="c", message="m", hint="h")
        assert ledger.refuse("digest", message)
        assert [one.execution_id for one in ledger.pending_messages()] == [ids[1], ids[0], None]


def ledger_at_first_schema(url: str) -> tuple[str, str]:
    """Makes a ledger as the first version had it, with a queued and a failed execution."""
    opened = Database.connect(url)
    tables = MetaData()
    ids = (str(uuid.uuid4()), str(uuid.uuid4()))
    now = datetime.now(UTC)
    shared = {
        "submission_sha256": "a" * 64, "label": "x", "task_id": 4711, "task_kind": "classification",
        "package_key": "digits", "package_version": "0.1.0", "created_at": now,
    }  # fmt: skip
    error = {"code": "timeout", "message": "too long\0", "hint": "h", "context": {}}
    with opened.writing() as connection:
        config = Config()
        config.set_main_option("script_location", str(migration.SCRIPTS))
        config.attributes["connection"] = connection
        command.upgrade(config, "0001")
        tables.reflect(connection)
        into = {name: table.insert() for name, table in tables.tables.items()}
        for execution_id, more in zip(ids, ({"state": "queued"}, {"state": "failed", "error": error}), strict=True):
            document = submission_document(execution_id=execution_id)
            connection.execute(into["executions"].values(id=execution_id, submission=document, **shared, **more))
        connection.execute(
            into["attempts"].values(
                execution_id=ids[1], number=1, started_at=now, ended_at=now, outcome="timeout", record={},
                paid_seconds=1.0, training_finished=False,
            )
        )  # fmt: skip
        connection.execute(
            into["outbox"].values(
                message_id=str(uuid.uuid4()), execution_id=ids[1], kind="task.status.update", number=4, body={},
                created_at=now,
            )
        )  # fmt: skip
    opened.close()
    return ids


def test_what_was_accepted_is_there_after_opening_again(url) -> None:
    asked = submission()
    with Ledger.open(url) as ledger:
        ledger.accept(asked, label="x")

    with Ledger.open(url) as ledger:
        assert ledger.get(asked.execution_id).label == "x"


@pytest.mark.slow
def test_processes_that_open_a_new_ledger_at_once_all_succeed(url) -> None:
    processes = [ledger_processes.start("open_together", url) for _ in range(3)]

    assert ledger_processes.race(processes) == ["opened"] * 3


@pytest.mark.slow
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
