"""What the ledger answers: frozen records, never rows."""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from contracts.references import Pinned
    from runtime.ledger.owners import Owner

State = Literal["queued", "running", "succeeded", "failed", "cancelled"]
EndState = Literal["succeeded", "failed", "cancelled"]
END_STATES: Final[frozenset[str]] = frozenset({"succeeded", "failed", "cancelled"})

ATTEMPT_LOST: Final = "attempt_lost"
"""The outcome of an attempt whose process is gone without a word; real evidence found later replaces it."""

_MESSAGES: Final = uuid.UUID("6f1c1f0e-5d0c-5f5e-9a57-4b1d0b6a6f3e")
"""Namespace of message ids. Never change it: a resent message must keep its id."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutionSummary:
    """An execution as a list shows it.

    Attributes:
        execution_id: its UUID.
        state: `queued`, `running`, or one of the ends.
        stage: the last stage entered; `None` before the first.
        label: what people recognise it by, such as `digits 0.1.0 on digits-png`.
        error: of a failed or cancelled one, `{"code", "message", "hint", "context"}`.
        cancel_requested: somebody asked for its end.
        flow_run_id: its Prefect run; `ui_url` shows it.
    """

    execution_id: str
    state: State
    stage: str | None
    label: str
    task_id: int
    task_kind: str
    package_key: str
    package_version: str
    model_name: str | None
    retry_of: str | None
    created_at: datetime
    started_at: datetime | None
    ended_at: datetime | None
    cancel_requested: bool
    flow_run_id: str | None
    ui_url: str | None
    error: dict[str, Any] | None

    @property
    def ended(self) -> bool:
        """Whether it has its end, which never changes again."""
        return self.state in END_STATES


@dataclass(frozen=True, slots=True, kw_only=True)
class Execution(ExecutionSummary):
    """An execution, whole.

    Attributes:
        submission: the document as it was accepted first, `message_id` included.
        submission_sha256: digest of the submission without `message_id`.
        result: the `training-result/v1` document; `None` before the end.
        artifacts: `[{"artifact", "object"}]`.
        model: the registered model, as the command line shows it.
        workspace_cleaned: whether the workspace is gone; `None` when nobody said.
        timings: seconds spent in each stage, in the order of first entry; the running stage counts up to its last
            recorded moment.
        owner: the process that holds it.
    """

    submission: dict[str, Any]
    submission_sha256: str
    result: dict[str, Any] | None
    artifacts: list[dict[str, Any]]
    model: dict[str, Any] | None
    workspace_cleaned: bool | None
    timings: dict[str, float]
    owner: Owner | None

    def to_document(self) -> dict[str, Any]:
        """The shape that `mtr run --json`, `submit` and `executions show` print."""
        return {
            "execution_id": self.execution_id,
            "state": self.state,
            "stage": self.stage,
            "error": self.error,
            "result": self.result,
            "artifacts": self.artifacts,
            "model": self.model,
            "workspace_cleaned": bool(self.workspace_cleaned),
            "ui_url": self.ui_url,
            "timings": self.timings,
        }


@dataclass(frozen=True, slots=True)
class Accepted:
    """A submission that the ledger has; `created` says whether it is new."""

    created: bool
    execution: Execution


@dataclass(frozen=True, slots=True)
class Finished:
    """An execution with its end; `created` says whether this call wrote it."""

    created: bool
    execution: Execution


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One try of stages 5 to 8.

    Attributes:
        number: counts up from 1.
        outcome: `succeeded` or the code of its error; `None` while it runs.
        record: what the supervisor saw (exit code, signal, peak memory, isolation, ...).
        paid_seconds: time in which the package's code ran.
        training_finished: training came to its end, so it must not be repeated.
    """

    execution_id: str
    number: int
    flow_run_id: str | None
    started_at: datetime
    ended_at: datetime | None
    outcome: str | None
    record: dict[str, Any]
    paid_seconds: float
    training_finished: bool


@dataclass(frozen=True, slots=True)
class OutboxMessage:
    """A message that the platform must get, at least once and always with the same body.

    Attributes:
        kind: the message type, such as `task.status.update`.
        number: tells apart messages of one kind within an execution.
        body: the JSON body, its timestamp included.
    """

    kind: str
    number: int
    body: Mapping[str, Any]

    def message_id(self, execution_id: str) -> str:
        """The AMQP message id: the same for every sending of this message, and for no other message."""
        return str(uuid.uuid5(_MESSAGES, f"{execution_id}/{self.kind}/{self.number}"))


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingMessage:
    """A message that was not confirmed as sent yet."""

    message_id: str
    execution_id: str
    kind: str
    number: int
    created_at: datetime
    body: dict[str, Any] = field(repr=False)


@dataclass(frozen=True, slots=True)
class DatasetName:
    """A name, the snapshot it points at and where that lies."""

    name: str
    sha256: str
    object: Pinned
    updated_at: datetime
