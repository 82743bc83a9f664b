"""Stages 5 to 8: what needs the machine with the GPU, and nothing that another could do before or after it.

The child of `execute_training`: called in process, or a deployment run on a work pool. It is given a reference to the
plan and an attempt number, reaches the object store and nothing else, and leaves one end record.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from prefect import State, flow
from prefect.states import Completed

from contracts.base import validate
from contracts.errors import ProtocolViolationError, RuntimeFault
from contracts.objects import PinnedReference
from runtime.execution.workspace import Workspace
from runtime.handover import AttemptEnd, Plan, find_end
from tasks.materialize_inputs import materialize_inputs, with_memory
from tasks.persist_artifacts import keep_output, persist_artifacts
from tasks.run import Run, host_of_this_flow
from tasks.states import failed_state
from tasks.train import train
from tasks.verify_artifacts import verify_artifacts

if TYPE_CHECKING:
    from contracts.completion import Completion


@flow(
    name="train-package",
    flow_run_name="{plan[label]}, attempt {attempt}",
    description=__doc__,
    persist_result=False,
)
def train_package(plan: dict[str, Any], attempt: int) -> State[Any]:
    """One attempt. Run again, it takes up what an earlier one left: a finished training is never repeated.

    Args:
        plan: `{"label", "object"}`, the stored plan's pinned reference, and maybe `memory_bytes` for a second try.
        attempt: its number, from 1.
    """
    try:
        with host_of_this_flow() as host:
            reference = validate(PinnedReference, plan.get("object") or {})
            stored = Plan.load(host.installation.store, reference.pinned())
            end = find_end(host.installation.store, stored.execution_id, attempt)
            if end is None:
                end = _attempt(Run.of(host, stored.execution_id), stored, attempt, plan.get("memory_bytes"))
    except RuntimeFault as fault:
        return failed_state(fault)
    failure = end.fault()
    return Completed(message=f"{len(end.artifacts)} artifacts stored") if failure is None else failed_state(failure)


@dataclass(slots=True)
class _Progress:
    """What an attempt has achieved so far; its record tells it also where the attempt fails later."""

    dataset: dict[str, Any] = field(default_factory=dict)
    completion: Completion | None = None
    artifacts: list[dict[str, Any]] = field(default_factory=list)
    process: dict[str, Any] = field(default_factory=dict)


def _attempt(run: Run, plan: Plan, attempt: int, memory_bytes: int | None) -> AttemptEnd:
    """The recorded end of the attempt; no process of it and no workspace is left.

    Raises:
        RuntimeFault: something outside was away (`retry` is `later`): nothing is recorded, and a finished training stays
            in its workspace for whoever goes on.
    """
    run.tell("attempt", attempt=attempt)
    progress, fault = _Progress(), None
    try:
        _stages(run, plan, attempt, memory_bytes, progress)
    except RuntimeFault as raised:
        if raised.retry == "later":
            raise
        fault = raised
    except BaseException:
        # Cancelled, or this process is being ended: what had not finished is worth nothing to anybody.
        _remove_workspaces(run, unless_finished=True)
        raise
    keep_output(run, attempt)
    end = _end(run, attempt, progress, fault).publish(run.installation.store)
    _remove_workspaces(run)
    return end


def _stages(run: Run, plan: Plan, attempt: int, memory_bytes: int | None, progress: _Progress) -> None:
    """Stages 5 to 8, in order, from where an earlier attempt on this machine had come."""
    workspace = next((place for place in _workspaces(run) if place.training_end() is not None), None)
    finished = workspace.training_end() if workspace is not None else None
    with contextlib.ExitStack() as held:
        if workspace is None or finished is None:
            inputs = materialize_inputs(run, plan, attempt, held)
            progress.dataset = inputs.dataset
            workspace = inputs.launch.workspace
            finished = train(run, with_memory(inputs, memory_bytes))
        else:
            run.tell("log", level="info", message=f"training had finished in attempt {workspace.attempt}: not repeated")
            run.log.info("Training had finished in attempt %s; going on with its result.", workspace.attempt)
    progress.completion, progress.process = finished.completion, finished.record.to_document()
    verified = verify_artifacts(run, plan, finished.completion, workspace)
    progress.artifacts = persist_artifacts(run, plan, finished.completion, verified, workspace, attempt=attempt)


def _end(run: Run, attempt: int, progress: _Progress, fault: RuntimeFault | None) -> AttemptEnd:
    process = progress.process or _process_of(fault)
    return AttemptEnd(
        execution_id=run.execution_id,
        attempt=attempt,
        outcome="succeeded" if fault is None else fault.code,
        stage=None if fault is None else stage_of(fault, run.stage),
        error=None if fault is None else fault.to_document(),
        completion=progress.completion.to_document() if progress.completion else None,
        artifacts=progress.artifacts,
        record=process,
        paid_seconds=float(process.get("training_seconds") or 0.0),
        training_finished=progress.completion is not None,
        timings=run.timings,
        dataset=progress.dataset,
    )


def stage_of(fault: RuntimeFault, entered: str) -> str:
    """The `error.stage` of a fault that arose in stage `entered`."""
    return "parse_runner_output" if isinstance(fault, ProtocolViolationError) else entered


def _process_of(fault: RuntimeFault | None) -> dict[str, Any]:
    process = fault.context.get("process") if fault is not None else None
    return process if isinstance(process, dict) else {}


def _workspaces(run: Run) -> tuple[Workspace, ...]:
    return Workspace.find(run.installation.settings.workspace_root, run.execution_id)


def _remove_workspaces(run: Run, *, unless_finished: bool = False) -> None:
    """Takes away what attempts of this execution left on this machine; what resists is said, and hides nothing."""
    for workspace in _workspaces(run):
        if unless_finished and workspace.training_end() is not None:
            continue
        try:
            workspace.remove()
        except RuntimeFault as fault:
            run.log.warning("%s %s", fault.message, fault.hint)
