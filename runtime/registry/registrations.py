"""The small record that decides what a name means: written once by a conditional put, read by everybody.

`registration.json` is `{"reference": <pinned archive>, "registration": {"manifest", "archive", ...}}` as sorted compact
JSON. Large objects are published before it, so whoever finds the record finds everything that it names; of two writers
exactly one makes it, and the other one reads what the winner wrote. Records of the platform's legacy service have the
same form and are read alike; a field that they have and we do not know is kept as it is.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from contracts.base import Document, validate
from contracts.errors import ConflictError, InvalidDocumentError, ObjectMissingError
from contracts.limits import MAX_RECORD_BYTES
from contracts.objects import PinnedReference
from contracts.strict_json import dump_canonical, parse
from runtime.store.spool import Spool

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from contracts.references import Pinned
    from runtime.store.objects import ObjectStore

RECORD_NAME = "registration.json"
_READERS = 16
"""Threads that read records for a listing; each waits for the store nearly all of its time."""

Manifest = TypeVar("Manifest", bound=Document)


@dataclass(frozen=True, slots=True)
class StoredRegistration(Generic[Manifest]):
    """A registration as it stands in the store.

    Attributes:
        registration: the wire form, exactly as it was written first.
        archive: the registered ZIP file.
        manifest: its manifest.
    """

    registration: dict[str, Any]
    archive: Pinned
    manifest: Manifest


class Records(Generic[Manifest]):
    """The records of one kind, in one bucket.

    Args:
        store: where they are.
        bucket: the logical bucket.
        prefix: what all their keys start with.
        contract: the manifest's model.
        check: raises InvalidDocumentError for what a registration of this kind must have besides, given its key.
    """

    def __init__(
        self,
        store: ObjectStore,
        bucket: str,
        prefix: str,
        contract: type[Manifest],
        check: Callable[[str, StoredRegistration[Manifest]], None],
    ) -> None:
        self._store, self._bucket, self._prefix = store, bucket, prefix
        self._contract, self._check = contract, check

    def claim(self, key: str, registration: dict[str, Any]) -> tuple[bool, StoredRegistration[Manifest]]:
        """Afterwards the record exists; answers whether this call made it, and what it says, whoever made it.

        The caller compares the answer's digest with its own: the winner may have registered something else.

        Raises:
            InvalidDocumentError: the record that was there first is unreadable.
        """
        content = dump_canonical({"reference": registration["archive"], "registration": registration})
        try:
            created = self._store.publish_bytes(content, self._bucket, key)
        except ConflictError:  # other bytes may still be the same archive, under another file name
            created = False
        return created, self.read(key)

    def read(self, key: str) -> StoredRegistration[Manifest]:
        """The registration that the record holds.

        Raises:
            ObjectMissingError: there is no such record.
            InvalidDocumentError: it is unreadable, contradicts itself, or does not belong under this key.
        """
        content = self._store.read_small(self._bucket, key, max_bytes=MAX_RECORD_BYTES)
        try:
            stored = _parse(content, self._contract)
            self._check(key, stored)
        except InvalidDocumentError as error:
            raise InvalidDocumentError(
                f"the registration record {self._bucket}/{key} is unreadable: {error.message}",
                hint="Something else than this product or the legacy service wrote it: restore it from a backup.",
                context={**error.context, "bucket": self._bucket, "key": key},
            ) from error
        return stored

    def find(self, key: str) -> StoredRegistration[Manifest] | None:
        """As `read`; None when there is no such record."""
        try:
            return self.read(key)
        except ObjectMissingError:
            return None

    def read_all(self) -> list[StoredRegistration[Manifest]]:
        """All of them, in the order of their keys.

        Raises:
            InvalidDocumentError: one is unreadable; the error names it.
        """
        keys = (key for key in self._store.list(self._bucket, self._prefix) if key.endswith("/" + RECORD_NAME))
        with ThreadPoolExecutor(_READERS) as readers:
            return list(readers.map(self.read, keys))


@dataclass(frozen=True, slots=True)
class Given:
    """An archive as it was given to be registered: a file, or a spool that was hashed when it arrived.

    Attributes:
        path: where it is.
        sha256: its digest, where it is known.
        name: what messages call it; None is the file's name.
    """

    path: Path
    sha256: str | None
    name: str | None

    @classmethod
    def of(cls, source: Path | Spool, archive_name: str) -> Given:
        """What `source` is known to be; a spool has no name but that of the archive in it."""
        if isinstance(source, Spool):
            return cls(source.path, source.sha256, file_name(archive_name, "the archive"))
        return cls(source, None, None)


def file_name(archive_name: str, default: str) -> str:
    """The last part of the name that the archive came with; `default` when it has none."""
    return PurePosixPath(archive_name.strip().replace("\\", "/")).name or default


def broken(path: str, message: str) -> InvalidDocumentError:
    """The error for a record whose `path` is not as it must be."""
    return InvalidDocumentError.of("registration", [{"path": path, "message": message}])


def _parse(content: bytes, contract: type[Manifest]) -> StoredRegistration[Manifest]:
    record = parse(content, contract="registration")
    registration = _object(record, "registration")
    archive = validate(PinnedReference, _object(registration, "archive", "registration.archive"))
    reference = validate(PinnedReference, _object(record, "reference"))
    manifest = validate(contract, _object(registration, "manifest", "registration.manifest"))
    if reference != archive:
        raise broken("reference", "names another object than registration.archive")
    return StoredRegistration(registration, archive.pinned(), manifest)


def _object(document: Any, field: str, path: str = "") -> dict[str, Any]:
    value = document.get(field) if isinstance(document, dict) else None
    if not isinstance(value, dict):
        raise broken(path or field, "must be an object")
    return value
