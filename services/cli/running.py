"""`mtr run`: a package, data and parameters, to a registered model."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from contracts.admission import admit_policy
from contracts.errors import UsageError
from runtime.execution.environment import require_gpus
from runtime.installation import Installation
from runtime.registry.models import check_model_name
from runtime.requests import (
    Asked,
    WantedResources,
    build_request,
    check_brings_data,
    fill_resources,
    find_data,
    find_model_input,
    find_package,
    read_names,
    read_parameters,
)
from runtime.sizes import readable_size
from services import orchestrator
from services.cli.execution_views import execution_views, exit_code
from services.cli.following import carry_out
from services.cli.options import Cpus, Detach, Gpus, Json, Memory, Timeout, command_group, example
from services.cli.terminal import Terminal, facts, human_seconds

if TYPE_CHECKING:
    from runtime.requests import FoundData, FoundPackage, Request

app = command_group("Run a package on data, follow it live, register its model.")


@app.command(epilog=example("mtr run examples/digits --data ./digits-png --param epochs=20 --memory 4GiB"))
def run(
    package: Annotated[str, typer.Argument(metavar="PACKAGE", help="A folder, a ZIP, or key@version.")],
    data: Annotated[
        str | None,
        typer.Option(metavar="DATA", help="A folder, data.yaml, COCO file, source manifest, name or snapshot digest."),
    ] = None,
    param: Annotated[
        list[str] | None, typer.Option("--param", metavar="K=V", help="A parameter; the value is JSON or plain text.")
    ] = None,
    params: Annotated[
        Path | None, typer.Option("--params", metavar="FILE", help="A JSON or YAML object of parameters.")
    ] = None,
    device: Annotated[str | None, typer.Option(metavar="cpu|cuda", help="Where it trains.")] = None,
    gpus: Gpus = None,
    cpus: Cpus = None,
    memory: Memory = None,
    timeout: Timeout = None,
    model: Annotated[
        str | None,
        typer.Option(metavar="M", help="Start from it: a registered model's name, or a model package (ZIP, digest)."),
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Continue from the model package's checkpoint.")] = False,
    task_kind: Annotated[str | None, typer.Option(metavar="K", help="Where package and data leave a choice.")] = None,
    class_names: Annotated[
        str | None, typer.Option(metavar="A,B,C", help="Of a run without data; otherwise the manifest's or the data's.")
    ] = None,
    model_name: Annotated[
        str | None, typer.Option(metavar="N", help="Name of the registered model; the package key if none.")
    ] = None,
    detached: Detach = False,
    as_json: Json = False,
) -> int:
    """Run a package on data, follow it live, and register the model that it leaves.

    A folder or ZIP runs by its digest without claiming its version: edit and run again as often as you like.

    What is not said is the machine's: all cores, 80 % of its memory, 24 hours.
    """
    with Terminal.open(as_json=as_json) as terminal, Installation.open() as here:
        if resume and model is None:
            raise UsageError(
                "--resume has no --model to continue from",
                hint="Add --model with a model package that has a resume checkpoint; `mtr executions resume ID` is for an execution that stopped.",
            )
        wanted = WantedResources(device=device, gpus=gpus, cpus=cpus, memory=memory, timeout=timeout)
        resources = fill_resources(wanted)
        if here.settings.gpu_pool is None and not os.environ.get("PREFECT_API_URL"):  # it will train right here
            require_gpus(resources["gpu_count"], here.settings)
        parameters = read_parameters(param or (), params)
        names = read_names(class_names)
        if model_name is not None:
            check_model_name(model_name)
        found_package = find_package(here, package, terminal.note)
        if data is None:
            check_brings_data(found_package.manifest)  # else the policy for runs without data would be blamed
        input_mode = "script_managed" if data is None else "platform_dataset"
        admit_policy(Asked(found_package.manifest.runtime, input_mode), here.settings.policy())
        found_data: FoundData | None = None
        if data is not None:
            with terminal.progress("importing data") as progress:
                found_data = find_data(here, data, progress=progress)
        request = build_request(
            package=found_package,
            data=found_data,
            parameters=parameters,
            resources=resources,
            policy=here.settings.policy(),
            task_id=here.ledger.next_task_id(),
            model_input=None if model is None else find_model_input(here, model, resume=resume),
            task_kind=task_kind,
            class_names=names,
        )
        _announce(terminal, request, found_package, found_data)
        accepted = here.ledger.accept(
            request.submission, model_name=model_name or found_package.manifest.key, label=request.label
        )
        execution_id = accepted.execution.execution_id
        execution = orchestrator.detach(here, execution_id) if detached else carry_out(here, execution_id, terminal)
        attempts = here.ledger.attempts(execution_id)
        terminal.answer(execution.to_document(), *execution_views(execution, attempts))
        return exit_code(execution, attempts)


def _announce(terminal: Terminal, request: Request, package: FoundPackage, data: FoundData | None) -> None:
    """Say what will run, on what, with what, and what of it is new."""
    submission = request.submission
    resources = submission.resources
    allowed = [
        resources.device,
        *([f"{resources.gpu_count} GPU"] if resources.gpu_count else []),
        f"{resources.cpu_cores:g} cores",
        f"{readable_size(resources.memory_bytes)} memory",
        human_seconds(resources.timeout_seconds),
    ]
    terminal.notes.print(
        facts(
            request.label,
            [
                ("execution", submission.execution_id),
                ("package", f"{package.archive.sha256[:12]}, {'stored' if package.created else 'nothing new'}"),
                ("data", None if data is None else f"{data.items} items, {readable_size(data.bytes)}, {_news(data)}"),
                ("task", f"{submission.task.task_id} ({submission.task.task_kind})"),
                ("resources", ", ".join(allowed)),
                ("parameters", ", ".join(f"{name}={value}" for name, value in submission.parameters.items()) or None),
            ],
        )
    )
    if not package.created and (data is None or not data.created):
        terminal.note("nothing was new: package and data are stored already", style="dim")


def _news(data: FoundData) -> str:
    if not data.created:
        return "nothing new"
    return f"{data.uploaded_items} files uploaded" if data.uploaded_items else "newly pinned"
