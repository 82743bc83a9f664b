"""References to stored objects, as documents carry them: a logical bucket and a key, never a URL or a host path."""

from __future__ import annotations

from typing import Annotated, NotRequired

from pydantic import ConfigDict, Field
from typing_extensions import TypedDict

from contracts.base import Bucket, Count, Document, RelativePath, Sha256
from contracts.references import Pinned


class PinnedReference(Document):
    """An object's place and the only bytes that may be found there."""

    bucket: Bucket
    object_key: RelativePath
    sha256: Sha256
    size_bytes: Count

    def pinned(self) -> Pinned:
        """As the store takes it."""
        return Pinned(self.bucket, self.object_key, self.sha256, self.size_bytes)


class ItemReference(TypedDict):
    """An object's place and, where they are known, its digest and size in bytes: a plain dict, for long item lists."""

    __pydantic_config__ = ConfigDict(extra="forbid")  # type: ignore[misc]

    bucket: Bucket
    object_key: RelativePath
    sha256: NotRequired[Annotated[Sha256 | None, Field(default=None)]]
    size_bytes: NotRequired[Annotated[Count | None, Field(default=None)]]


class PinnedItemReference(TypedDict):
    """`PinnedReference` as a plain dict, for long item lists."""

    __pydantic_config__ = ConfigDict(extra="forbid")  # type: ignore[misc]

    bucket: Bucket
    object_key: RelativePath
    sha256: Sha256
    size_bytes: Count
