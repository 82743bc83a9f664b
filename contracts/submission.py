"""What the control plane asks for: one execution, everything it needs pinned."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, StringConstraints, model_validator

from contracts.base import (
    Document,
    Flag,
    Format,
    FrameworkId,
    FreeMap,
    InputMode,
    ModelMode,
    Number,
    PackageKey,
    PositiveCount,
    Sha256,
    TaskKind,
    Text,
    UuidText,
    Version,
    Whole,
)
from contracts.dataset import ClassNames, DatasetManifest
from contracts.limits import GIB
from contracts.objects import PinnedReference
from contracts.package import RuntimeRequirement
from contracts.strict_json import digest_of
from contracts.violations import several


class Task(Document):
    """The platform's task that this execution serves."""

    task_id: PositiveCount
    task_kind: TaskKind


class PackageIdentity(Document):
    """Which package, down to its bytes."""

    key: PackageKey
    version: Version
    sha256: Sha256


class Resources(Document):
    """What training may use: `memory_bytes` of the whole process tree, `timeout_seconds` from the package's first line."""

    device: Literal["cpu", "cuda"] = "cpu"
    gpu_count: Annotated[int, Whole(ge=0, le=64)] = 0
    cpu_cores: Annotated[Number, Field(gt=0, le=256)] = 1.0
    memory_bytes: PositiveCount = GIB
    timeout_seconds: Annotated[int, Whole(ge=1, le=604_800)] = 3600

    @model_validator(mode="after")
    def _gpus_exactly_for_cuda(self) -> Resources:
        if self.device == "cuda" and self.gpu_count == 0:
            raise several([{"path": "gpu_count", "message": "is 0, must be at least 1 for device cuda"}])
        if self.device == "cpu" and self.gpu_count > 0:
            raise several([{"path": "gpu_count", "message": f"is {self.gpu_count}, must be 0 for device cpu"}])
        return self


class ModelsReference(PinnedReference):
    """A pinned object in bucket `models`."""

    bucket: Literal["models"]


class DefaultReference(PinnedReference):
    """A pinned object in bucket `default`."""

    bucket: Literal["default"]


class ModelArtifact(Document):
    """A model that training may start from."""

    source: Literal["uploaded_model_package", "registered_model", "previous_execution"]
    object: ModelsReference
    format: Format
    task_kind: TaskKind
    class_names: ClassNames = ()
    display_name: Annotated[Text, StringConstraints(min_length=1, max_length=255)]
    framework: FrameworkId | None = None
    resume_supported: Flag = False
    metadata: FreeMap = Field(default_factory=dict)


class ModelInput(Document):
    """The model that this training starts from, and how."""

    artifact: ModelArtifact
    mode: ModelMode


class TrainingCodeSubmission(Document):
    """One execution as it is asked for. Its meaning is everything but `message_id`."""

    protocol_version: Literal["training-code-submit/v1"] = "training-code-submit/v1"
    message_id: UuidText
    execution_id: UuidText
    task: Task
    package: PackageIdentity
    package_archive: DefaultReference
    input_mode: InputMode = "platform_dataset"
    dataset_source_snapshot: DefaultReference | None = None
    script_dataset: DatasetManifest | None = None
    runtime: RuntimeRequirement
    parameters: FreeMap = Field(default_factory=dict)
    resources: Resources
    model_input: ModelInput | None = None

    @model_validator(mode="after")
    def _data_fits_the_input_mode(self) -> TrainingCodeSubmission:
        found = []
        platform = self.input_mode == "platform_dataset"
        wanted = {"dataset_source_snapshot": platform, "script_dataset": not platform}
        for field, required in wanted.items():
            given = getattr(self, field) is not None
            if required and not given:
                found.append({"path": field, "message": f"required here for input_mode {self.input_mode}"})
            if given and not required:
                found.append({"path": field, "message": f"not allowed for input_mode {self.input_mode}"})
        if self.script_dataset is not None:
            if self.script_dataset.items:
                found.append({"path": "script_dataset.items", "message": "must be empty: the package brings the data"})
            if self.script_dataset.task_kind != self.task.task_kind:
                message = f"is {self.script_dataset.task_kind!r}, the task's is {self.task.task_kind!r}"
                found.append({"path": "script_dataset.task_kind", "message": message})
        if found:
            raise several(found)
        return self

    def to_content(self) -> dict[str, Any]:
        """The document without `message_id`: two submissions that agree in it ask for the same execution."""
        document = self.to_document()
        del document["message_id"]
        return document

    def content_sha256(self) -> str:
        """The digest of `to_content`; the ledger decides by it whether a second submission is the same."""
        return digest_of(self.to_content())
