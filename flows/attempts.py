"""Which attempt trains, where, and whether another one follows: the only place that pays for training twice.

An attempt that the ledger has without an end, or as lost, may have left an end record in the store: evidence always
wins. Where it left none, it is given one before another attempt begins, and the first record stays: whatever still runs of
the older attempt comes too late. Another attempt follows only what a machine did (killed, lost), and memory once, where the
operator allows more. What a package did is never tried again.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import httpx
from prefect.exceptions import PrefectException

from contracts.errors import AttemptLostError, CancelledError, OutOfMemoryError, RuntimeFault
from flows.train_package import train_package
from runtime.cluster.job_variables import job_variables
from runtime.execution.workspace import Workspace
from runtime.handover import AttemptEnd, find_end
from tasks.admit_execution import pool_of
from tasks.attempt_runs import fault_of, follow, start_or_find, unreachable
from tasks.run import Host, hosted
from tasks.states import failed_state, state_message

if TYPE_CHECKING:
    from collections.abc import Callable

    from prefect.client.schemas.objects import State

    from runtime.ledger import Attempt, Ledger
    from tasks.admit_execution import AdmittedPlan
    from tasks.run import Run


def train_in_attempts(run: Run, admitted: AdmittedPlan, watch: Callable[[], bool]) -> AttemptEnd:
    """The end of the attempt that decides: the first that succeeded, or the last that was worth making.

    Args:
        run: the execution, held by this process.
        admitted: the stored plan.
        watch: asked about once a second; keeps the hold, and answers whether to end.

    Raises:
        CancelledError: somebody asked for the end before training began.
        RuntimeFault: something outside is away (`retry` is `later`): the execution goes on when it is back.
    """
    decided = _take_up(run)
    if decided is not None:
        return decided
    ledger, settings = run.installation.ledger, run.installation.settings
    goes_on = _still_open(run, pool_of(admitted.plan.submission, run))
    memory_bytes: int | None = None
    left = settings.max_attempts
    while True:
        if watch():
            raise CancelledError("cancelled before training began", hint="`mtr executions retry` starts it anew.")
        decided = None if goes_on else _close_earlier(run)
        if decided is not None:
            return decided
        attempt = goes_on or ledger.begin_attempt(run.execution_id)
        goes_on, left = None, left - 1
        end = _one(run, admitted, attempt, memory_bytes, watch)
        fault = end.fault()
        if fault is None or fault.retry != "elsewhere" or left == 0:
            return end
        if isinstance(fault, OutOfMemoryError):
            if settings.oom_memory_factor is None or memory_bytes is not None:
                return end
            memory_bytes = int(admitted.plan.submission.resources.memory_bytes * settings.oom_memory_factor)
        run.tell("log", level="warning", message=f"attempt {attempt.number}: {state_message(fault)}")
        run.log.warning("Attempt %s ended: %s", attempt.number, state_message(fault))


def _take_up(run: Run) -> AttemptEnd | None:
    """The deciding end that earlier processes left, if there is one; every end that they left is in the ledger afterwards."""
    decided = None
    for attempt in run.installation.ledger.attempts(run.execution_id):
        end = find_end(run.installation.store, run.execution_id, attempt.number)
        if end is None:
            continue
        _settle(run.installation.ledger, attempt, end)
        decided = end if _decides(end) else decided
    return decided


def _decides(end: AttemptEnd) -> bool:
    fault = end.fault()
    return fault is None or fault.retry == "never"


def _close_earlier(run: Run) -> AttemptEnd | None:
    """Afterwards no attempt so far can leave another end; the deciding one that came just before, if there is one."""
    for attempt in run.installation.ledger.attempts(run.execution_id):
        given_up = AttemptLostError(
            f"attempt {attempt.number} left no end and was given up",
            hint="Another attempt follows where it is allowed.",
            context={"attempt": attempt.number},
        )
        end = replace(_end_without_record(run, attempt, given_up), outcome=attempt.outcome or given_up.code)
        kept = end.publish(run.installation.store)
        if kept != end:
            _settle(run.installation.ledger, attempt, kept)
            if _decides(kept):
                return kept
    return None


def _still_open(run: Run, pool: str | None) -> Attempt | None:
    """The last attempt, where it goes on: on a pool its run is found again; here only a training that had finished is."""
    last = next(reversed(run.installation.ledger.attempts(run.execution_id)), None)
    if last is None or last.ended_at is not None:
        return None
    if pool is not None:
        return last
    left = Workspace.find(run.installation.settings.workspace_root, run.execution_id)
    return last if any(place.training_end() is not None for place in left) else None


def _one(
    run: Run, admitted: AdmittedPlan, attempt: Attempt, memory_bytes: int | None, watch: Callable[[], bool]
) -> AttemptEnd:
    """One attempt, to its end in the ledger."""
    plan: dict[str, Any] = {"label": admitted.plan.label, "object": admitted.object.to_document()}
    if memory_bytes is not None:
        plan["memory_bytes"] = memory_bytes
    on_pool = pool_of(admitted.plan.submission, run) is not None
    state = _on_pool(run, admitted, plan, attempt, watch) if on_pool else _in_process(run, plan, attempt, watch)
    ledger = run.installation.ledger
    end = find_end(run.installation.store, run.execution_id, attempt.number)
    if end is None:
        end = _end_without_record(run, attempt, fault_of(state))
        lost = end.fault()
        if lost is None or lost.retry != "later":
            end = end.publish(run.installation.store)
    unseen = {stage: seconds for stage, seconds in end.timings.items() if stage not in run.seen}
    ledger.add_stage_seconds(run.execution_id, unseen)
    _settle(ledger, attempt, end)
    fault = end.fault()
    if fault is not None and fault.retry == "later":
        raise fault
    return end


def _end_without_record(run: Run, attempt: Attempt, fault: RuntimeFault) -> AttemptEnd:
    """What is known of an attempt that left nothing in the store."""
    return AttemptEnd(
        execution_id=run.execution_id,
        attempt=attempt.number,
        outcome=fault.code,
        stage=run.stage,
        error=fault.to_document(),
    )


def _in_process(run: Run, plan: dict[str, Any], attempt: Attempt, watch: Callable[[], bool]) -> State[Any]:
    try:
        with hosted(Host(run.installation, cancelled=watch, stage_entered=run.follow_stage)):
            state: State[Any] = train_package(plan, attempt.number, return_state=True)
    except (httpx.HTTPError, PrefectException) as error:
        # Prefect went away around a run that may have come to its end: the end record decides.
        return failed_state(unreachable(error))
    return state


def _on_pool(
    run: Run, admitted: AdmittedPlan, plan: dict[str, Any], attempt: Attempt, watch: Callable[[], bool]
) -> State[Any]:
    """The attempt as a run of the deployment for its device.

    The key holds the plan's digest, since Prefect answers a used key with the old run even for other parameters.
    """
    device = "gpu" if admitted.plan.submission.resources.device == "cuda" else "cpu"
    key = f"{run.execution_id}-{admitted.object.sha256}-{attempt.number}"
    variables: dict[str, Any] = {}
    if pool_of(admitted.plan.submission, run) in run.installation.settings.cluster_pools:
        variables = job_variables(
            run.execution_id,
            attempt.number,
            admitted.plan.submission.resources,
            run.installation.settings,
            memory_bytes=plan.get("memory_bytes"),
        )
    child = start_or_find(f"train-package/{device}", plan, attempt.number, idempotency_key=key, job_variables=variables)
    run.tell("attempt", attempt=attempt.number, flow_run_id=str(child))
    run.follow_stage("materialize_inputs")  # the wait for a worker counts for what is waited for
    try:
        return follow(child, cancelled=watch, stage_entered=run.follow_stage)
    except CancelledError as fault:  # its process may be alive still: what it makes from here on is not kept
        return failed_state(fault)


def _settle(ledger: Ledger, attempt: Attempt, end: AttemptEnd) -> None:
    ledger.end_attempt(
        attempt.execution_id,
        attempt.number,
        outcome=end.outcome,
        record=end.record,
        paid_seconds=end.paid_seconds,
        training_finished=end.training_finished,
        counted={name: int(end.dataset.get(name, 0)) for name in ("cached_items", "downloaded_items")},
    )
