"""Transactions on SQLite or PostgreSQL, with one kind of error."""

from __future__ import annotations

import json
import re
import sqlite3
import time
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sqlalchemy import create_engine, event, text
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError, DataError, DBAPIError, IntegrityError, NoSuchModuleError, ProgrammingError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError

from contracts.errors import InvalidSettingsError, LedgerUnavailableError
from contracts.limits import LEDGER_BUSY_SECONDS, LEDGER_CONNECT_SECONDS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from sqlalchemy import URL, Connection, Engine, Table

_WRITES = "mtr_writes"


class Database:
    """An engine with two kinds of transaction: one that reads, one that writes and is alone in doing so.

    On SQLite a writing transaction begins with `BEGIN IMMEDIATE`: it waits for its turn at the start, so that what it
    read is still true when it writes. On PostgreSQL callers lock the rows that they decide by.
    """

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self._writer = engine.execution_options(**{_WRITES: True})

    @classmethod
    def connect(cls, url: str) -> Database:
        """A database at `url`; nothing is opened yet but an SQLite file's folder is made.

        Raises:
            InvalidSettingsError: `url` names no database that we can use.
        """
        try:
            parsed = make_url(url)
            return cls(_sqlite_engine(parsed) if parsed.get_backend_name() == "sqlite" else _server_engine(parsed))
        except (ArgumentError, NoSuchModuleError, ImportError) as error:
            raise InvalidSettingsError(
                f"database_url names no database that can be used: {type(error).__name__}",
                hint="Leave database_url empty for a file under home, or use postgresql+psycopg://USER:PASSWORD@HOST/NAME "
                "with the optional group `postgres` installed.",
            ) from error

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """A transaction that changes nothing.

        Raises:
            LedgerUnavailableError: the database does not answer.
        """
        with self._translated(), self.engine.connect() as connection:
            yield connection

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """One transaction: committed at the end of the block, undone whole when the block raises.

        Raises:
            LedgerUnavailableError: the database does not answer, or others kept it busy for `LEDGER_BUSY_SECONDS`.
        """
        with self._translated(), self._writer.begin() as connection:
            if connection.dialect.name == "postgresql":  # SQLite was told when it connected
                connection.execute(text(f"SET LOCAL lock_timeout = {int(LEDGER_BUSY_SECONDS * 1000)}"))
            yield connection

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except (DataError, IntegrityError, ProgrammingError):
            raise  # defects of ours, not of the database: repeating them would change nothing
        except (DBAPIError, PoolTimeoutError) as error:
            said = error.orig if isinstance(error, DBAPIError) else "too many calls wait for a connection"
            raise LedgerUnavailableError(
                f"the ledger at {self.name} does not answer: {said}",
                hint="Check that the database is reachable, writable and has disk space (`mtr doctor`), then repeat the "
                "same command: nothing was half-written.",
                context={"database": self.name},
            ) from error

    @property
    def name(self) -> str:
        """The URL without its password."""
        return self.engine.url.render_as_string(hide_password=True)

    def close(self) -> None:
        """Afterwards no connection is open."""
        self.engine.dispose()


def insert_once(connection: Connection, table: Table, values: Mapping[str, Any]) -> bool:
    """Afterwards a row with this key exists; true when it is this one. An older row is left alone."""
    insert = postgresql.insert if connection.dialect.name == "postgresql" else sqlite.insert
    # Asked back, not counted: PostgreSQL's driver does not say how many rows such an insert made.
    written = insert(table).values(**values).on_conflict_do_nothing().returning(*table.primary_key)
    return connection.execute(written).first() is not None


def insert_all_once(connection: Connection, table: Table, rows: Sequence[Mapping[str, Any]]) -> None:
    """As `insert_once`, for many rows, which all have the same columns."""
    if rows:
        insert = postgresql.insert if connection.dialect.name == "postgresql" else sqlite.insert
        connection.execute(insert(table).on_conflict_do_nothing(), list(rows))


def moment_of(connection: Connection) -> datetime:
    """Now, by the one clock that all who use this database share."""
    if connection.dialect.name == "postgresql":
        now: datetime = connection.execute(text("SELECT clock_timestamp()")).scalar_one()
        return now.astimezone(UTC)
    return datetime.now(UTC)  # a file has the clock of its machine


_encode = partial(json.dumps, separators=(",", ":"), allow_nan=False)


def _sqlite_engine(url: URL) -> Engine:
    if url.database and not re.fullmatch(r":memory:|file:.*", url.database):
        Path(url.database).parent.mkdir(parents=True, exist_ok=True)
    engine = create_engine(url, json_serializer=_encode, connect_args={"timeout": LEDGER_BUSY_SECONDS})

    @event.listens_for(engine, "connect")
    def prepare(connection: sqlite3.Connection, _record: object) -> None:
        connection.isolation_level = None  # we say BEGIN ourselves; the module's own habit breaks DDL transactions
        connection.execute("PRAGMA foreign_keys=ON")
        connection.execute("PRAGMA synchronous=FULL")  # what we promised survives a power cut
        _switch_to_wal(connection)

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        writes = connection.get_execution_options().get(_WRITES, False)
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")

    return engine


def _switch_to_wal(connection: sqlite3.Connection) -> None:
    """Afterwards readers and the writer do not block each other; a new file needs the switch once.

    SQLite's busy timeout does not cover this switch, so it is repeated here while other processes open the same new file.
    """
    deadline = time.monotonic() + LEDGER_BUSY_SECONDS
    while True:
        try:
            connection.execute("PRAGMA journal_mode=WAL")
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() > deadline:
                raise
            time.sleep(0.01)
        else:
            return


def _server_engine(url: URL) -> Engine:
    # A server that is gone without a word must not hold a training's process for the two hours that TCP allows.
    given = {
        "connect_timeout": int(LEDGER_CONNECT_SECONDS),
        "tcp_user_timeout": int(LEDGER_BUSY_SECONDS * 1000),
        "keepalives_idle": int(LEDGER_CONNECT_SECONDS),
        "keepalives_interval": int(LEDGER_CONNECT_SECONDS),
        "keepalives_count": 3,
    }
    libpq = url.get_driver_name() in {"psycopg", "psycopg2"}
    own = {name: value for name, value in given.items() if libpq and name not in url.query}
    return create_engine(url, json_serializer=_encode, pool_pre_ping=True, connect_args=own)


def lock_for_migration(connection: Connection) -> None:
    """Afterwards this transaction is the only one that changes the schema (SQLite's writers are alone anyway)."""
    if connection.dialect.name == "postgresql":
        connection.execute(text("SELECT pg_advisory_xact_lock(7237432871)"))


def lock_for_execution(connection: Connection, execution_id: str) -> None:
    """Afterwards nobody else who asks for this decides, until this transaction ends, whether there is such an execution.

    A row can be locked only once it is there (SQLite's writers are alone anyway).
    """
    if connection.dialect.name == "postgresql":
        locked = text("SELECT pg_advisory_xact_lock(hashtextextended(:execution_id, 7237432872))")
        connection.execute(locked, {"execution_id": execution_id})
