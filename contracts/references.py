"""An object's place together with the only bytes that may ever be found there."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Pinned:
    """A pinned reference: `bucket` is one of the four logical buckets, `sha256` 64 lower-case hex digits."""

    bucket: str
    key: str
    sha256: str
    size_bytes: int

    def to_document(self) -> dict[str, object]:
        """The wire form: an object reference with its digest and size."""
        return {
            "bucket": self.bucket,
            "object_key": self.key,
            "sha256": self.sha256,
            "size_bytes": self.size_bytes,
        }
