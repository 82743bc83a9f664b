"""What a package's `train(context, report)` returns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field, StringConstraints

from contracts.base import (
    ArtifactRole,
    Document,
    Flag,
    Format,
    FrameworkId,
    FreeMap,
    MetricMap,
    RelativePath,
    TaskKind,
    Text,
)
from contracts.dataset import ClassNames

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from contracts.violations import Violation

Summary = Annotated[Text, StringConstraints(max_length=8000)]


class Artifact(Document):
    """A file that training left, `path` relative to `output_dir`."""

    path: RelativePath
    role: ArtifactRole
    format: Format
    deployable: Flag = False
    metadata: FreeMap = Field(default_factory=dict)


class ModelMetadata(Document):
    """What is needed to use the trained model."""

    task_kind: TaskKind
    class_names: ClassNames = ()
    framework: FrameworkId
    resume_checkpoint_path: RelativePath | None = None
    preprocessing: FreeMap = Field(default_factory=dict)
    postprocessing: FreeMap = Field(default_factory=dict)


class Completion(Document):
    """The end of a training that went well, as the package tells it; the runtime believes none of it unseen."""

    summary: Summary | None = None
    metrics: MetricMap = Field(default_factory=dict)
    artifacts: Annotated[tuple[Artifact, ...], Field(max_length=128)] = ()
    model: ModelMetadata | None = None

    @classmethod
    def disagreements(cls, fields: Mapping[str, Any]) -> Iterator[Violation]:
        """A deployable artifact comes with model metadata."""
        if fields.get("model", ...) is None and any(artifact.deployable for artifact in fields.get("artifacts", ())):
            yield {"path": "model", "message": "required here: an artifact is deployable"}
