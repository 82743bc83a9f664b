"""Executions as Prefect runs: in this process with a server of its own, or on a worker of a shared server."""

from __future__ import annotations

import contextlib
import logging
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, cast

from contracts.errors import CancelledError, ExecutionBusyError, OrchestratorUnavailableError
from services.orchestrator.carrier import carried_here
from services.orchestrator.environment import child_environment, has_server, prepare_environment
from services.orchestrator.processes import PrefectServer, answers

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from prefect.client.schemas.objects import FlowRun

    from runtime.installation import Installation
    from runtime.ledger import Execution
    from runtime.settings import Settings

# ruff: noqa: PLC0415 - Prefect is imported once its environment is prepared: it reads it at import

DEPLOYMENT: Final = "execute-training/platform"
_MOST_RUNS: Final = 100
_RUNS_PER_ANSWER: Final = 200
"""What a Prefect server gives at once."""
_DELIVERY_SECONDS: Final = 5.0
_CLIENT_RETRIES: Final = 3
"""Fourteen seconds in all. Prefect's own five are a minute, at every call, and a person waits here."""
TAG: Final = "mtr"
"""On every run of ours, as on every deployment: the automation watches these only."""
LOCAL_UI: Final = "http://127.0.0.1:4200"
"""Where `mtr up` shows the runs of an embedded server, which has no UI of its own but the same database."""


def run_embedded(
    installation: Installation, execution_id: str, *, cancelled: Callable[[], bool] = lambda: False
) -> None:
    """Afterwards the execution has its end in the ledger, carried there by this process, inline in the calling thread.

    With a Prefect server configured the run is shown there, and training goes to its pool if one is configured;
    without, a server of this process's own runs meanwhile. Call it from the main thread.

    Args:
        installation: where the execution is.
        execution_id: which.
        cancelled: asked about once a second; true cancels.

    Raises:
        RuntimeFault: the execution has no end yet: something outside is away, or another process works on it.
    """
    settings = installation.settings
    prepare_environment(settings)
    with carried_here(settings, execution_id), _server(settings) as api_url:
        from prefect.settings import (
            PREFECT_API_URL,
            PREFECT_FLOWS_HEARTBEAT_FREQUENCY,
            temporary_settings,
        )

        # Heartbeats cost a second a flow and tell nobody anything here: the ledger's claim says whether we live.
        own = {PREFECT_API_URL: api_url, PREFECT_FLOWS_HEARTBEAT_FREQUENCY: None} if api_url else {}
        with temporary_settings({**own, "client.max_retries": _CLIENT_RETRIES}), _quiet_console():
            try:
                _execute(installation, execution_id, cancelled, LOCAL_UI if api_url else None)
            finally:
                _deliver_logs()


def _execute(installation: Installation, execution_id: str, cancelled: Callable[[], bool], ui_url: str | None) -> None:
    import httpx
    from prefect import tags
    from prefect.exceptions import PrefectException

    from flows.execute_training import execute_training
    from tasks.run import Host, hosted

    with hosted(Host(installation, cancelled=cancelled, ui_url=ui_url)) as host, tags(TAG):
        try:
            state = execute_training(execution_id=execution_id, return_state=True)
        except (httpx.HTTPError, PrefectException) as error:
            raise OrchestratorUnavailableError(
                f"Prefect failed while the execution ran: {error or type(error).__name__}",
                hint="Repeat: nothing that was achieved is lost.",
                context={"execution_id": execution_id},
            ) from error
    if host.fault is not None:
        raise host.fault
    if not installation.ledger.get(execution_id).ended:
        raise OrchestratorUnavailableError(
            f"the run ended as {state.name} without an end of the execution: {state.message}",
            hint="Repeat: nothing that was achieved is lost.",
            context={"execution_id": execution_id},
        )


@contextlib.contextmanager
def _server(settings: Settings) -> Iterator[str | None]:
    """The API of this process's own server for as long as the block lasts; `None` where one is configured."""
    if has_server():
        yield None
        return
    environment = child_environment(settings, os.environ)
    log = settings.prefect_home / "embedded-server.log"
    server = PrefectServer.launch(environment, log=log, cwd=settings.home, port=None, ui=False)
    try:
        _import_flows()  # takes as long as the server's start; both at once halve the wait
        server.wait()
        yield server.api_url
    finally:
        server.stop()


def _import_flows() -> None:
    import flows.execute_training  # noqa: F401 - for what importing costs


def _deliver_logs() -> None:
    """Afterwards the server has the last log lines and events. Left in their queues, they hold the interpreter's exit for a minute."""
    from prefect.events.worker import EventsWorker
    from prefect.logging.handlers import APILogWorker

    for worker in (EventsWorker, APILogWorker):
        worker.drain_all(timeout=_DELIVERY_SECONDS, at_exit=False)


@contextlib.contextmanager
def _quiet_console() -> Iterator[None]:
    """While the block lasts, Prefect's log goes to its server and not to the terminal, where the journal is told."""
    from prefect.logging.handlers import PrefectConsoleHandler

    silenced = [
        (handler, handler.level)
        for logger in (logging.getLogger(), *map(logging.getLogger, list(logging.root.manager.loggerDict)))
        for handler in logger.handlers
        if isinstance(handler, PrefectConsoleHandler)
    ]
    for handler, _ in silenced:
        handler.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        for handler, level in silenced:
            handler.setLevel(level)


# --- a shared server -------------------------------------------------------------------------------------------------


def has_deployments(settings: Settings) -> bool:
    """Whether a Prefect server is configured and has our deployments: then its workers can carry out executions.

    Raises:
        OrchestratorUnavailableError: it is configured and does not answer.
    """
    if not has_server():
        return False
    prepare_environment(settings)
    from prefect.client.orchestration import get_client
    from prefect.exceptions import ObjectNotFound

    with _answering(), get_client(sync_client=True) as client:
        try:
            client.read_deployment_by_name(DEPLOYMENT)
        except ObjectNotFound:
            return False
        return True


@dataclass(frozen=True, slots=True)
class RunState:
    """Where a Prefect run stands: `cancelled` says that somebody wished its end."""

    ended: bool
    cancelled: bool


def run_states(settings: Settings, run_ids: Sequence[str]) -> dict[str, RunState]:
    """Where each of these runs stands, by id; those that the server does not know are left out.

    Raises:
        OrchestratorUnavailableError: the server does not answer.
    """
    prepare_environment(settings)
    from prefect.client.orchestration import get_client
    from prefect.client.schemas.filters import FlowRunFilter
    from prefect.client.schemas.objects import StateType

    found: dict[str, RunState] = {}
    with _answering(), get_client(sync_client=True) as client:
        for start in range(0, len(run_ids), _RUNS_PER_ANSWER):
            wanted = FlowRunFilter.model_validate({"id": {"any_": run_ids[start : start + _RUNS_PER_ANSWER]}})
            for run in client.read_flow_runs(flow_run_filter=wanted):
                ended = run.state is not None and run.state.is_final()
                found[str(run.id)] = RunState(ended, ended and run.state_type == StateType.CANCELLED)
    return found


def run_deployed(installation: Installation, execution_id: str) -> str:
    """Afterwards a worker carries the execution out, or will; asked again while it does, nothing is added.

    Returns:
        The Prefect run's id.

    Raises:
        OrchestratorUnavailableError: the server does not answer or lacks the deployment.
    """
    prepare_environment(installation.settings)
    from prefect.deployments import run_deployment
    from prefect.exceptions import ObjectNotFound

    from tasks.this_run import run_link

    execution = installation.ledger.get(execution_id)
    with _answering():
        for number in range(1, _MOST_RUNS + 1):
            try:
                started = run_deployment(
                    DEPLOYMENT,
                    parameters={"execution_id": execution_id},
                    timeout=0,
                    as_subflow=False,
                    flow_run_name=execution.label,
                    # A run that has ended is answered again for its key, so each further run has a key of its own.
                    idempotency_key=f"{execution_id}-{execution.submission_sha256}-{number}",
                )
                run = cast("FlowRun", started)  # typed as maybe a coroutine
            except ObjectNotFound as error:
                raise OrchestratorUnavailableError(
                    f"the Prefect server has no deployment {DEPLOYMENT}", hint="Run `mtr apply` against this server."
                ) from error
            if run.state is None or not run.state.is_final():
                installation.ledger.set_flow_run(execution_id, str(run.id), run_link(run.id))
                return str(run.id)
    raise OrchestratorUnavailableError(
        f"{_MOST_RUNS} runs of this execution have ended without an end of it",
        hint="Look at the last of them in the Prefect UI.",
        context={"execution_id": execution_id},
    )


def cancel(installation: Installation, execution_id: str) -> Execution:
    """Afterwards whoever carries the execution out knows that it must end; where nobody does, it has ended.

    Returns:
        The execution as the ledger has it then.
    """
    ledger = installation.ledger
    execution = ledger.request_cancel(execution_id)
    if execution.ended:
        return execution
    prepare_environment(installation.settings)
    from runtime.ledger import Owner
    from tasks.publish_outcome import Outcome, write_end

    try:
        claimed = ledger.claim(execution_id, Owner.here())
    except ExecutionBusyError:
        return execution  # its process asks once a second
    if claimed.ended:
        return claimed
    _cancel_run(execution)
    fault = CancelledError("cancelled while nobody worked on it", hint="`mtr executions retry` starts it anew.")
    return write_end(
        installation,
        execution_id,
        Outcome.of_fault(execution_id, fault, execution.stage or "validate_submission", None),
    )[0]


def _cancel_run(execution: Execution) -> None:
    """Afterwards no worker takes up a run that still waits for one; a server that is away has none that could start."""
    if execution.flow_run_id is None or not has_server():
        return
    import uuid

    import httpx
    from prefect.client.orchestration import get_client
    from prefect.exceptions import PrefectException
    from prefect.states import Cancelled

    with contextlib.suppress(httpx.HTTPError, PrefectException), get_client(sync_client=True) as client:
        run = client.read_flow_run(uuid.UUID(execution.flow_run_id))
        if run.state is not None and not run.state.is_final():
            client.set_flow_run_state(run.id, Cancelled(message="cancelled before it began"), force=True)


def check(settings: Settings) -> str:
    """What orchestrates here, in one line, after it was seen to answer.

    Raises:
        OrchestratorUnavailableError: the configured server does not answer, or this Python cannot run Prefect.
    """
    prepare_environment(settings)
    if not has_server():
        import prefect

        return f"Prefect {prefect.__version__}, embedded; `mtr up` starts a server with the UI"
    api_url = os.environ["PREFECT_API_URL"]
    if not answers(api_url, seconds=10):
        raise OrchestratorUnavailableError(
            f"the Prefect server at {api_url} does not answer",
            hint="Start it (`mtr up` on its machine), or correct or unset PREFECT_API_URL.",
            context={"api_url": api_url},
        )
    if not has_deployments(settings):
        raise OrchestratorUnavailableError(
            f"the Prefect server at {api_url} has no deployment {DEPLOYMENT}",
            hint="Run `mtr apply`.",
            context={"api_url": api_url},
        )
    return f"the Prefect server at {api_url} answers and has the deployments"


@contextlib.contextmanager
def _answering() -> Iterator[None]:
    """Turns what a client says about a server that is away into our error."""
    import httpx

    try:
        yield
    except httpx.HTTPError as error:
        raise OrchestratorUnavailableError(
            f"the Prefect server at {os.environ.get('PREFECT_API_URL')} does not answer: {error or type(error).__name__}",
            hint="Start it (`mtr up` on its machine), or correct or unset PREFECT_API_URL.",
        ) from error
