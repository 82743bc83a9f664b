"""The manifest of a model package, `training_model_package.json` at its ZIP's root."""

from __future__ import annotations

import posixpath
from typing import Annotated, Literal

from pydantic import Field, StringConstraints, model_validator

from contracts.base import Document, Format, FrameworkId, FreeMap, RelativePath, TaskKind, Text, Unique
from contracts.limits import MAX_CLASS_NAMES
from contracts.violations import several

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

    @model_validator(mode="after")
    def _paths_name_three_files(self) -> ModelPackageManifest:
        found = []
        paths = {"artifact_path": self.artifact_path, "resume_checkpoint_path": self.resume_checkpoint_path}
        for field, path in paths.items():
            if path is not None and posixpath.normpath(path) == MANIFEST_NAME:
                found.append({"path": field, "message": "names the manifest itself"})
        resume = self.resume_checkpoint_path
        if resume is not None and posixpath.normpath(resume) == posixpath.normpath(self.artifact_path):
            found.append({"path": "resume_checkpoint_path", "message": "names the same file as artifact_path"})
        if found:
            raise several(found)
        return self
