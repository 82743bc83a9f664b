"""A model package, registered by its digest."""

from __future__ import annotations

from typing import Any

from prefect import State, flow
from prefect.states import Completed

from contracts.errors import RuntimeFault
from tasks.registration import register_model_archive
from tasks.run import host_of_this_flow
from tasks.states import failed_state


@flow(name="register-model-package", flow_run_name="register {path}", description=__doc__, persist_result=False)
def register_model_package(
    path: str,
) -> State[Any]:
    """Registers the model package, so that training can start from it; the same bytes again change nothing.

    Args:
        path: A model package's ZIP on the worker's machine, as an absolute path.
    """
    try:
        with host_of_this_flow() as host:
            registered = register_model_archive(host.installation, path)
    except RuntimeFault as fault:
        return failed_state(fault)
    return Completed(
        message=f"model package {registered.archive.sha256[:12]} {'registered' if registered.created else 'was registered'}"
    )
