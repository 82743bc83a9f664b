"""What the platform is told, on the broker's exchange: how a task stands, what its package says, which model came of it.

A message is made once, with its time, and kept: whatever is sent again is the same message. These models are what we send;
they refuse what the wire contract does not name.
"""

from __future__ import annotations

import posixpath
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final, Literal

from pydantic import Field, StringConstraints

from contracts.base import (
    Contract,
    Document,
    Number,
    PositiveCount,
    RelativePath,
    TaskKind,
    Text,
    UuidText,
)
from contracts.dataset import ClassNames
from contracts.event import Moment
from contracts.limits import MAX_TOLD_CHARACTERS, MAX_TOLD_LOGS
from contracts.objects import PinnedReference
from contracts.result import ResultArtifact, ResultError, TrainingResult

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pydantic import GetJsonSchemaHandler
    from pydantic.json_schema import JsonSchemaValue
    from pydantic_core import CoreSchema

    from contracts.violations import Violation

SERVICE_NAME: Final = "model-training-runtime"
BACKEND: Final = "training_code_runtime"
CANCELLED_MESSAGE: Final = "cancelled"
"""The platform tells a cancelled task from a failed one by exactly this."""

QUEUED: Final = 0
RUNNING: Final = 1
COMPLETED: Final = 3
FAILED: Final = 4

LogLevel = Literal["debug", "info", "warning", "error"]
RuntimeTemplate = Literal["ultralytics_detection", "ultralytics_classification", "onnx_classification"]

_DETECTION_KINDS: Final = frozenset({"detection", "detection_bbox", "detection_obb"})
_MESSAGE_CHARACTERS: Final = 8_000
"""As much as the result's own error says."""


class Sent(Document):
    """A part of a message: every field of it is always written."""

    @classmethod
    def __get_pydantic_json_schema__(cls, core: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        schema = handler(core)
        described = handler.resolve_ref_schema(schema)
        described["required"] = list(described.get("properties", {}))
        return schema


class Message(Sent):
    """What every message says: its kind, who sends it, when it was made, and of which task it speaks.

    Class attributes:
        kind: the message type, which is the routing key too.
    """

    kind: ClassVar[str]

    service_name: Literal["model-training-runtime"] = SERVICE_NAME
    timestamp: Moment
    task_id: PositiveCount


class StoredArtifact(Sent):
    """An artifact of an execution and where it lies."""

    artifact: ResultArtifact
    object: PinnedReference


class Begun(Sent):
    """What a status that is not the last adds."""

    backend: Literal["training_code_runtime"] = BACKEND
    execution_id: UuidText


class Ended(Sent):
    """What the last status adds: the result, and the artifacts with their places."""

    backend: Literal["training_code_runtime"] = BACKEND
    execution_id: UuidText
    result: TrainingResult
    artifacts: Annotated[tuple[StoredArtifact, ...], Field(max_length=128)]


class Unnamed(Sent):
    """What the last status adds where a submission was refused that names no execution: there is no result of one."""

    backend: Literal["training_code_runtime"] = BACKEND
    execution_id: None = None
    result: None = None
    artifacts: Annotated[tuple[StoredArtifact, ...], Field(max_length=0)] = ()


class TaskStatusUpdate(Message):
    """How a task stands: 0 queued, 1 running, 3 completed, 4 failed or cancelled."""

    kind: ClassVar[str] = "task.status.update"

    message_type: Literal["task.status.update"] = "task.status.update"
    status: Literal[0, 1, 3, 4]
    message: Annotated[Text, StringConstraints(min_length=1, max_length=_MESSAGE_CHARACTERS)]
    extra_data: Begun | Ended | Unnamed

    @classmethod
    def disagreements(cls, fields: Mapping[str, Any]) -> Iterator[Violation]:
        """The last status, and only it, has a result that says the same."""
        status, extra = fields.get("status"), fields.get("extra_data")
        if status is None or extra is None:
            return
        if isinstance(extra, Begun) != (status in {QUEUED, RUNNING}):
            yield {"path": "extra_data", "message": f"not that of status {status}"}
        elif isinstance(extra, Unnamed) and status != FAILED:
            yield {"path": "extra_data.execution_id", "message": f"required here for status {status}"}
        elif isinstance(extra, Ended):
            if (extra.result.status == "succeeded") != (status == COMPLETED):
                yield {"path": "extra_data.result.status", "message": f"not that of status {status}"}
            if extra.result.execution_id != extra.execution_id:
                yield {"path": "extra_data.result.execution_id", "message": "is another than extra_data.execution_id"}
            if (extra.result.status == "cancelled") != (fields.get("message") == CANCELLED_MESSAGE):
                yield {"path": "message", "message": f"not that of a result that is {extra.result.status}"}


class TaskLog(Message):
    """What a task says while it goes on: one line, or several of one level."""

    kind: ClassVar[str] = "task.log"

    message_type: Literal["task.log"] = "task.log"
    log_content: Annotated[Text, StringConstraints(min_length=1, max_length=MAX_TOLD_CHARACTERS)]
    log_level: LogLevel


class ModelInfo(Sent):
    """A model that can be deployed, as the platform registers it.

    Attributes:
        onnx_save_path: the ONNX file's key in the bucket of models.
        save_path: likewise of the checkpoint that training can go on from.
        loss: the result's metric `loss`, else `val_loss`.
        runtime_template: what serves it.
    """

    onnx_save_path: RelativePath
    save_path: RelativePath | None
    task_kind: TaskKind
    class_names: ClassNames
    trained_model_name: Annotated[Text, StringConstraints(min_length=1)]
    loss: Number | None
    runtime_template: RuntimeTemplate
    execution_id: UuidText


class ModelRegistered(Message):
    """A task left a model that can be deployed."""

    kind: ClassVar[str] = "model.registered"

    message_type: Literal["model.registered"] = "model.registered"
    model_info: ModelInfo


MESSAGES: Final = tuple(
    Contract(name, "", f"contracts.messages:{model.__name__}")
    for name, model in (
        ("task_status_update", TaskStatusUpdate),
        ("task_log", TaskLog),
        ("model_registered", ModelRegistered),
    )
)
"""For their JSON Schemas. They have no version and nobody sends them to us, so they are no `CONTRACTS`."""


# --- how a task stands -----------------------------------------------------------------------------------------------


def queued(*, execution_id: str, task_id: int, timestamp: Any) -> TaskStatusUpdate:
    """Status 0: the submission is recorded, and will be carried out."""
    return TaskStatusUpdate(
        timestamp=timestamp,
        task_id=task_id,
        status=QUEUED,
        message="queued",
        extra_data=Begun(execution_id=execution_id),
    )


def running(*, execution_id: str, task_id: int, timestamp: Any) -> TaskStatusUpdate:
    """Status 1: somebody works on it."""
    return TaskStatusUpdate(
        timestamp=timestamp,
        task_id=task_id,
        status=RUNNING,
        message="running",
        extra_data=Begun(execution_id=execution_id),
    )


def ended(
    *,
    task_id: int,
    timestamp: Any,
    result: TrainingResult,
    artifacts: Sequence[Mapping[str, Any]],
    message: str = "",
) -> TaskStatusUpdate:
    """The last status: 3 for a success, else 4; what is said of a failure is its typed cause and the next action.

    Args:
        task_id: of which task.
        timestamp: when it ended.
        result: how; of a cancelled one the message is exactly `cancelled`.
        artifacts: `[{"artifact", "object"}]`.
        message: what a success says; `completed` if nothing.
    """
    said = message or "completed"
    if result.error is not None:
        said = f"{result.error.error_type}: {result.error.message}"
    if result.status == "cancelled":
        said = CANCELLED_MESSAGE
    return TaskStatusUpdate(
        timestamp=timestamp,
        task_id=task_id,
        status=COMPLETED if result.status == "succeeded" else FAILED,
        message=said[:_MESSAGE_CHARACTERS],
        extra_data=Ended(
            execution_id=result.execution_id,
            result=result,
            artifacts=tuple(StoredArtifact.model_validate(dict(artifact)) for artifact in artifacts),
        ),
    )


def refused(
    *, task_id: int, timestamp: Any, code: str, message: str, hint: str, execution_id: str | None = None
) -> TaskStatusUpdate:
    """Status 4 of a submission that never became an execution: it breaks its contract, or the policy forbids it.

    Args:
        task_id: the task that it names.
        timestamp: when it was refused.
        code: of the typed error.
        message: what is wrong.
        hint: the next action.
        execution_id: the UUID that it names, if it names one.
    """
    error = ResultError(
        stage="validate_submission", error_type=code, message=f"{message} {hint}".strip()[:_MESSAGE_CHARACTERS] or code
    )
    if execution_id is not None:
        result = TrainingResult(execution_id=execution_id, status="failed", error=error)
        return ended(task_id=task_id, timestamp=timestamp, result=result, artifacts=())
    return TaskStatusUpdate(
        timestamp=timestamp,
        task_id=task_id,
        status=FAILED,
        message=f"{code}: {error.message}"[:_MESSAGE_CHARACTERS],
        extra_data=Unnamed(),
    )


# --- what it says ----------------------------------------------------------------------------------------------------


def log(*, task_id: int, timestamp: Any, level: LogLevel, content: str) -> TaskLog:
    """A log message; content beyond `MAX_TOLD_CHARACTERS` is cut."""
    return TaskLog(timestamp=timestamp, task_id=task_id, log_level=level, log_content=content[:MAX_TOLD_CHARACTERS])


def log_limit(*, execution_id: str, task_id: int, timestamp: Any) -> TaskLog:
    """The log message after which no more follow: it says where the rest is."""
    return log(
        task_id=task_id,
        timestamp=timestamp,
        level="warning",
        content=f"{MAX_TOLD_LOGS} log messages were sent: the rest stays with the runtime, "
        f"`mtr executions logs {execution_id}` or GET /v1/executions/{execution_id}/events.",
    )


def not_registered(*, task_id: int, timestamp: Any, task_kind: str) -> TaskLog:
    """The log message in place of `model_registered` where the platform has nothing that serves such a model."""
    return log(
        task_id=task_id,
        timestamp=timestamp,
        level="warning",
        content=f"the model is stored but not registered: the platform serves no models of task kind {task_kind}",
    )


# --- which model came of it ------------------------------------------------------------------------------------------


def runtime_template(task_kind: str, framework: str | None) -> RuntimeTemplate | None:
    """What serves a model of `task_kind` that `framework` trained; `None` where the platform has nothing that does."""
    if task_kind in _DETECTION_KINDS:
        return "ultralytics_detection"
    if task_kind == "classification":
        return "ultralytics_classification" if framework == "ultralytics" else "onnx_classification"
    return None


def model_registered(
    *,
    task_id: int,
    timestamp: Any,
    package_key: str,
    onnx_save_path: str,
    result: TrainingResult,
    artifacts: Sequence[Mapping[str, Any]],
) -> ModelRegistered | None:
    """What tells the platform of a model; `None` where it has nothing that serves one of this task kind.

    Args:
        task_id: the task that trained it.
        timestamp: when.
        package_key: the package that trained it.
        onnx_save_path: the ONNX file's key.
        result: of the execution, with its model's description.
        artifacts: `[{"artifact", "object"}]`.
    """
    model = result.model
    template = None if model is None else runtime_template(model.task_kind, model.framework)
    if model is None or template is None:
        return None
    return ModelRegistered(
        timestamp=timestamp,
        task_id=task_id,
        model_info=ModelInfo(
            onnx_save_path=onnx_save_path,
            save_path=_checkpoint_key(model.resume_checkpoint_path, artifacts),
            task_kind=model.task_kind,
            class_names=model.class_names,
            trained_model_name=f"{package_key}-task-{task_id}",
            loss=result.metrics.get("loss", result.metrics.get("val_loss")),
            runtime_template=template,
            execution_id=result.execution_id,
        ),
    )


def _checkpoint_key(resume_path: str | None, artifacts: Sequence[Mapping[str, Any]]) -> str | None:
    """The key of the checkpoint that the model names to go on from, else of the first one, else none."""
    stored = [StoredArtifact.model_validate(dict(artifact)) for artifact in artifacts]
    checkpoints = [one for one in stored if one.artifact.role == "checkpoint"]
    if resume_path is not None:
        wanted = posixpath.normpath(resume_path)
        checkpoints.sort(key=lambda one: posixpath.normpath(one.artifact.path) != wanted)
    return checkpoints[0].object.object_key if checkpoints else None
