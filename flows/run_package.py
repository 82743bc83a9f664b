"""The form for people: a package, a data set's name, parameters and what training may use, all flat.

Whatever the form or an API sent is checked again here: the server's own check can be switched off by the caller.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from prefect import State, flow
from prefect.runtime import flow_run as this_run
from pydantic import Field

from contracts.errors import RuntimeFault
from flows.execute_training import carry_out
from tasks.resolution import Form, resolve_form
from tasks.run import host_of_this_flow, leave_to_host
from tasks.states import failed_state
from tasks.this_run import name_this_run


def _asked_for() -> str:
    """What was asked for, until it is known what that is."""
    said = this_run.parameters
    return f"{said.get('package')} on {said['data']}" if said.get("data") else str(said.get("package"))


@flow(name="run-package", flow_run_name=_asked_for, description=__doc__, persist_result=False)
def run_package(  # noqa: PLR0917 - the signature is the form
    package: str,
    data: str = "",
    parameters: dict[str, Any] = {},  # noqa: B006 - the form shows it; nothing changes it
    device: Literal["cpu", "cuda"] = "cpu",
    gpus: Annotated[int, Field(ge=0, le=64)] = 0,
    cpus: Annotated[float, Field(ge=0, le=256)] = 0,
    memory: str = "",
    timeout: str = "24h",
    task_kind: str = "",
    class_names: str = "",
    model: str = "",
    model_name: str = "",
) -> State[Any]:
    """Resolves names to digests, then executes as `execute-training` does. What stands below is what the form says.

    Args:
        package: key@version of a registered package, such as digits@0.1.0; a key alone is its newest version.
        data: The data set's name or digest; empty where the package brings its own data.
        parameters: What the package's parameters_schema asks for, such as {"epochs": 20}.
        device: Where it trains.
        gpus: How many GPUs; at least 1 for cuda.
        cpus: Processor cores; 0 is all that the machine has.
        memory: Such as 8GiB; empty is 80 % of the machine's.
        timeout: Such as 30m or 12h.
        task_kind: Only where package and data leave a choice.
        class_names: Such as car,bus; only where the package brings its own data.
        model: Start from this registered model, given as name or name@version.
        model_name: What the new model is called; empty is the package's key.
    """
    form = Form(
        package=package,
        data=data,
        parameters=parameters or {},
        device=device,
        gpus=gpus,
        cpus=cpus,
        memory=memory,
        timeout=timeout,
        task_kind=task_kind,
        class_names=class_names,
        model=model,
        model_name=model_name,
    )
    try:
        with host_of_this_flow() as host:
            execution = resolve_form(host.installation, form)
            name_this_run(execution.label)
            return carry_out(host, execution)
    except RuntimeFault as fault:
        leave_to_host(fault)
        return failed_state(fault)
