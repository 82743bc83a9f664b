"""What the control plane asks for: one execution, everything it needs pinned."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field, StringConstraints

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

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from contracts.violations import Violation


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

    @classmethod
    def disagreements(cls, fields: Mapping[str, Any]) -> Iterator[Violation]:
        """GPUs are asked for exactly when the device is cuda."""
        device, count = fields.get("device"), fields.get("gpu_count")
        if device == "cuda" and count == 0:
            yield {"path": "gpu_count", "message": "is 0, must be at least 1 for device cuda"}
        if device == "cpu" and count:
            yield {"path": "gpu_count", "message": f"is {count}, must be 0 for device cpu"}


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

    @classmethod
    def disagreements(cls, fields: Mapping[str, Any]) -> Iterator[Violation]:
        """The data set is given in the one form that the input mode asks for."""
        input_mode = fields.get("input_mode")
        forms = {"dataset_source_snapshot": "platform_dataset", "script_dataset": "script_managed"}
        for field, mode in forms.items():
            if input_mode is None or field not in fields:
                continue
            given = fields[field] is not None
            if input_mode == mode and not given:
                yield {"path": field, "message": f"required here for input_mode {input_mode}"}
            if input_mode != mode and given:
                yield {"path": field, "message": f"not allowed for input_mode {input_mode}"}
        dataset, task = fields.get("script_dataset"), fields.get("task")
        if dataset is not None and dataset.items:
            yield {"path": "script_dataset.items", "message": "must be empty: the package brings the data"}
        if dataset is not None and task is not None and dataset.task_kind != task.task_kind:
            message = f"is {dataset.task_kind!r}, the task's is {task.task_kind!r}"
            yield {"path": "script_dataset.task_kind", "message": message}

    def to_content(self) -> dict[str, Any]:
        """The document without `message_id`: two submissions that agree in it ask for the same execution."""
        document = self.to_document()
        del document["message_id"]
        return document

    def content_sha256(self) -> str:
        """The digest of `to_content`; the ledger decides by it whether a second submission is the same."""
        return digest_of(self.to_content())
