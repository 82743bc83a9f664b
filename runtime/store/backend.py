"""What a place for objects must be able to do; the verified store is built on this and knows nothing else of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

from contracts.errors import InvalidDocumentError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping
    from pathlib import Path

    from contracts.references import Pinned
    from runtime.store.spool import Spool

LOGICAL_BUCKETS: Final = ("default", "datasets", "models", "annotations")


@dataclass(frozen=True, slots=True)
class ObjectStat:
    """What a place tells about an object without reading it.

    Attributes:
        size_bytes: the object's length.
        etag: changes whenever the object's bytes do; comparable for equality only, and only within one store.
        version: the store's version id where the bucket keeps versions.
        settled: whether a later change is certain to show in `etag`. Not so for a local file written within the
            file system's clock tick: a second write of the same length could leave the same times behind.
    """

    size_bytes: int
    etag: str
    version: str | None = None
    settled: bool = True


@dataclass(frozen=True, slots=True)
class DirectPut:
    """A request that whoever knows it may send to the store itself, until it expires.

    Attributes:
        url: where; it is a secret.
        headers: what it must bear, exactly: the length and the digest of the only bytes that are taken.
    """

    url: str
    headers: Mapping[str, str]


class StagedWrite(Protocol):
    """An object being written that nobody can see yet."""

    def write(self, chunk: bytes | memoryview) -> None:
        """Appends `chunk`."""

    def commit(self) -> bool:
        """Publishes what was written; False when the key exists already, and then nothing changed."""

    def abandon(self) -> None:
        """Drops what was written; safe to call at any time, also after `commit`."""


class Backend(Protocol):
    """A place for objects, addressed by logical bucket and key.

    Errors that every method may raise: `StorageUnavailableError` once its retries and deadline are used up,
    `StorageRefusedError` for a permission, a missing bucket or a full disk; and where an object is read,
    `ObjectMissingError`.
    """

    @property
    def identity(self) -> str:
        """Names the place, so that evidence recorded about one store is never used for another."""

    @property
    def threads(self) -> int:
        """How many calls are worth making at once, to begin with."""

    @property
    def reads_faster_when_known(self) -> bool:
        """Whether `read` gains more from `known` than `stat_many` costs."""

    def stat(self, bucket: str, key: str) -> ObjectStat:
        """What is known of an object without reading it."""

    def stat_many(self, bucket: str, keys: Collection[str]) -> dict[str, ObjectStat]:
        """The same for many; a missing object has no entry."""

    def read(
        self, bucket: str, key: str, *, expected_bytes: int, known: ObjectStat | None = None
    ) -> bytes | memoryview:
        """The whole object in one call, or its first `expected_bytes + 1` bytes when it is longer.

        Args:
            bucket: logical bucket.
            key: object key.
            expected_bytes: how long the object ought to be.
            known: what was known of the object: another one is refused (`ObjectChangedError`), and as its size is
                known, it need not be read with care.
        """

    def chunks(self, bucket: str, key: str, *, etag: str | None = None, start: int = 0) -> Iterator[memoryview]:
        """The object's bytes in order, from byte `start` on; a view is valid until the next one is asked for."""

    def create(self, bucket: str, key: str, content: bytes) -> bool:
        """Puts `content` if the key does not exist; False, and no change, when it does."""

    def stage(self, bucket: str, key: str) -> StagedWrite:
        """Starts a large write."""

    @property
    def spool_folder(self) -> Path:
        """Where files that are received belong, so that `adopt` need not copy them."""

    @property
    def keeps_spools(self) -> bool:
        """Whether `adopt` makes objects of them as they lie, so that their bytes have to reach this machine's disk."""

    def adopt(self, spool: Spool, bucket: str, key: str) -> bool | None:
        """Makes the object of a spool without copying it; False, and no change, when the key exists.

        None where that cannot be done: then its bytes have to be written like any others.
        """

    def file_of(self, bucket: str, key: str) -> Path | None:
        """The object's own file, which nobody ever writes to; None where it has none on this machine."""

    def presign_put(self, pinned: Pinned, seconds: int) -> DirectPut | None:
        """A PUT of exactly the pinned bytes that needs no credentials; None where clients cannot reach the place."""

    def list(self, bucket: str, prefix: str) -> Iterator[tuple[str, ObjectStat]]:
        """Every object whose key starts with `prefix`, in no particular order."""

    def delete(self, bucket: str, key: str) -> None:
        """Afterwards the key does not exist."""

    def missing_buckets(self) -> tuple[str, ...]:
        """The real buckets that do not exist."""

    def ensure_buckets(self) -> tuple[str, ...]:
        """Afterwards every real bucket exists; returns those that were made."""

    def check(self) -> None:
        """Returns when every bucket can be listed, written and read."""


def require_address(bucket: str, key: str) -> None:
    """Refuses what is no address: an unknown bucket, or a key that is empty, absolute or leads out of its bucket.

    Contracts refuse such references long before; a store that trusted that would be one forgotten check away
    from `../../etc/passwd`.

    Raises:
        InvalidDocumentError: with every violation.
    """
    violations = []
    if bucket not in LOGICAL_BUCKETS:
        violations.append({"path": "bucket", "message": f"is {bucket!r}, must be one of {', '.join(LOGICAL_BUCKETS)}"})
    parts = key.split("/")
    if not key or "\0" in key or "\\" in key or any(part in ("", ".", "..") for part in parts):
        violations.append({"path": "object_key", "message": f"{key[:200]!r} is not a relative path"})
    if violations:
        raise InvalidDocumentError.of("object reference", violations)
