"""The ledger's tables, as the newest migration leaves them.

Written for SQLite and PostgreSQL alike: no type that only one has. Documents are `JSON`, never `JSONB`, which refuses the
character NUL that an error message may quote.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    Column,
    DateTime,
    Float,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    String,
    Table,
    Text,
    TypeDecorator,
    UniqueConstraint,
    false,
)

if TYPE_CHECKING:
    from sqlalchemy import Dialect


class Moment(TypeDecorator[datetime]):
    """A point in time, always with its zone in Python, always UTC in the database (SQLite knows no zones)."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:  # noqa: ARG002 - SQLAlchemy's
        """Into the database: UTC."""
        return None if value is None else value.astimezone(UTC)

    def process_result_value(self, value: datetime | None, dialect: Dialect) -> datetime | None:  # noqa: ARG002 - SQLAlchemy's
        """Out of it: UTC, said."""
        if value is None:
            return None
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)


BIG_ID: Final = BigInteger().with_variant(Integer, "sqlite")  # only INTEGER counts up by itself in SQLite
DOCUMENT: Final = JSON(none_as_null=True)

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
        "pk": "pk_%(table_name)s",
    }
)

executions = Table(
    "executions",
    metadata,
    Column("id", String(36), primary_key=True),
    Column("submission_sha256", String(64), nullable=False),  # without message_id: what makes two submissions the same
    Column("submission", DOCUMENT, nullable=False),
    Column("label", Text, nullable=False),
    Column("task_id", BigInteger, nullable=False),
    Column("task_kind", String(64), nullable=False),
    Column("package_key", String(128), nullable=False),
    Column("package_version", Text, nullable=False),
    Column("model_name", Text),
    Column("retry_of", String(36)),
    Column("announced", Boolean, nullable=False, server_default=false()),  # the platform is told of it
    Column("state", String(16), nullable=False),
    Column("stage", String(64)),
    Column("stage_entered_at", Moment),
    Column("created_at", Moment, nullable=False),
    Column("started_at", Moment),
    Column("ended_at", Moment),
    Column("cancel_requested_at", Moment),
    Column("flow_run_id", String(36)),
    Column("ui_url", Text),
    Column("end_sha256", String(64)),  # what makes two ends the same
    Column("result", DOCUMENT),
    Column("error", DOCUMENT),
    Column("error_code", String(64)),  # that of `error`, to be counted by
    Column("artifacts", DOCUMENT),
    Column("model", DOCUMENT),
    Column("workspace_cleaned", Boolean),
    Column("owner_host", Text),
    Column("owner_boot_id", String(64)),
    Column("owner_pid_namespace", String(64)),
    Column("owner_pid", BigInteger),
    Column("owner_process_started", BigInteger),
    Column("owner_seen_at", Moment),
    Index(None, "state", "created_at"),
    Index(None, "state", "error_code"),
    Index(None, "created_at"),
    Index(None, "task_id"),
    Index(None, "package_key"),
)

stage_times = Table(
    "stage_times",
    metadata,
    Column("execution_id", ForeignKey(executions.c.id), primary_key=True),
    Column("stage", String(64), primary_key=True),
    Column("position", Integer, nullable=False),  # order of first entry
    Column("seconds", Float, nullable=False),
)

attempts = Table(
    "attempts",
    metadata,
    Column("execution_id", ForeignKey(executions.c.id), primary_key=True),
    Column("number", Integer, primary_key=True),
    Column("flow_run_id", String(36)),
    Column("started_at", Moment, nullable=False),
    Column("ended_at", Moment),
    Column("outcome", String(64)),
    Column("record", DOCUMENT),
    Column("paid_seconds", Float, nullable=False),
    Column("training_finished", Boolean, nullable=False),
)

outbox = Table(
    "outbox",
    metadata,
    Column("id", BIG_ID, primary_key=True, autoincrement=True),
    Column("message_id", String(36), nullable=False, unique=True),
    Column("task_id", BigInteger, nullable=False),
    Column("execution_id", ForeignKey(executions.c.id)),  # none where a submission was refused before it became one
    Column("kind", String(64), nullable=False),
    Column("number", Integer, nullable=False),
    Column("body", DOCUMENT, nullable=False),
    Column("created_at", Moment, nullable=False),
    Column("sent_at", Moment),
    UniqueConstraint("execution_id", "kind", "number"),
    Index(None, "sent_at", "id"),
    Index(None, "task_id"),
)

told_journals = Table(
    "told_journals",
    metadata,
    Column("execution_id", ForeignKey(executions.c.id), primary_key=True),
    Column("journal", String(64), primary_key=True),  # which file: each machine that an execution ran on has its own
    Column("told_bytes", BigInteger, nullable=False),  # up to here its lines are messages
)

dataset_names = Table(
    "dataset_names",
    metadata,
    Column("name", String(128), primary_key=True),
    Column("sha256", String(64), nullable=False),
    Column("bucket", String(16), nullable=False),
    Column("object_key", Text, nullable=False),
    Column("object_sha256", String(64), nullable=False),
    Column("object_size_bytes", BigInteger, nullable=False),
    Column("updated_at", Moment, nullable=False),
)

models = Table(
    "models",
    metadata,
    Column("name", String(128), primary_key=True),
    Column("version", Integer, primary_key=True),
    Column("execution_id", String(36), nullable=False),
    Column("bucket", String(16), nullable=False),
    Column("object_key", Text, nullable=False),
    Column("object_sha256", String(64), nullable=False),
    Column("object_size_bytes", BigInteger, nullable=False),
    Column("task_kind", String(64), nullable=False),
    Column("class_names", DOCUMENT, nullable=False),
    Column("opset", Integer, nullable=False),
    Column("inputs", DOCUMENT, nullable=False),
    Column("outputs", DOCUMENT, nullable=False),
    Column("framework", Text),
    Column("metrics", DOCUMENT, nullable=False),
    Column("lineage", DOCUMENT, nullable=False),
    Column("created_at", Moment, nullable=False),
    UniqueConstraint("name", "execution_id", "object_sha256"),
)

counters = Table(
    "counters",
    metadata,
    Column("name", String(64), primary_key=True),
    Column("value", BigInteger, nullable=False),
)

leases = Table(
    "leases",
    metadata,
    Column("name", String(64), primary_key=True),
    Column("holder", Text, nullable=False),
    Column("expires_at", Moment, nullable=False),
)
