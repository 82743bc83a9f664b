"""Bringing a ledger's schema forward, once, whoever comes first."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from sqlalchemy import inspect, text

from contracts.errors import LedgerUnavailableError
from runtime.ledger.database import lock_for_migration

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from runtime.ledger.database import Database

SCRIPTS: Final = Path(__file__).parent / "migrations"
REVISIONS: Final = ("0001", "0002")
"""Every schema that there ever was, oldest first; a test compares it with the scripts."""


def bring_forward(database: Database) -> None:
    """Afterwards the schema is the newest one.

    Two processes may call this at once, and either may die: the whole change is one transaction, and the second to come
    finds it done.

    Raises:
        LedgerUnavailableError: the database does not answer, or a newer program has already changed it.
    """
    with database.reading() as connection:
        if _is_newest(connection, database.name):
            return
    with database.writing() as connection:
        lock_for_migration(connection)
        if _is_newest(connection, database.name):  # somebody else was first
            return
        _upgrade(connection)


def _is_newest(connection: Connection, name: str) -> bool:
    found = _revision(connection)
    if found is not None and found not in REVISIONS:
        raise LedgerUnavailableError(
            f"the ledger at {name} has schema {found}, newer than this program's {REVISIONS[-1]}",
            hint="Use the newer program, or another home; an older program must not write into it.",
            context={"found": found, "known": list(REVISIONS)},
        )
    return found == REVISIONS[-1]


def _revision(connection: Connection) -> str | None:
    if not inspect(connection).has_table("alembic_version"):
        return None
    return connection.execute(text("SELECT version_num FROM alembic_version")).scalar()


def _upgrade(connection: Connection) -> None:
    # Only a new or an old database pays for these imports.
    from alembic import command  # noqa: PLC0415 - see above
    from alembic.config import Config  # noqa: PLC0415 - see above

    config = Config()
    config.set_main_option("script_location", str(SCRIPTS).replace("%", "%%"))
    config.attributes["connection"] = connection
    command.upgrade(config, "head")
