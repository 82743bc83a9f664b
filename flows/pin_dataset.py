"""A data set, every byte of it read and pinned, under a name if it is given one."""

from __future__ import annotations

from typing import Any

from prefect import State, flow
from prefect.states import Completed

from contracts.errors import RuntimeFault
from tasks.registration import pin_data
from tasks.run import host_of_this_flow
from tasks.states import failed_state


@flow(name="pin-dataset", flow_run_name="pin {source}", description=__doc__, persist_result=False)
def pin_dataset(source: str, name: str = "") -> State[Any]:
    """Pins the data set; pinned again with the same bytes it is the same snapshot.

    Args:
        source: A folder, data.yaml, COCO file or source manifest on the worker's machine; or a name or digest.
        name: What the data set shall be called; empty leaves it without a name.
    """
    try:
        with host_of_this_flow() as host:
            found = pin_data(host.installation, source, name)
    except RuntimeFault as fault:
        return failed_state(fault)
    return Completed(message=f"{found.items} items, {name or found.label} = {found.object.sha256[:12]}…")
