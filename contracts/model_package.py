"""The manifest of a model package, `training_model_package.json` at its ZIP's root."""

from __future__ import annotations

import posixpath
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field, StringConstraints

from contracts.base import Document, Format, FrameworkId, FreeMap, RelativePath, TaskKind, Text, Unique
from contracts.limits import MAX_CLASS_NAMES

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from contracts.violations import Violation

MANIFEST_NAME = "training_model_package.json"
"""The only member of a model package that the runtime reads as a document."""


class ModelPackageManifest(Document):
    """A model that training may start from, and the checkpoint to resume it."""

    protocol_version: Literal["training-model-package/v1"] = "training-model-package/v1"
    name: Annotated[Text, StringConstraints(min_length=1, max_length=255)]
    task_kind: TaskKind
    class_names: Annotated[tuple[Text, ...], Field(max_length=MAX_CLASS_NAMES), Unique] = ()
    framework: FrameworkId
    artifact_path: RelativePath
    format: Format
    resume_checkpoint_path: RelativePath | None = None
    metadata: FreeMap = Field(default_factory=dict)

    @classmethod
    def disagreements(cls, fields: Mapping[str, Any]) -> Iterator[Violation]:
        """Neither path names the manifest, and the two differ."""
        named: dict[str, str] = {MANIFEST_NAME: "the manifest itself"}
        for field in ("artifact_path", "resume_checkpoint_path"):
            path = fields.get(field)
            if path is not None:
                other = named.setdefault(posixpath.normpath(path), f"the same file as {field}")
                if other != f"the same file as {field}":
                    yield {"path": field, "message": f"names {other}"}
