"""Messages to the platform, written in the transaction of what they tell, sent later and marked when they are confirmed.

The order of ids is the order of sending. Within an execution it is the order of what happened, since whoever writes
messages of an execution holds its row.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlalchemy import func, select, update

from contracts.limits import MAX_TOLD_LOGS
from contracts.messages import TaskLog, log_limit, queued, running
from runtime.ledger.database import insert_all_once
from runtime.ledger.records import OutboxMessage, RecordedMessage
from runtime.ledger.schema import outbox, told_journals

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime

    from sqlalchemy import Connection, Row


def enqueue(
    connection: Connection, execution_id: str, task_id: int, messages: Iterable[OutboxMessage], now: datetime
) -> None:
    """Afterwards the outbox has these messages; one that it had keeps its first body."""
    rows = [
        {
            "message_id": message.message_id(execution_id),
            "task_id": task_id,
            "execution_id": execution_id,
            "kind": message.kind,
            "number": message.number,
            "body": dict(message.body),
            "created_at": now,
        }
        for message in messages
    ]
    insert_all_once(connection, outbox, rows)


def enqueue_queued(connection: Connection, execution_id: str, task_id: int, now: datetime) -> None:
    """Afterwards the outbox has the execution's status 0."""
    message = OutboxMessage.of(queued(execution_id=execution_id, task_id=task_id, timestamp=now))
    enqueue(connection, execution_id, task_id, [message], now)


def enqueue_running(connection: Connection, execution_id: str, task_id: int, now: datetime) -> None:
    """Afterwards the outbox has the execution's status 1."""
    message = OutboxMessage.of(running(execution_id=execution_id, task_id=task_id, timestamp=now))
    enqueue(connection, execution_id, task_id, [message], now)


def enqueue_logs(
    connection: Connection, execution_id: str, task_id: int, logs: Sequence[TaskLog], now: datetime
) -> None:
    """Afterwards the outbox has these log messages, numbered on from the last; the one too many says where the rest is."""
    told = last_log(connection, execution_id)
    messages = [
        OutboxMessage.of(one, told + index) for index, one in enumerate(logs, 1) if told + index <= MAX_TOLD_LOGS
    ]
    if told <= MAX_TOLD_LOGS < told + len(logs):
        limit = log_limit(execution_id=execution_id, task_id=task_id, timestamp=now)
        messages.append(OutboxMessage.of(limit, MAX_TOLD_LOGS + 1))
    enqueue(connection, execution_id, task_id, messages, now)


def last_log(connection: Connection, execution_id: str) -> int:
    """The number of the execution's last log message; they count from 1."""
    same = (outbox.c.execution_id == execution_id) & (outbox.c.kind == TaskLog.kind)
    return connection.execute(select(func.max(outbox.c.number)).where(same)).scalar() or 0


def told_bytes(connection: Connection, execution_id: str, journal: str) -> int:
    """Up to where the lines of `journal` are messages; 0 of one that nobody told."""
    found = connection.execute(
        select(told_journals.c.told_bytes).where(
            told_journals.c.execution_id == execution_id, told_journals.c.journal == journal
        )
    ).scalar()
    return found or 0


def set_told_bytes(connection: Connection, execution_id: str, journal: str, upto: int) -> None:
    """Afterwards the lines of `journal` are messages up to there."""
    row = {"execution_id": execution_id, "journal": journal, "told_bytes": upto}
    insert_all_once(connection, told_journals, [row])
    connection.execute(
        update(told_journals)
        .where(told_journals.c.execution_id == execution_id, told_journals.c.journal == journal)
        .values(told_bytes=upto)
    )


def recorded(row: Row[Any]) -> RecordedMessage:
    """A row of the outbox, as a record."""
    return RecordedMessage(
        message_id=row.message_id,
        task_id=row.task_id,
        execution_id=row.execution_id,
        kind=row.kind,
        number=row.number,
        created_at=row.created_at,
        sent_at=row.sent_at,
        body=row.body,
    )
