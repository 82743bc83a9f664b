"""Code packages: a key and a version stand for one archive, for ever."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from contracts.base import PACKAGE_KEY_PATTERN, VERSION_PATTERN
from contracts.errors import ConflictError, NotFoundError
from contracts.package import PackageManifest
from contracts.references import Pinned
from runtime.archive.inspection import inspect_package
from runtime.archive.limits import CONTRACT_LIMITS, ArchiveLimits
from runtime.registry.registrations import RECORD_NAME, Given, Records, broken, file_name

if TYPE_CHECKING:
    from pathlib import Path

    from runtime.archive.inspection import PackageArchive
    from runtime.registry.registrations import StoredRegistration
    from runtime.store.objects import ObjectStore
    from runtime.store.spool import Spool

BUCKET = "default"
PREFIX = "training-code-runtime/packages/"


@dataclass(frozen=True, slots=True)
class Registered:
    """A code package in the store.

    Attributes:
        created: whether this call made it; False where it was there before.
        registration: the wire form, `{"manifest", "archive", "package_file_name"}`.
        archive: the ZIP file.
        manifest: its manifest.
    """

    created: bool
    registration: dict[str, Any]
    archive: Pinned
    manifest: PackageManifest


class Packages:
    """The code packages of one store.

    Every method may raise `StorageUnavailableError`, and is safe to call again then.
    """

    def __init__(self, store: ObjectStore, limits: ArchiveLimits = CONTRACT_LIMITS) -> None:
        self._store = store
        self._limits = limits
        self._records = Records(store, BUCKET, PREFIX, PackageManifest, _check_record)

    def register(self, source: Path | Spool, *, archive_name: str) -> Registered:
        """Afterwards the archive's key and version stand for exactly its bytes.

        1. Inspect the archive by all rules.
        2. Where the version is registered already: the same digest is answered as it stands, another is a conflict.
        3. Publish the archive under its digest, then claim the version with the small record.
        4. Where somebody else claimed it first, compare with what they wrote; what this call published for nothing goes.

        Args:
            source: the archive; a spool of the same store is published without being copied.
            archive_name: the file name that it came with.

        Raises:
            ArchiveRejectedError, ArchiveTooLargeError, InvalidDocumentError, NotFoundError: as `inspect_package`.
            ConflictError: the version stands for another archive, which stays.
        """
        given = Given.of(source, archive_name)
        inspected = inspect_package(given.path, self._limits, sha256=given.sha256, name=given.name)
        manifest, archive = inspected.manifest, _place(inspected)
        record_key = _record_key(manifest.key, manifest.version)
        stored = self._records.find(record_key)
        created = published = False
        if stored is None:
            published = self._store.publish_file(source, archive)
            created, stored = self._records.claim(record_key, _registration(inspected, archive, archive_name))
        if published and stored.archive != archive:
            self._store.remove(archive.bucket, archive.key)
        _require_same(stored, archive)
        if not created and not self._store.exists(stored.archive.bucket, stored.archive.key):
            self._store.publish_file(source, stored.archive)  # the same bytes: heals a store that lost them
        return Registered(created, stored.registration, stored.archive, stored.manifest)

    def store_development(self, zip_path: Path, *, archive_name: str) -> Registered:
        """Afterwards the archive can be run by its digest; its key and version are not claimed.

        Args:
            zip_path: the archive.
            archive_name: the file name that it came with.

        Raises:
            ArchiveRejectedError, ArchiveTooLargeError, InvalidDocumentError, NotFoundError: as `inspect_package`.
        """
        inspected = inspect_package(zip_path, self._limits)
        archive = _place(inspected)
        created = self._store.publish_file(zip_path, archive)
        return Registered(created, _registration(inspected, archive, archive_name), archive, inspected.manifest)

    def find(self, key: str, version: str) -> Registered:
        """The registered package.

        Raises:
            NotFoundError: nothing is registered under this key and version.
            InvalidDocumentError: its record is unreadable.
        """
        stored = None
        if re.fullmatch(PACKAGE_KEY_PATTERN, key) and re.fullmatch(VERSION_PATTERN, version):
            stored = self._records.find(_record_key(key, version))
        if stored is None:
            raise NotFoundError(
                f"no package {key}@{version} is registered",
                hint="`mtr package list` shows what is; `mtr package register FOLDER` adds one.",
                context={"key": key, "version": version},
            )
        return Registered(
            created=False, registration=stored.registration, archive=stored.archive, manifest=stored.manifest
        )

    def list(self) -> list[Registered]:
        """All registered packages, by key and then by version, oldest version first.

        Raises:
            InvalidDocumentError: a record is unreadable; the error names it.
        """
        stored = sorted(
            self._records.read_all(), key=lambda one: (one.manifest.key, version_order(one.manifest.version))
        )
        return [
            Registered(created=False, registration=one.registration, archive=one.archive, manifest=one.manifest)
            for one in stored
        ]


def version_order(version: str) -> tuple[tuple[int, ...], bool, tuple[tuple[bool, int, str], ...], str]:
    """A key that sorts semantic versions by precedence: `1.0.0-rc.2`, `1.0.0-rc.10`, `1.0.0`, `1.10.0`."""
    precedence, _, build = version.partition("+")
    numbers, _, pre_release = precedence.partition("-")
    parts = tuple(
        (False, int(part), "") if part.isdigit() else (True, 0, part) for part in pre_release.split(".") if pre_release
    )
    return tuple(int(number) for number in numbers.split(".")), not pre_release, parts, build


def _place(inspected: PackageArchive) -> Pinned:
    manifest, report = inspected.manifest, inspected.report
    key = f"{PREFIX}{manifest.key}/{manifest.version}/{report.sha256}.zip"
    return Pinned(BUCKET, key, report.sha256, report.size_bytes)


def _record_key(key: str, version: str) -> str:
    return f"{PREFIX}{key}/{version}/{RECORD_NAME}"


def _registration(inspected: PackageArchive, archive: Pinned, archive_name: str) -> dict[str, Any]:
    manifest = inspected.manifest
    return {
        "manifest": manifest.to_document(),
        "archive": archive.to_document(),
        "package_file_name": file_name(archive_name, f"{manifest.key}-{manifest.version}.zip"),
    }


def _require_same(stored: StoredRegistration[PackageManifest], archive: Pinned) -> None:
    if stored.archive.sha256 == archive.sha256:
        return
    key, version = stored.manifest.key, stored.manifest.version
    raise ConflictError(
        f"{key} {version} exists with digest {stored.archive.sha256[:12]}…, this archive has {archive.sha256[:12]}…",
        hint='Raise "version" in training_package.json; `mtr run` runs an edited package without claiming a version.',
        context={"key": key, "version": version, "registered": stored.archive.sha256, "given": archive.sha256},
    )


def _check_record(key: str, stored: StoredRegistration[PackageManifest]) -> None:
    if key != _record_key(stored.manifest.key, stored.manifest.version):
        said = f"{stored.manifest.key} {stored.manifest.version}"
        raise broken("registration.manifest", f"is that of {said}, which belongs under another key")
