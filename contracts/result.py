"""How an execution ended: `result.json`, written by the runtime."""

from __future__ import annotations

import posixpath
from typing import Annotated, Literal

from pydantic import Field, StringConstraints, model_validator

from contracts.base import Count, Document, Flag, MetricMap, Sha256, Text, UuidText
from contracts.completion import Artifact, ModelMetadata, Summary
from contracts.violations import several


class ResultArtifact(Artifact):
    """An artifact with the size in bytes and the digest that the runtime measured."""

    size_bytes: Count
    sha256: Sha256 | None = None


class ResultError(Document):
    """Why an execution did not succeed."""

    stage: Annotated[Text, StringConstraints(min_length=1, max_length=128)]
    error_type: Annotated[Text, StringConstraints(min_length=1, max_length=256)]
    message: Annotated[Text, StringConstraints(min_length=1, max_length=8000)]
    retryable: Flag = False


class TrainingResult(Document):
    """The one end of an execution."""

    protocol_version: Literal["training-result/v1"] = "training-result/v1"
    execution_id: UuidText
    status: Literal["succeeded", "failed", "cancelled"]
    summary: Summary | None = None
    metrics: MetricMap = Field(default_factory=dict)
    artifacts: Annotated[tuple[ResultArtifact, ...], Field(max_length=128)] = ()
    model: ModelMetadata | None = None
    error: ResultError | None = None

    @model_validator(mode="after")
    def _agrees_with_itself(self) -> TrainingResult:
        found = []
        seen: dict[str, int] = {}
        for index, artifact in enumerate(self.artifacts):
            first = seen.setdefault(posixpath.normpath(artifact.path), index)
            if first != index:
                found.append({"path": f"artifacts[{index}].path", "message": f"repeats that of artifacts[{first}]"})
        if self.status == "succeeded" and self.error is not None:
            found.append({"path": "error", "message": "not allowed for status succeeded"})
        if self.status != "succeeded" and self.error is None:
            found.append({"path": "error", "message": f"required here for status {self.status}"})
        if found:
            raise several(found)
        return self
