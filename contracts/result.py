"""How an execution ended: `result.json`, written by the runtime."""

from __future__ import annotations

import posixpath
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field, StringConstraints

from contracts.base import Count, Document, Flag, MetricMap, Sha256, Text, UuidText
from contracts.completion import Artifact, ModelMetadata, Summary

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from contracts.violations import Violation


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

    @classmethod
    def disagreements(cls, fields: Mapping[str, Any]) -> Iterator[Violation]:
        """No path twice, and an error exactly when it did not succeed."""
        seen: dict[str, int] = {}
        for index, artifact in enumerate(fields.get("artifacts", ())):
            first = seen.setdefault(posixpath.normpath(artifact.path), index)
            if first != index:
                yield {"path": f"artifacts[{index}].path", "message": f"repeats that of artifacts[{first}]"}
        status = fields.get("status")
        if status is not None and "error" in fields:
            if status == "succeeded" and fields["error"] is not None:
                yield {"path": "error", "message": "not allowed for status succeeded"}
            if status != "succeeded" and fields["error"] is None:
                yield {"path": "error", "message": f"required here for status {status}"}
