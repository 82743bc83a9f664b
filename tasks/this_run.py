"""The Prefect run that is being executed: its name, and the link between it and the execution that it shows."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any
from uuid import UUID

import httpx
from prefect.client.orchestration import get_client
from prefect.context import FlowRunContext
from prefect.exceptions import ObjectNotFound, PrefectException
from prefect.settings import PREFECT_API_URL, PREFECT_UI_URL
from prefect.states import Crashed

from tasks.view_client import VIEW

if TYPE_CHECKING:
    from prefect.client.orchestration import SyncPrefectClient
    from prefect.client.schemas.objects import State

    from runtime.ledger import Execution
    from tasks.run import Host


def name_this_run(name: str) -> None:
    """Afterwards lists show the run by `name`, where the server answers."""
    identity = this_run_id()
    if identity is not None:
        VIEW.ask(lambda client: client.update_flow_run(identity, name=name[:200]))


def link_to_this_run(host: Host, execution: Execution) -> None:
    """Afterwards the execution names the run that shows it; the run of a process that died shows that it did.

    Nothing marks the run of a killed process by itself, and who holds the execution now knows that it is dead.
    """
    identity = this_run_id()
    if identity is None:
        return
    if execution.flow_run_id is not None and execution.flow_run_id != str(identity):
        _mark_crashed(UUID(execution.flow_run_id))
    host.installation.ledger.set_flow_run(execution.execution_id, str(identity), run_link(identity, host.ui_url))


def is_being_cancelled() -> bool:
    """Whether somebody cancelled this run in Prefect; false also where the server does not answer."""
    identity = this_run_id()
    if identity is None:
        return False
    with contextlib.suppress(httpx.HTTPError, PrefectException), get_client(sync_client=True) as client:
        state = client.read_flow_run(identity).state
        return state is not None and (state.is_cancelling() or state.is_cancelled())
    return False


def run_link(flow_run_id: UUID, ui_url: str | None = None) -> str:
    """The page that shows a run, at `ui_url` or where this process's Prefect server has its UI."""
    ui = ui_url or PREFECT_UI_URL.value() or (PREFECT_API_URL.value() or "").removesuffix("/api")
    return f"{ui.rstrip('/')}/v2/runs/flow-run/{flow_run_id}"


def _mark_crashed(flow_run_id: UUID) -> None:
    def mark(client: SyncPrefectClient) -> None:
        with contextlib.suppress(ObjectNotFound):  # it ran on another server, or was deleted
            run = client.read_flow_run(flow_run_id)
            if run.state is not None and not run.state.is_final():
                gone: State[Any] = Crashed(message="Its process is gone; another run goes on.")
                client.set_flow_run_state(flow_run_id, gone, force=True)

    VIEW.ask(mark)


def this_run_id() -> UUID | None:
    """The id of the flow run that is being executed; `None` outside of any."""
    context = FlowRunContext.get()
    return context.flow_run.id if context is not None and context.flow_run is not None else None
