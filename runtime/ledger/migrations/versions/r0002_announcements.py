"""Executions that are told to the platform, how far their journals were told, and leases."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision: str | None = "0001"
branch_labels: str | None = None
depends_on: str | None = None

_MOMENT = sa.DateTime(timezone=True)


def upgrade() -> None:
    """From the first schema. Executions that it had were told to nobody, and stay so."""
    op.add_column("executions", sa.Column("announced", sa.Boolean, nullable=False, server_default=sa.false()))
    op.add_column("executions", sa.Column("error_code", sa.String(64)))
    _fill_error_codes()
    op.create_index("ix_executions_state_error_code", "executions", ["state", "error_code"])

    op.add_column("outbox", sa.Column("task_id", sa.BigInteger))
    op.execute("UPDATE outbox SET task_id = (SELECT task_id FROM executions WHERE executions.id = outbox.execution_id)")
    with op.batch_alter_table("outbox") as outbox:  # SQLite writes the table anew, which nothing refers to
        outbox.alter_column("task_id", existing_type=sa.BigInteger, nullable=False)
        outbox.alter_column("execution_id", existing_type=sa.String(36), nullable=True)
    op.create_index("ix_outbox_task_id", "outbox", ["task_id"])

    op.create_table(
        "told_journals",
        sa.Column("execution_id", sa.String(36), nullable=False),
        sa.Column("journal", sa.String(64), nullable=False),
        sa.Column("told_bytes", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("execution_id", "journal", name="pk_told_journals"),
        sa.ForeignKeyConstraint(["execution_id"], ["executions.id"], name="fk_told_journals_execution_id"),
    )

    op.create_table(
        "leases",
        sa.Column("name", sa.String(64), nullable=False),
        sa.Column("holder", sa.Text, nullable=False),
        sa.Column("expires_at", _MOMENT, nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_leases"),
    )


def _fill_error_codes() -> None:
    """The code of every error, read here: PostgreSQL's own operators refuse a document that quotes the character NUL."""
    executions = sa.table("executions", sa.column("id"), sa.column("error", sa.JSON), sa.column("error_code"))
    connection = op.get_bind()
    failed = sa.select(executions.c.id, executions.c.error).where(executions.c.error.is_not(sa.null()))
    for row in connection.execute(failed).all():
        if isinstance(row.error, dict) and isinstance(row.error.get("code"), str):
            same = executions.c.id == row.id
            connection.execute(sa.update(executions).where(same).values(error_code=row.error["code"]))
