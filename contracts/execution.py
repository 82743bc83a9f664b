"""What a package is given: the execution request, the `context` argument of `train`."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from contracts.base import Document, FreeMap, InputMode, UuidText, WorkspacePath
from contracts.dataset import DatasetManifest
from contracts.package import PackageManifest, RuntimeRequirement
from contracts.submission import ModelInput, PackageIdentity, Resources, Task
from contracts.violations import several


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

    @model_validator(mode="after")
    def _agrees_with_itself(self) -> ExecutionRequest:
        found = []
        if self.dataset.task_kind != self.task.task_kind:
            message = f"is {self.dataset.task_kind!r}, the task's is {self.task.task_kind!r}"
            found.append({"path": "dataset.task_kind", "message": message})
        if self.input_mode == "script_managed" and self.dataset.items:
            found.append({"path": "dataset.items", "message": "must be empty for input_mode script_managed"})
        if self.model_input is not None and self.model_input_path is None:
            found.append({"path": "model_input_path", "message": "required here: model_input is given"})
        if self.model_input_path is not None:
            if self.model_input is None:
                found.append({"path": "model_input", "message": "required here: model_input_path is given"})
            if not self.model_input_path.startswith(self.workspace.input_dir.rstrip("/") + "/"):
                found.append(
                    {"path": "model_input_path", "message": f"must lie under input_dir {self.workspace.input_dir}"}
                )
        if found:
            raise several(found)
        return self
