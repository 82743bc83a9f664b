"""Stage 5: everything that training reads lies on this machine, verified, in a workspace of its own."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field, replace
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, Final

from contracts.base import validate
from contracts.dataset import DatasetManifest
from contracts.execution import ExecutionRequest
from contracts.execution import Workspace as PortableWorkspace
from contracts.strict_json import dump_canonical
from runtime.archive.extraction import extract
from runtime.execution.environment import find_python, require_gpus
from runtime.execution.launch import Launch
from runtime.execution.view import hidden_places
from runtime.execution.workspace import DATASET_MANIFEST_NAME, MODEL_INPUT_FOLDER, Workspace
from runtime.materialization.layout import DATASET_FOLDER
from runtime.sizes import readable_size
from tasks.showing import show_table, update_progress
from tasks.stage import stage

if TYPE_CHECKING:
    from pathlib import Path

    from runtime.handover import Plan
    from runtime.materialization.cache import MaterializedDataset
    from tasks.run import Run

ROOT: Final = PurePosixPath("/workspace")
"""Where documents say that everything lies; a package is given the real paths."""


@dataclass(frozen=True, slots=True)
class Inputs:
    """A package ready to be launched.

    Attributes:
        launch: how.
        dataset: `{"items", "bytes", "downloaded_items", "cached_items"}`, empty where the package brings its data.
    """

    launch: Launch
    dataset: dict[str, Any] = field(default_factory=dict)


@stage(retried=True)
def materialize_inputs(run: Run, plan: Plan, attempt: int, held: contextlib.ExitStack) -> Inputs:
    """The package, the data and the model that training starts from, ready on this machine. In the UI: progress, MB/s, cache hits.

    Retry: safe; the workspace is made anew, and what was fetched is in the cache.

    Args:
        run: the execution.
        plan: what to run.
        attempt: whose workspace.
        held: keeps the cached files from being removed, until training has ended.

    Raises:
        DigestMismatchError: an object is not what was pinned.
        ObjectMissingError: an object is gone.
        RuntimeUnavailableError: this machine has no Python for the package.
        GpuUnavailableError: it has fewer GPUs than the submission asks for.
        StorageUnavailableError: the store does not answer.
    """
    settings = run.installation.settings
    submission = plan.submission
    python = find_python(submission.runtime.id, settings)
    require_gpus(submission.resources.gpu_count, settings)
    with contextlib.ExitStack() as entered:
        workspace = Workspace.create(settings.workspace_root, plan.execution_id, attempt)
        read_only: dict[str, Path] = {}

        archive = entered.enter_context(
            run.installation.cache.object_path(submission.package_archive.pinned(), run.installation.store)
        )
        extract(archive, workspace.code, run.installation.archive_limits)

        dataset = _materialize_dataset(run, plan, entered)
        manifest = plan.dataset.to_document()
        if dataset is not None:
            read_only[DATASET_FOLDER] = dataset.tree
            manifest = dataset.manifest
        workspace.dataset_manifest.write_bytes(dump_canonical(manifest))

        model_path = None
        if submission.model_input is not None:
            model = submission.model_input.artifact.object.pinned()
            name = PurePosixPath(model.key).name
            read_only[f"{MODEL_INPUT_FOLDER}/{name}"] = entered.enter_context(
                run.installation.cache.object_path(model, run.installation.store)
            )
            model_path = f"{ROOT}/input/{MODEL_INPUT_FOLDER}/{name}"

        launch = Launch(
            workspace=workspace,
            request=_request(plan, validate(DatasetManifest, manifest), model_path),
            entrypoint=plan.manifest.entrypoint,
            entrypoint_symbol=plan.manifest.entrypoint_symbol,
            python=python,
            output_log=run.journal.output_path(attempt),
            inputs=read_only,
            evidence=dataset,
            network=submission.input_mode == "script_managed",
            hidden=hidden_places(settings),
            isolation=settings.isolation,
        )
        held.push(entered.pop_all())
    return Inputs(launch, _numbers(dataset))


def _materialize_dataset(run: Run, plan: Plan, entered: contextlib.ExitStack) -> MaterializedDataset | None:
    reference = plan.submission.dataset_source_snapshot
    if reference is None:
        show_table("inputs", [{"": "data", "value": "brought by the package"}], "What was brought to this machine")
        return None
    pinned = reference.pinned()
    snapshot = run.installation.snapshots.load(pinned)
    with update_progress("inputs-progress", "Items on this machine") as progress:
        dataset = entered.enter_context(
            run.installation.cache.materialize(
                snapshot,
                pinned.sha256,
                run.installation.store,
                on_progress=lambda now: progress(now.done_items, now.total_items),
            )
        )
    speed = dataset.downloaded_bytes / dataset.seconds if dataset.seconds > 0 else 0.0
    run.tell(
        "log",
        level="info",
        message=f"{dataset.items} items, {readable_size(dataset.bytes)}: {dataset.cached_items} cached, "
        f"{dataset.downloaded_items} fetched in {dataset.seconds:.1f} s",
    )
    said = {
        "items": dataset.items,
        "bytes": readable_size(dataset.bytes),
        "from the cache": f"{dataset.cached_items} items",
        "fetched": f"{dataset.downloaded_items} items, {readable_size(dataset.downloaded_bytes)}",
        "speed": f"{readable_size(speed)}/s",
        "seconds": f"{dataset.seconds:.1f}",
    }
    show_table(
        "inputs", [{"": name, "value": str(value)} for name, value in said.items()], "What was brought to this machine"
    )
    return dataset


def _request(plan: Plan, dataset: DatasetManifest, model_path: str | None) -> ExecutionRequest:
    submission = plan.submission
    return ExecutionRequest(
        execution_id=submission.execution_id,
        task=submission.task,
        package=submission.package,
        runtime=submission.runtime,
        workspace=PortableWorkspace(
            root_dir=str(ROOT),
            code_dir=f"{ROOT}/code",
            input_dir=f"{ROOT}/input",
            output_dir=f"{ROOT}/output",
            dataset_manifest_path=f"{ROOT}/input/{DATASET_MANIFEST_NAME}",
        ),
        dataset=dataset,
        input_mode=submission.input_mode,
        parameters=submission.parameters,
        resources=submission.resources,
        model_input=submission.model_input,
        model_input_path=model_path,
        package_manifest=plan.manifest,
    )


def _numbers(dataset: MaterializedDataset | None) -> dict[str, Any]:
    if dataset is None:
        return {}
    return {
        "items": dataset.items,
        "bytes": dataset.bytes,
        "downloaded_items": dataset.downloaded_items,
        "cached_items": dataset.cached_items,
    }


def with_memory(inputs: Inputs, memory_bytes: int | None) -> Inputs:
    """`inputs` with another memory limit than the submission's, where an operator allows a second try with more."""
    if memory_bytes is None:
        return inputs
    resources = inputs.launch.request.resources.model_copy(update={"memory_bytes": memory_bytes})
    request = inputs.launch.request.model_copy(update={"resources": resources})
    return replace(inputs, launch=replace(inputs.launch, request=request))
