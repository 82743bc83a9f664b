"""The first schema."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision: str | None = None
branch_labels: str | None = None
depends_on: str | None = None

_MOMENT = sa.DateTime(timezone=True)


def upgrade() -> None:
    """From nothing."""
    op.create_table(
        "executions",
        sa.Column("id", sa.String(36), nullable=False),
        sa.Column("submission_sha256", sa.String(64), nullable=False),
        sa.Column("submission", sa.JSON, nullable=False),
        sa.Column("label", sa.Text, nullable=False),
        sa.Column("task_id", sa.BigInteger, nullable=False),
        sa.Column("task_kind", sa.String(64), nullable=False),
        sa.Column("package_key", sa.String(128), nullable=False),
        sa.Column("package_version", sa.Text, nullable=False),
        sa.Column("model_name", sa.Text),
        sa.Column("retry_of", sa.String(36)),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("stage", sa.String(64)),
        sa.Column("stage_entered_at", _MOMENT),
        sa.Column("created_at", _MOMENT, nullable=False),
        sa.Column("started_at", _MOMENT),
        sa.Column("ended_at", _MOMENT),
        sa.Column("cancel_requested_at", _MOMENT),
        sa.Column("flow_run_id", sa.String(36)),
        sa.Column("ui_url", sa.Text),
        sa.Column("end_sha256", sa.String(64)),
        sa.Column("result", sa.JSON),
        sa.Column("error", sa.JSON),
        sa.Column("artifacts", sa.JSON),
        sa.Column("model", sa.JSON),
        sa.Column("workspace_cleaned", sa.Boolean),
        sa.Column("owner_host", sa.Text),
        sa.Column("owner_boot_id", sa.String(64)),
        sa.Column("owner_pid_namespace", sa.String(64)),
        sa.Column("owner_pid", sa.BigInteger),
        sa.Column("owner_process_started", sa.BigInteger),
        sa.Column("owner_seen_at", _MOMENT),
        sa.PrimaryKeyConstraint("id", name="pk_executions"),
    )
    op.create_index("ix_executions_state_created_at", "executions", ["state", "created_at"])
    op.create_index("ix_executions_created_at", "executions", ["created_at"])
    op.create_index("ix_executions_task_id", "executions", ["task_id"])
    op.create_index("ix_executions_package_key", "executions", ["package_key"])

    op.create_table(
        "stage_times",
        sa.Column("execution_id", sa.String(36), nullable=False),
        sa.Column("stage", sa.String(64), nullable=False),
        sa.Column("position", sa.Integer, nullable=False),
        sa.Column("seconds", sa.Float, nullable=False),
        sa.PrimaryKeyConstraint("execution_id", "stage", name="pk_stage_times"),
        sa.ForeignKeyConstraint(["execution_id"], ["executions.id"], name="fk_stage_times_execution_id"),
    )

    op.create_table(
        "attempts",
        sa.Column("execution_id", sa.String(36), nullable=False),
        sa.Column("number", sa.Integer, nullable=False),
        sa.Column("flow_run_id", sa.String(36)),
        sa.Column("started_at", _MOMENT, nullable=False),
        sa.Column("ended_at", _MOMENT),
        sa.Column("outcome", sa.String(64)),
        sa.Column("record", sa.JSON),
        sa.Column("paid_seconds", sa.Float, nullable=False),
        sa.Column("training_finished", sa.Boolean, nullable=False),
        sa.PrimaryKeyConstraint("execution_id", "number", name="pk_attempts"),
        sa.ForeignKeyConstraint(["execution_id"], ["executions.id"], name="fk_attempts_execution_id"),
    )

    op.create_table(
        "outbox",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer, "sqlite"), autoincrement=True, nullable=False),
        sa.Column("message_id", sa.String(36), nullable=False),
        sa.Column("execution_id", sa.String(36), nullable=False),
        sa.Column("kind", sa.String(64), nullable=False),
        sa.Column("number", sa.Integer, nullable=False),
        sa.Column("body", sa.JSON, nullable=False),
        sa.Column("created_at", _MOMENT, nullable=False),
        sa.Column("sent_at", _MOMENT),
        sa.PrimaryKeyConstraint("id", name="pk_outbox"),
        sa.UniqueConstraint("message_id", name="uq_outbox_message_id"),
        sa.UniqueConstraint("execution_id", "kind", "number", name="uq_outbox_execution_id_kind_number"),
        sa.ForeignKeyConstraint(["execution_id"], ["executions.id"], name="fk_outbox_execution_id"),
    )
    op.create_index("ix_outbox_sent_at_id", "outbox", ["sent_at", "id"])

    op.create_table(
        "dataset_names",
        sa.Column("name", sa.String(128), nullable=False),
        sa.Column("sha256", sa.String(64), nullable=False),
        sa.Column("bucket", sa.String(16), nullable=False),
        sa.Column("object_key", sa.Text, nullable=False),
        sa.Column("object_sha256", sa.String(64), nullable=False),
        sa.Column("object_size_bytes", sa.BigInteger, nullable=False),
        sa.Column("updated_at", _MOMENT, nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_dataset_names"),
    )

    op.create_table(
        "models",
        sa.Column("name", sa.String(128), nullable=False),
        sa.Column("version", sa.Integer, nullable=False),
        sa.Column("execution_id", sa.String(36), nullable=False),
        sa.Column("bucket", sa.String(16), nullable=False),
        sa.Column("object_key", sa.Text, nullable=False),
        sa.Column("object_sha256", sa.String(64), nullable=False),
        sa.Column("object_size_bytes", sa.BigInteger, nullable=False),
        sa.Column("task_kind", sa.String(64), nullable=False),
        sa.Column("class_names", sa.JSON, nullable=False),
        sa.Column("opset", sa.Integer, nullable=False),
        sa.Column("inputs", sa.JSON, nullable=False),
        sa.Column("outputs", sa.JSON, nullable=False),
        sa.Column("framework", sa.Text),
        sa.Column("metrics", sa.JSON, nullable=False),
        sa.Column("lineage", sa.JSON, nullable=False),
        sa.Column("created_at", _MOMENT, nullable=False),
        sa.PrimaryKeyConstraint("name", "version", name="pk_models"),
        sa.UniqueConstraint("name", "execution_id", "object_sha256", name="uq_models_name_execution_id_object_sha256"),
    )

    op.create_table(
        "counters",
        sa.Column("name", sa.String(64), nullable=False),
        sa.Column("value", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_counters"),
    )
