"""A package's key and version, claimed for exactly its bytes."""

from __future__ import annotations

from typing import Any

from prefect import State, flow
from prefect.states import Completed

from contracts.errors import RuntimeFault
from tasks.registration import register_package_archive
from tasks.run import host_of_this_flow
from tasks.states import failed_state


@flow(name="register-package", flow_run_name="register {path}", description=__doc__, persist_result=False)
def register_package(
    path: str,
) -> State[Any]:
    """Registers the package; the same bytes again change nothing, other bytes under its version are refused.

    Args:
        path: A package's folder or ZIP on the worker's machine, as an absolute path.
    """
    try:
        with host_of_this_flow() as host:
            registered = register_package_archive(host.installation, path)
    except RuntimeFault as fault:
        return failed_state(fault)
    manifest = registered.manifest
    return Completed(
        message=f"{manifest.key} {manifest.version} {'registered' if registered.created else 'was registered'}"
    )
