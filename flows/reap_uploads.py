"""Uploads that nobody completed, removed."""

from __future__ import annotations

from typing import Any

from prefect import State, flow
from prefect.states import Completed

from contracts.errors import RuntimeFault
from tasks.reap_uploads import reap_abandoned_uploads
from tasks.run import host_of_this_flow
from tasks.states import failed_state


@flow(name="reap-uploads", flow_run_name="reap uploads", description=__doc__, persist_result=False)
def reap_uploads() -> State[Any]:
    """Removes uploads that were begun two days ago; what they registered stays. Run late, or twice, it does no harm."""
    try:
        with host_of_this_flow() as host:
            reaped = reap_abandoned_uploads(host.installation)
    except RuntimeFault as fault:
        return failed_state(fault)
    return Completed(message=f"{len(reaped)} abandoned uploads removed")
