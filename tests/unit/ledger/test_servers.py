"""What only a server can do to its ledger: go away, come back, and keep a row from one of two."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest
from sqlalchemy import text

from contracts.errors import LedgerUnavailableError
from contracts.messages import refused
from runtime.ledger import Ledger, Owner, database
from runtime.ledger import ledger as ledger_module
from tests.assets.postgres_server import PostgresServer
from tests.assets.submissions import submission

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.service

WAIT_SECONDS = 60.0


@pytest.fixture
def server() -> Iterator[PostgresServer]:
    """One that the test may stop."""
    with PostgresServer() as started:
        yield started


@pytest.mark.parametrize("end", ["stop", "kill"])
def test_a_server_that_goes_and_comes_back_is_used_again(server, end) -> None:
    with Ledger.open(server.new_database()) as ledger:
        execution_id = ledger.accept(submission(), label="x", announced=True).execution.execution_id
        getattr(server, end)()
        with pytest.raises(LedgerUnavailableError, match="does not answer") as away:
            ledger.claim(execution_id, Owner.here())
        server.start()

        assert away.value.retry == "later"
        assert ledger.claim(execution_id, Owner.here()).state == "running"
        assert [message.number for message in ledger.pending_messages()] == [0, 1]


def test_its_password_is_not_told(server) -> None:
    url = server.new_database()
    server.stop()
    with pytest.raises(LedgerUnavailableError) as away:
        Ledger.open(url)

    assert url.split(":")[2].split("@")[0] not in str(away.value.to_document())


def test_a_writer_that_waits_too_long_for_anothers_row_may_try_again(postgres_url, monkeypatch) -> None:
    monkeypatch.setattr(database, "LEDGER_BUSY_SECONDS", 0.05)
    with Ledger.open(postgres_url) as ledger, Ledger.open(postgres_url) as other:
        execution_id = ledger.accept(submission(), label="x").execution.execution_id
        with other.database.writing() as connection:
            connection.execute(text("SELECT id FROM executions FOR UPDATE"))
            with pytest.raises(LedgerUnavailableError, match="lock timeout") as busy:
                ledger.claim(execution_id, Owner.here())

        assert busy.value.retry == "later"
        assert ledger.claim(execution_id, Owner.here()).state == "running"


def test_a_call_that_gets_no_connection_may_try_again(postgres_url) -> None:
    with Ledger.open(postgres_url) as ledger:
        ledger.database.engine.pool._timeout = 0.05
        held = [ledger.database.engine.connect() for _ in range(15)]
        with pytest.raises(LedgerUnavailableError, match="too many calls wait for a connection"):
            ledger.list()
        for connection in held:
            connection.close()

        assert ledger.list() == ()


def test_one_id_is_not_refused_while_it_is_being_accepted(postgres_url, monkeypatch) -> None:
    wanted, half_accepted, go_on = submission(), threading.Event(), threading.Event()
    enqueue_queued = ledger_module.enqueue_queued

    def late(*given: Any) -> None:
        half_accepted.set()
        assert go_on.wait(WAIT_SECONDS)
        enqueue_queued(*given)

    monkeypatch.setattr(ledger_module, "enqueue_queued", late)
    status = refused(
        task_id=1,
        timestamp=datetime.now(UTC),
        code="policy_refused",
        message="m",
        hint="h",
        execution_id=wanted.execution_id,
    )
    with (
        Ledger.open(postgres_url) as ledger,
        Ledger.open(postgres_url) as other,
        ThreadPoolExecutor(2) as pool,
    ):
        accepted = pool.submit(ledger.accept, wanted, label="x", announced=True)
        assert half_accepted.wait(WAIT_SECONDS)
        said = pool.submit(other.refuse, "digest", status, wanted.execution_id)
        while not said.done() and not waits_for_a_lock(ledger):
            time.sleep(0.01)
        go_on.set()

        assert accepted.result().created
        assert said.result() is False
        assert [message.number for message in ledger.pending_messages()] == [0]


def waits_for_a_lock(ledger: Ledger) -> bool:
    """Whether anybody does on this server's database."""
    query = text(
        "SELECT count(*) FROM pg_locks JOIN pg_database ON pg_database.oid = pg_locks.database "
        "WHERE NOT granted AND datname = current_database()"
    )
    with ledger.database.reading() as connection:
        return bool(connection.execute(query).scalar_one())
