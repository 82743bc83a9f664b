"""What a package is given: the execution request, the `context` argument of `train`."""

from __future__ import annotations

import posixpath
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field

from contracts.base import Document, FreeMap, InputMode, UuidText, WorkspacePath
from contracts.dataset import DatasetManifest
from contracts.package import PackageManifest, RuntimeRequirement
from contracts.submission import ModelInput, PackageIdentity, Resources, Task
from contracts.violations import below

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from contracts.violations import Violation


class Workspace(Document):
    """Where things are, in the portable form; package code receives the real paths of its machine."""

    root_dir: WorkspacePath
    code_dir: WorkspacePath
    input_dir: WorkspacePath
    output_dir: WorkspacePath
    dataset_manifest_path: WorkspacePath


class ExecutionRequest(Document):
    """One execution as package code sees it. `package_manifest` is the runtime's own and is left out there."""

    protocol_version: Literal["training-execution/v1"] = "training-execution/v1"
    execution_id: UuidText
    task: Task
    package: PackageIdentity
    runtime: RuntimeRequirement
    workspace: Workspace
    dataset: DatasetManifest
    input_mode: InputMode = "platform_dataset"
    parameters: FreeMap = Field(default_factory=dict)
    resources: Resources
    model_input: ModelInput | None = None
    model_input_path: WorkspacePath | None = None
    package_manifest: PackageManifest | None = None

    @classmethod
    def disagreements(cls, fields: Mapping[str, Any]) -> Iterator[Violation]:
        """The data set is the task's, and a model input has its place under `input_dir`."""
        dataset, task = fields.get("dataset"), fields.get("task")
        if dataset is not None and task is not None and dataset.task_kind != task.task_kind:
            message = f"is {dataset.task_kind!r}, the task's is {task.task_kind!r}"
            yield {"path": "dataset.task_kind", "message": message}
        if dataset is not None and dataset.items and fields.get("input_mode") == "script_managed":
            yield {"path": "dataset.items", "message": "must be empty for input_mode script_managed"}
        pair = ("model_input", "model_input_path")
        if all(name in fields for name in pair):
            for name, other in (pair, pair[::-1]):
                if fields[name] is None and fields[other] is not None:
                    yield {"path": name, "message": f"required here: {other} is given"}
        path, workspace = fields.get("model_input_path"), fields.get("workspace")
        if path is None or workspace is None:
            return
        if not posixpath.normpath(path).startswith(posixpath.normpath(workspace.input_dir) + "/"):
            yield {"path": "model_input_path", "message": f"must lie under input_dir {workspace.input_dir}"}

    def late_violations(self) -> list[Violation]:
        """Those of the package's manifest."""
        if self.package_manifest is None:
            return []
        return [below("package_manifest", found) for found in self.package_manifest.late_violations()]
