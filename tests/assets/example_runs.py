"""Runs an example package here and now, with all that the contracts say about it checked: no process, no store, no flow."""

from __future__ import annotations

import importlib
import json
import sys
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import TypeAdapter

from contracts.admission import admit_execution, admit_result
from contracts.base import validate
from contracts.completion import Completion
from contracts.event import Event
from contracts.execution import ExecutionRequest
from contracts.package import MANIFEST_NAME, PackageManifest
from runtime.registry.local_datasets import read_local_dataset

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

EXAMPLES = Path(__file__).parents[2] / "examples"
EXECUTION_ID = "00000000-0000-4000-8000-000000000001"
NO_DIGEST = "0" * 64
EVENT = TypeAdapter(Event)


@dataclass(frozen=True)
class ExampleRun:
    """What came of it; every event and the completion are valid, and the completion keeps the manifest's promises."""

    completion: Completion
    events: list[Any]
    output: Path

    def of_type(self, event_type: str) -> list[Any]:
        """The events of one type, in order."""
        return [event for event in self.events if event.event_type == event_type]

    def metrics(self, split: str) -> list[Mapping[str, float]]:
        """The metrics reported for `split`, in order."""
        return [event.metrics for event in self.of_type("metric") if event.split == split]


def manifest_of(package: Path) -> PackageManifest:
    """The package's manifest, valid."""
    return validate(PackageManifest, (package / MANIFEST_NAME).read_bytes())


def image_items(folder: Path) -> list[dict[str, Any]]:
    """The items of a folder of class folders as a package sees them, paths relative to `folder`."""
    root = folder.resolve()
    return [
        {
            "item_id": item.item_id,
            "split": item.split,
            "media_path": str(item.media.path.relative_to(root)),
            "annotation_path": None,
            "metadata": item.metadata,
        }
        for item in read_local_dataset(folder).items
    ]


def request_of(
    manifest: PackageManifest,
    *,
    class_names: Sequence[str],
    items: Sequence[Mapping[str, Any]] = (),
    parameters: Mapping[str, Any] | None = None,
) -> ExecutionRequest:
    """The execution of a package on a data set, in its portable form; without items the package brings its own data."""
    task = manifest.supported_tasks[0]
    input_mode = "platform_dataset" if items else "script_managed"
    return validate(
        ExecutionRequest,
        {
            "protocol_version": "training-execution/v1",
            "execution_id": EXECUTION_ID,
            "task": {"task_id": 1, "task_kind": task.task_kind},
            "package": {"key": manifest.key, "version": manifest.version, "sha256": NO_DIGEST},
            "runtime": {"id": manifest.runtime.id, "kind": manifest.runtime.kind},
            "workspace": {
                "root_dir": "/workspace",
                "code_dir": "/workspace/code",
                "input_dir": "/workspace/input",
                "output_dir": "/workspace/output",
                "dataset_manifest_path": "/workspace/input/dataset-manifest.json",
            },
            "dataset": {
                "protocol_version": "training-dataset-manifest/v1",
                "task_kind": task.task_kind,
                "data_modalities": list(task.data_modalities),
                "annotation_kinds": list(task.annotation_kinds),
                "class_names": list(class_names),
                "items": list(items),
            },
            "input_mode": input_mode,
            "parameters": dict(parameters or {}),
            "resources": {},
        },
    )


def run_package(
    package: Path,
    output: Path,
    *,
    class_names: Sequence[str],
    items: Sequence[Mapping[str, Any]] = (),
    input_dir: Path | None = None,
    parameters: Mapping[str, Any] | None = None,
) -> ExampleRun:
    """What `train` of the package in the folder `package` reports, returns and writes into `output`.

    Args:
        package: its folder.
        output: the `output_dir`, made where it is not there.
        class_names: of the data set.
        items: of the data set; none for a package that brings its own data.
        input_dir: what the items' paths are relative to.
        parameters: as they would be submitted.
    """
    manifest = manifest_of(package)
    request = request_of(manifest, class_names=class_names, items=items, parameters=parameters)
    admit_execution(manifest, request)
    context = json.loads(json.dumps(request.to_document()))
    context.pop("package_manifest", None)
    context["workspace"] |= {"input_dir": str(input_dir), "output_dir": str(output)}
    output.mkdir(parents=True, exist_ok=True)

    events: list[Any] = []

    def report(**fields: Any) -> None:
        base = {"execution_id": EXECUTION_ID, "sequence": len(events), "occurred_at": datetime.now(UTC).isoformat()}
        content = json.dumps({"protocol_version": "training-event/v1", **base, **fields}, allow_nan=False)
        events.append(EVENT.validate_json(content))

    with entry_module(package, manifest.entrypoint) as module:
        returned = getattr(module, manifest.entrypoint_symbol)(context, report)
    completion = validate(Completion, json.dumps(returned, allow_nan=False))
    admit_result(manifest, request, completion)
    return ExampleRun(completion, events, output)


@contextmanager
def entry_module(package: Path, entrypoint: str = "train.py") -> Iterator[Any]:
    """The package's entry module, imported afresh; no module of the package stays imported."""
    before = set(sys.modules)
    sys.path.insert(0, str(package))
    importlib.invalidate_caches()
    try:
        yield importlib.import_module(Path(entrypoint).stem)
    finally:
        sys.path.remove(str(package))
        for name in set(sys.modules) - before:
            source = getattr(sys.modules[name], "__file__", None)
            if source and Path(source).is_relative_to(package):
                del sys.modules[name]
