"""What the ledger answers: frozen records, never rows."""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field
from datetime import UTC
from typing import TYPE_CHECKING, Any, Final, Literal, Self

from contracts.messages import TaskStatusUpdate

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from contracts.messages import Message
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
        announced: the platform is told of it, since its task is one of the platform's.
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
    announced: bool
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

    @property
    def cursor(self) -> str:
        """Where a list goes on after this one, as `Ledger.list` takes it."""
        return f"{self.created_at.astimezone(UTC):%Y%m%dT%H%M%S.%f}_{self.execution_id}"

    def to_summary_document(self) -> dict[str, Any]:
        """An entry of `mtr executions list --json` and of `GET /v1/executions`."""
        return {
            "execution_id": self.execution_id,
            "state": self.state,
            "stage": self.stage,
            "label": self.label,
            "task_id": self.task_id,
            "task_kind": self.task_kind,
            "package": {"key": self.package_key, "version": self.package_version},
            "retry_of": self.retry_of,
            "cancel_requested": self.cancel_requested,
            "created_at": self.created_at.isoformat(),
            "started_at": self.started_at.isoformat() if self.started_at else None,
            "ended_at": self.ended_at.isoformat() if self.ended_at else None,
            "error": self.error,
            "ui_url": self.ui_url,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Unfinished:
    """An execution without its end.

    Attributes:
        execution: as a list shows it.
        owner: the process that holds it, if one does.
        attended: that process is there, as far as can be seen: nobody else need take the execution up.
    """

    execution: ExecutionSummary
    owner: Owner | None
    attended: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """How much there is, for metrics.

    Attributes:
        executions: how many, by state and error code (`None` without one).
        oldest_queued_at: when the execution that has waited longest was accepted; `None` when none waits.
        pending_messages: how many messages nobody has confirmed.
        oldest_pending_at: when the first of them was written.
    """

    executions: dict[tuple[State, str | None], int]
    oldest_queued_at: datetime | None
    pending_messages: int
    oldest_pending_at: datetime | None


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """How an execution stands, as those who wait for its end need to know; the fields are those of `Execution`.

    Attributes:
        owner_host: the machine of the process that holds it.
    """

    state: State
    stage: str | None
    error: dict[str, Any] | None
    ended_at: datetime | None
    owner_host: str | None

    @property
    def ended(self) -> bool:
        """As of `ExecutionSummary`."""
        return self.state in END_STATES


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

    @classmethod
    def of(cls, message: Message, number: int | None = None) -> Self:
        """The outbox's form of `message`; a status has its own as its number, a registration 0."""
        if number is None:
            number = message.status if isinstance(message, TaskStatusUpdate) else 0
        return cls(message.kind, number, message.to_document())

    def message_id(self, execution_id: str) -> str:
        """The AMQP message id: the same for every sending of this message, and for no other message."""
        return str(uuid.uuid5(_MESSAGES, f"{execution_id}/{self.kind}/{self.number}"))


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingMessage:
    """A message that was not confirmed as sent yet.

    Attributes:
        kind: its type, which is the routing key too.
        execution_id: the execution of which it tells; `None` where a submission never became one.
    """

    message_id: str
    task_id: int
    execution_id: str | None
    kind: str
    number: int
    created_at: datetime
    body: dict[str, Any] = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedMessage(PendingMessage):
    """A message, sent or not.

    Attributes:
        sent_at: when the broker confirmed it; `None` before.
    """

    sent_at: datetime | None


@dataclass(frozen=True, slots=True)
class DatasetName:
    """A name, the snapshot it points at and where that lies."""

    name: str
    sha256: str
    object: Pinned
    updated_at: datetime


@dataclass(frozen=True, slots=True)
class Told:
    """How far a journal has been told: the bytes whose lines are messages, and the number of the last log message.

    A number above `MAX_TOLD_LOGS` is that of the message that says where the rest is: no more follow.
    """

    bytes: int
    logs: int
