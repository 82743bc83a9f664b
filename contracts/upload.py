"""What a client says before it sends a package directly to the store."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import StringConstraints

from contracts.base import Document, PositiveCount, Sha256, Text

PackageKind = Literal["training_code_package", "training_model_package"]
"""As the inspection endpoints name them."""


class UploadRequest(Document):
    """The package that is about to be uploaded; only these bytes are taken."""

    kind: PackageKind
    archive_name: Annotated[Text, StringConstraints(max_length=1024)] = ""
    sha256: Sha256
    size_bytes: PositiveCount
