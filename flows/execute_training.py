"""One submission, to its end. The control flow: cheap, on a CPU; what needs a GPU is the child `train_package`."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from prefect import State, flow
from prefect.states import Completed

from contracts.base import validate
from contracts.errors import (
    CancelledError,
    InvalidDocumentError,
    LedgerUnavailableError,
    RuntimeFault,
    fault_from_document,
)
from contracts.submission import TrainingCodeSubmission
from flows.attempts import train_in_attempts
from flows.train_package import stage_of
from runtime.execution.telling import Teller
from runtime.ledger import Owner
from runtime.requests import label_of
from tasks.admit_execution import admit_execution
from tasks.check_package import check_package
from tasks.pin_dataset import pin_dataset
from tasks.publish_outcome import Outcome, publish_outcome
from tasks.register_model import register_model
from tasks.run import Host, Run, Watch, host_of_this_flow, leave_to_host
from tasks.states import failed_state
from tasks.this_run import is_being_cancelled, link_to_this_run, name_this_run
from tasks.validate_submission import validate_submission

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from runtime.handover import AttemptEnd
    from runtime.ledger import Execution, Ledger


@flow(name="execute-training", description=__doc__, persist_result=False)
def execute_training(
    execution_id: str = "",
    submission: dict[str, Any] = {},  # noqa: B006 - Prefect makes its form from the signature; nothing changes it
) -> State[Any]:
    """One submission, to its end. Any process may die anywhere: run it again with the same submission and it goes on.

    Args:
        execution_id: an execution that the ledger has.
        submission: or a `training-code-submit/v1` document, which the ledger accepts first.
    """
    try:
        with host_of_this_flow() as host:
            return carry_out(host, _accepted(host, execution_id, submission))
    except RuntimeFault as fault:
        leave_to_host(fault)
        return failed_state(fault)


def carry_out(host: Host, execution: Execution) -> State[Any]:
    """How the calling flow ends, after the execution has its end in the ledger.

    Raises:
        RuntimeFault: it has none: something outside is away, or another process works on it. Whoever runs it again goes on.
    """
    with _held(host, execution) as held:
        return _ended_state(held if held.ended else _to_its_end(host, held))


def _to_its_end(host: Host, execution: Execution) -> Execution:
    """The execution with its end.

    Raises:
        RuntimeFault: something outside is away (`retry` is `later`): there is no end yet.
    """
    ledger = host.installation.ledger
    run = Run.of(replace(host, stage_entered=_stage_writer(ledger, execution.execution_id)), execution.execution_id)
    watch = Watch(run, Owner.here(), Teller.of(host.installation, execution))
    end = None
    try:
        submission = validate_submission(run, execution)  # 1
        manifest = check_package(run, submission)  # 2
        dataset = pin_dataset(run, submission)  # 3
        admitted = admit_execution(run, submission, manifest, dataset, execution.label)  # 4
        end = train_in_attempts(run, admitted, watch)  # 5-8
        _require_success(end)
        model = register_model(run, admitted.plan, end, execution.model_name or manifest.key)  # 9
        outcome = Outcome.of_success(end, model)
    except RuntimeFault as fault:
        if fault.retry == "later":
            run.tell("state", state="interrupted", message=f"{fault.message} {fault.hint}")
            raise
        stage = end.stage if end is not None and end.stage else stage_of(fault, run.stage)
        outcome = Outcome.of_fault(run.execution_id, fault, stage, end)
    except BaseException as interruption:
        # Without that wish this process is being ended, and another one will go on.
        if not isinstance(interruption, Exception) and is_being_cancelled():
            wish = CancelledError("cancelled in Prefect", hint="`mtr executions retry` starts it anew.")
            publish_outcome(run, Outcome.of_fault(run.execution_id, wish, run.stage or "validate_submission", end))
        raise
    return publish_outcome(run, outcome)  # 10


def _require_success(end: AttemptEnd) -> None:
    fault = end.fault()
    if fault is not None:
        raise fault


def _accepted(host: Host, execution_id: str, submission: dict[str, Any]) -> Execution:
    ledger = host.installation.ledger
    if submission:
        document = validate(TrainingCodeSubmission, submission)
        label = label_of(host.installation, document)
        return ledger.accept(document, label=label, announced=True).execution  # whoever submits so is the platform
    if not execution_id:
        raise InvalidDocumentError.of(
            "execution", [{"path": "execution_id", "message": "required here, or a submission"}]
        )
    return ledger.get(execution_id)


@contextlib.contextmanager
def _held(host: Host, execution: Execution) -> Iterator[Execution]:
    """While the block lasts, this process holds the execution, and Prefect's run and the execution name each other."""
    ledger, owner = host.installation.ledger, Owner.here()
    name_this_run(execution.label)
    held = ledger.claim(execution.execution_id, owner)
    if held.ended:
        yield held
        return
    try:
        link_to_this_run(host, execution)
        yield held
    finally:
        with contextlib.suppress(LedgerUnavailableError):  # a hold whose process is gone is lost anyway
            ledger.release(execution.execution_id, owner)


def _stage_writer(ledger: Ledger, execution_id: str) -> Callable[[str], None]:
    def write(stage: str) -> None:
        with contextlib.suppress(LedgerUnavailableError):  # where it stands is a view; its end is not
            ledger.enter_stage(execution_id, stage)

    return write


def _ended_state(execution: Execution) -> State[Any]:
    if execution.error is not None:
        return failed_state(fault_from_document(execution.error))
    model = execution.model
    return Completed(message=f"{model['name']} v{model['version']} registered" if model else "no model to register")
