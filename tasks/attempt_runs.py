"""A training attempt as a deployment run on a work pool: started or found again, followed, cancelled with its parent."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final, cast

import httpx
from prefect.client.orchestration import get_client
from prefect.deployments import run_deployment
from prefect.exceptions import ObjectNotFound
from prefect.states import Cancelling

from contracts.errors import (
    AttemptLostError,
    CancelledError,
    InternalError,
    OrchestratorUnavailableError,
    RuntimeFault,
    codes,
)
from tasks.stage import STAGES
from tasks.states import state_name
from tasks.view_client import impatient

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager
    from uuid import UUID

    from prefect.client.orchestration import SyncPrefectClient
    from prefect.client.schemas.objects import FlowRun, State

POLL_SECONDS: Final = 1.0
CANCEL_SECONDS: Final = 60.0
"""How long a cancelled attempt may take to end before its parent stops waiting for it."""
PATIENCE_SECONDS: Final = 60.0
"""How long the Prefect server may be away while an attempt is followed; the attempt itself does not need it."""


def start_or_find(
    deployment: str, plan: dict[str, Any], attempt: int, *, idempotency_key: str, job_variables: dict[str, Any]
) -> UUID:
    """The flow run of this attempt, new or found again: a parent that was killed finds the child that it started.

    Prefect answers a used key with the old run even if the parameters differ, so the key must hold what decides them.

    Raises:
        OrchestratorUnavailableError: the deployment is not on the server, or the server does not answer.
    """
    try:
        run = cast(
            "FlowRun",  # typed as maybe a coroutine; called from synchronous code it has done its work
            run_deployment(
                deployment,
                parameters={"plan": plan, "attempt": attempt},
                timeout=0,
                as_subflow=True,
                idempotency_key=idempotency_key,
                job_variables=job_variables,
            ),
        )
    except ObjectNotFound as error:
        raise OrchestratorUnavailableError(
            f"the Prefect server has no deployment {deployment}",
            hint="Run `mtr apply` against this server, then repeat.",
            context={"deployment": deployment},
        ) from error
    except httpx.HTTPError as error:
        raise unreachable(error) from error
    return run.id


def follow(flow_run_id: UUID, *, cancelled: Callable[[], bool], stage_entered: Callable[[str], None]) -> State[Any]:
    """The final state of a flow run. Whatever interrupts the waiting, cancellation included, ends the run too.

    Args:
        flow_run_id: the attempt's run.
        cancelled: asked at every look; true cancels the run, whose end is then awaited.
        stage_entered: told the stage that the run is in.

    Raises:
        OrchestratorUnavailableError: the server was away for longer than `PATIENCE_SECONDS`.
    """
    try:
        return _follow(flow_run_id, cancelled, stage_entered)
    except RuntimeFault:
        raise  # the server is away: the attempt goes on, and whoever comes next finds it again
    except BaseException:
        _cancel(flow_run_id)
        raise


def _follow(flow_run_id: UUID, cancelled: Callable[[], bool], stage_entered: Callable[[str], None]) -> State[Any]:
    cancelling_since: float | None = None
    stage = ""
    answered_at = time.monotonic()
    while True:
        try:
            with impatient() as client:
                run = client.read_flow_run(flow_run_id)
                if run.state is not None and run.state.is_final():
                    return run.state
                now_in = _stage_of(client, flow_run_id)
            answered_at = time.monotonic()
            if now_in and now_in != stage:
                stage = now_in
                stage_entered(stage)
            if cancelling_since is None and cancelled():
                cancelling_since = time.monotonic()
                _cancel(flow_run_id)
        except httpx.HTTPError as error:
            if time.monotonic() - answered_at > PATIENCE_SECONDS:
                raise unreachable(error) from error
        if cancelling_since is not None and time.monotonic() - cancelling_since > CANCEL_SECONDS:
            raise CancelledError(
                f"cancelled, but the attempt did not end within {CANCEL_SECONDS:.0f} s",
                hint="Look for its process or pod: the worker that ran it may be gone.",
                context={"flow_run_id": str(flow_run_id)},
            )
        time.sleep(POLL_SECONDS)


def fault_of(state: State[Any]) -> RuntimeFault:
    """What a final state without an end record means: evidence of another kind, read from its name."""
    message = state.message or state.name or "no message"
    if state.is_cancelled():
        return CancelledError(
            "cancelled in Prefect", hint="`mtr executions retry` starts it anew.", context={"state": str(state.name)}
        )
    if state.is_crashed():
        return AttemptLostError(
            f"the attempt's process is gone: {message}",
            hint="Look at the worker's log and the machine it ran on; another attempt follows where it is allowed.",
            context={"state": str(state.name)},
        )
    kind = next((kind for kind in codes().values() if _name_of(kind) == state.name), InternalError)
    return kind(message, hint="See the attempt's own log in Prefect.", context={"state": str(state.name)})


def _name_of(kind: type[RuntimeFault]) -> str:
    return state_name(kind("", hint=""))


def _stage_of(client: SyncPrefectClient, flow_run_id: UUID) -> str:
    """The stage that a run is in: the last of its task runs that began."""
    answer = client.request(
        "POST",
        "/task_runs/filter",
        json={"task_runs": {"flow_run_id": {"any_": [str(flow_run_id)]}}, "limit": 20},
    )
    names = {task["name"] for task in answer.json() if task.get("state_type") != "PENDING"}
    return next((name for name in reversed(STAGES) if name in names), "")


def _cancel(flow_run_id: UUID) -> None:
    """Afterwards Prefect's worker is asked to end the run. A server that is away cannot be asked: then nothing happens."""
    try:
        with _client() as client:
            run: FlowRun = client.read_flow_run(flow_run_id)
            if run.state is not None and not run.state.is_final():
                client.set_flow_run_state(flow_run_id, Cancelling())
    except httpx.HTTPError:
        return


def _client() -> AbstractContextManager[SyncPrefectClient]:
    return get_client(sync_client=True)


def unreachable(error: Exception) -> OrchestratorUnavailableError:
    """What a client says about a server that is away, as our error."""
    return OrchestratorUnavailableError(
        f"the Prefect server does not answer: {error or type(error).__name__}",
        hint="Start it (`mtr up`) or correct PREFECT_API_URL, then repeat: a training that runs goes on meanwhile.",
    )
