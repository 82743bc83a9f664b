"""Stage 10: the execution has its one end in the ledger, and its workspace is gone."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Literal

from contracts.errors import CancelledError, RuntimeFault
from contracts.messages import ended, model_registered, not_registered
from contracts.result import ResultArtifact, ResultError, TrainingResult
from runtime.execution.telling import Teller
from runtime.execution.workspace import Workspace
from runtime.ledger import ATTEMPT_LOST, OutboxMessage
from runtime.sizes import readable_size
from tasks.showing import escape, show_markdown
from tasks.stage import stage

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from runtime.handover import AttemptEnd
    from runtime.installation import Installation
    from runtime.ledger import Execution, Ledger
    from runtime.registry.models import RegisteredModel
    from tasks.run import Run

_MESSAGE_CHARACTERS = 8_000
"""What the contract of a result allows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How an execution ends.

    Attributes:
        state: what the ledger will say.
        result: the document for the platform.
        error: the typed error; `None` for a success.
        artifacts: `[{"artifact", "object"}]`.
        model: the registered model.
    """

    state: Literal["succeeded", "failed", "cancelled"]
    result: TrainingResult
    error: RuntimeFault | None = None
    artifacts: list[dict[str, Any]] = field(default_factory=list)
    model: RegisteredModel | None = None

    @classmethod
    def of_success(cls, end: AttemptEnd, model: RegisteredModel | None) -> Outcome:
        """The outcome of an attempt whose artifacts are stored and whose model, if it left one, is registered."""
        return cls(state="succeeded", result=_result(end, None, end.execution_id), artifacts=end.artifacts, model=model)

    @classmethod
    def of_fault(cls, execution_id: str, fault: RuntimeFault, stage: str, end: AttemptEnd | None) -> Outcome:
        """The outcome of an execution that `fault` ended in `stage`; what an attempt left is still told."""
        error = ResultError(
            stage=stage,
            error_type=fault.code,
            message=f"{fault.message} {fault.hint}".strip()[:_MESSAGE_CHARACTERS] or fault.code,
            retryable=fault.retry != "never",
        )
        return cls(
            state="cancelled" if isinstance(fault, CancelledError) else "failed",
            result=_result(end, error, execution_id),
            error=fault,
            artifacts=end.artifacts if end else [],
        )


@stage(retried=True)
def publish_outcome(run: Run, outcome: Outcome) -> Execution:
    """The execution as the ledger has it, with its end and without its workspace. In the UI: what was removed.

    Retry: safe; the same end is written once, and a workspace that is gone stays gone.

    Raises:
        ConflictError: the execution has another end, which stays.
        LedgerUnavailableError: the ledger does not answer.
    """
    execution, removed = write_end(run.installation, run.execution_id, outcome)
    show_markdown("outcome", _markdown(outcome, removed), "How it ended, and what was removed")
    run.tell("state", state=outcome.state, message=_line(outcome))
    return execution


def write_end(installation: Installation, execution_id: str, outcome: Outcome) -> tuple[Execution, Cleaning]:
    """As the stage, for whoever ends an execution that nobody works on.

    Where the execution is announced the platform is told: first what its journal still has, then, with the end, the
    status and the model.

    Raises:
        ConflictError, LedgerUnavailableError: as the stage.
    """
    removed = _remove_workspaces(installation.settings.workspace_root, execution_id)
    ledger = installation.ledger
    ledger.set_workspace_cleaned(execution_id, removed.complete)
    _end_open_attempts(ledger, execution_id, outcome)
    execution = ledger.get(execution_id)
    Teller.of(installation, execution).tell()
    finished = ledger.finish(  # last: whoever dies before it leaves an execution that goes on
        execution_id,
        state=outcome.state,
        result=outcome.result.to_document(),
        error=None if outcome.error is None else outcome.error.to_document(),
        artifacts=outcome.artifacts,
        model=None if outcome.model is None else outcome.model.to_document(),
        messages=_messages(execution, outcome) if execution.announced else (),
    )
    return finished.execution, removed


def _messages(execution: Execution, outcome: Outcome) -> Iterator[OutboxMessage]:
    """What the platform is told of the end, in order. Each has a number of its own: nothing is told twice."""
    now, task_id = datetime.now(UTC), execution.task_id
    registered = None
    if outcome.model is not None:
        registered = model_registered(
            task_id=task_id,
            timestamp=now,
            package_key=execution.package_key,
            onnx_save_path=outcome.model.object.key,
            result=outcome.result,
            artifacts=outcome.artifacts,
        )
        if registered is None:  # log messages of the journal count from 1
            warning = not_registered(task_id=task_id, timestamp=now, task_kind=execution.task_kind)
            yield OutboxMessage.of(warning, 0)
    yield OutboxMessage.of(
        ended(
            task_id=task_id, timestamp=now, result=outcome.result, artifacts=outcome.artifacts, message=_line(outcome)
        )
    )
    if registered is not None:
        yield OutboxMessage.of(registered)


def _end_open_attempts(ledger: Ledger, execution_id: str, outcome: Outcome) -> None:
    """An attempt that was interrupted from outside could not record its own end: it ended as the execution does."""
    for attempt in ledger.attempts(execution_id):
        if attempt.ended_at is None:
            ledger.end_attempt(
                execution_id,
                attempt.number,
                outcome=ATTEMPT_LOST if outcome.error is None else outcome.error.code,
                record={},
                paid_seconds=0.0,
                training_finished=False,
            )


@dataclass(slots=True)
class Cleaning:
    """What was removed on this machine, and what could not be."""

    files: int = 0
    bytes: int = 0
    attempts: list[int] = field(default_factory=list)
    left: list[str] = field(default_factory=list)

    @property
    def complete(self) -> bool:
        """Whether nothing is left."""
        return not self.left


def _remove_workspaces(root: Path, execution_id: str) -> Cleaning:
    """Takes away what attempts on this machine left. What cannot be removed is said, and never hides how it ended."""
    cleaning = Cleaning()
    for workspace in Workspace.find(root, execution_id):
        try:
            removed = workspace.remove()
        except RuntimeFault as fault:
            cleaning.left.append(fault.message)
            continue
        cleaning.files += removed.files
        cleaning.bytes += removed.bytes
        cleaning.attempts.append(workspace.attempt)
    return cleaning


def _result(end: AttemptEnd | None, error: ResultError | None, execution_id: str) -> TrainingResult:
    """The platform's document; a failure tells what had been achieved, but describes no model that nobody may use."""
    completion = end.published_completion() if end else None
    stored = end.artifacts if end else []
    status = "succeeded" if error is None else "cancelled" if error.error_type == CancelledError.code else "failed"
    return TrainingResult(
        execution_id=execution_id,
        status=status,
        summary=completion.summary if completion else None,
        metrics=completion.metrics if completion else {},
        artifacts=tuple(ResultArtifact.model_validate(one["artifact"]) for one in stored),
        model=completion.model if completion and error is None else None,
        error=error,
    )


def _line(outcome: Outcome) -> str:
    if outcome.error is not None:
        return f"{outcome.error.message} {outcome.error.hint}"
    return f"{outcome.model.name} v{outcome.model.version} registered" if outcome.model else "no model to register"


def _markdown(outcome: Outcome, cleaning: Cleaning) -> str:
    parts = [f"# {outcome.state}", ""]
    if outcome.error is not None:
        parts += [
            f"**{outcome.error.code}**: {escape(outcome.error.message)}",
            "",
            f"→ {escape(outcome.error.hint)}",
            "",
        ]
        said = outcome.error.context.get("traceback")
        if isinstance(said, str):
            parts += ["```text", said.replace("```", "'''"), "```", ""]
    if outcome.model is not None:
        parts += [f"Registered: **{outcome.model.name} v{outcome.model.version}**", ""]
    parts.append(
        f"Removed here: {cleaning.files} files, {readable_size(cleaning.bytes)} "
        f"(attempts {', '.join(map(str, sorted(cleaning.attempts))) or 'none; each attempt removes its own'})"
    )
    parts += [f"**Not removed**: {escape(left)}" for left in cleaning.left]
    return "\n".join([*parts, ""])
