"""Model packages: models that training may start from, each under its archive's digest."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from contracts.base import SHA256_PATTERN, validate
from contracts.errors import NotFoundError
from contracts.model_package import ModelPackageManifest
from contracts.references import Pinned
from contracts.submission import ModelArtifact
from runtime.archive.extraction import read_member
from runtime.archive.inspection import inspect_model_package
from runtime.archive.limits import CONTRACT_LIMITS, ArchiveLimits
from runtime.registry.registrations import RECORD_NAME, Given, Records, broken, file_name

if TYPE_CHECKING:
    from pathlib import Path

    from runtime.registry.registrations import StoredRegistration
    from runtime.store.objects import ObjectStore
    from runtime.store.spool import Spool

BUCKET = "models"
PREFIX = "training-code-runtime/model-packages/"
_RESUME_SUFFIX = " (resume checkpoint)"
_MAX_DISPLAY_NAME = 255


@dataclass(frozen=True, slots=True)
class RegisteredModelPackage:
    """A model package in the store.

    Attributes:
        created: whether this call made it; False where it was there before.
        registration: the wire form, `{"manifest", "archive", "package_file_name", "initialize_artifact",
            "resume_artifact"}`.
        archive: the ZIP file.
        manifest: its manifest.
        initialize_artifact: what a submission's `model_input.artifact` is to start from the model.
        resume_artifact: the same to resume from the checkpoint; None when the package has none.
    """

    created: bool
    registration: dict[str, Any]
    archive: Pinned
    manifest: ModelPackageManifest
    initialize_artifact: dict[str, Any]
    resume_artifact: dict[str, Any] | None


class ModelPackages:
    """The model packages of one store.

    Every method may raise `StorageUnavailableError`, and is safe to call again then.
    """

    def __init__(self, store: ObjectStore, limits: ArchiveLimits = CONTRACT_LIMITS) -> None:
        self._store = store
        self._limits = limits
        self._records = Records(store, BUCKET, PREFIX, ModelPackageManifest, _check_record)

    def register(self, source: Path | Spool, *, archive_name: str) -> RegisteredModelPackage:
        """Afterwards the archive, its model and its checkpoint can be used as model input.

        1. Inspect the archive by all rules.
        2. Where its digest is registered already, answer that registration as it stands.
        3. Publish the archive and the files that it names, then the small record.

        Args:
            source: the archive; a spool of the same store is published without being copied.
            archive_name: the file name that it came with.

        Raises:
            ArchiveRejectedError, ArchiveTooLargeError, InvalidDocumentError, NotFoundError: as
                `inspect_model_package`.
        """
        given = Given.of(source, archive_name)
        inspected = inspect_model_package(given.path, self._limits, sha256=given.sha256, name=given.name)
        manifest, report = inspected.manifest, inspected.report
        archive = Pinned(BUCKET, f"{PREFIX}{report.sha256}/source.zip", report.sha256, report.size_bytes)
        record_key = _record_key(report.sha256)
        stored = self._records.find(record_key)
        if stored is not None and self._is_whole(stored):
            return _registered(stored, created=False)
        self._store.publish_file(source, archive)
        model = self._publish_member(given.path, archive, manifest.artifact_path, f"initialize.{manifest.format}")
        checkpoint = None
        if manifest.resume_checkpoint_path is not None:
            checkpoint = self._publish_member(
                given.path, archive, manifest.resume_checkpoint_path, f"resume-checkpoint.{manifest.format}"
            )
        registration = {
            "manifest": manifest.to_document(),
            "archive": archive.to_document(),
            "package_file_name": file_name(archive_name, f"{report.sha256}.zip"),
            "initialize_artifact": _artifact(manifest, model, manifest.name, resume_supported=False),
            "resume_artifact": checkpoint
            and _artifact(
                manifest,
                checkpoint,
                manifest.name[: _MAX_DISPLAY_NAME - len(_RESUME_SUFFIX)] + _RESUME_SUFFIX,
                resume_supported=True,
            ),
        }
        created, stored = self._records.claim(record_key, registration)
        return _registered(stored, created=created)

    def find(self, sha256: str) -> RegisteredModelPackage:
        """The model package whose archive has this digest.

        Raises:
            NotFoundError: there is none.
            InvalidDocumentError: its record is unreadable.
        """
        stored = None
        if re.fullmatch(SHA256_PATTERN, sha256):
            stored = self._records.find(_record_key(sha256))
        if stored is None:
            raise NotFoundError(
                f"no model package {sha256} is registered",
                hint="`mtr model list` shows what is; `mtr model register FILE` adds one.",
                context={"sha256": sha256},
            )
        return _registered(stored, created=False)

    def list(self) -> list[RegisteredModelPackage]:
        """All registered model packages, by name and then by digest.

        Raises:
            InvalidDocumentError: a record is unreadable; the error names it.
        """
        stored = sorted(self._records.read_all(), key=lambda one: (one.manifest.name, one.archive.sha256))
        return [_registered(one, created=False) for one in stored]

    def _publish_member(self, zip_path: Path, archive: Pinned, member: str, name: str) -> Pinned:
        with self._store.spool() as spool:
            read_member(zip_path, member, spool.write, self._limits)
            pinned = Pinned(BUCKET, f"{PREFIX}{archive.sha256}/{name}", spool.sha256, spool.size_bytes)
            self._store.publish_file(spool, pinned)
        return pinned

    def _is_whole(self, stored: StoredRegistration[ModelPackageManifest]) -> bool:
        """Whether the store still has everything that the record names; what it lost is published again."""
        artifacts = (stored.registration["initialize_artifact"], stored.registration.get("resume_artifact"))
        keys = [artifact["object"]["object_key"] for artifact in artifacts if artifact is not None]
        return all(self._store.exists(BUCKET, key) for key in (stored.archive.key, *keys))


def _registered(stored: StoredRegistration[ModelPackageManifest], *, created: bool) -> RegisteredModelPackage:
    return RegisteredModelPackage(
        created=created,
        registration=stored.registration,
        archive=stored.archive,
        manifest=stored.manifest,
        initialize_artifact=stored.registration["initialize_artifact"],
        resume_artifact=stored.registration.get("resume_artifact"),
    )


def _artifact(
    manifest: ModelPackageManifest, pinned: Pinned, display_name: str, *, resume_supported: bool
) -> dict[str, Any]:
    document = manifest.to_document()
    return {
        "source": "uploaded_model_package",
        "object": pinned.to_document(),
        "format": document["format"],
        "task_kind": document["task_kind"],
        "class_names": document["class_names"],
        "display_name": display_name,
        "framework": document["framework"],
        "resume_supported": resume_supported,
        "metadata": document["metadata"],
    }


def _record_key(sha256: str) -> str:
    return f"{PREFIX}{sha256}/{RECORD_NAME}"


def _check_record(key: str, stored: StoredRegistration[ModelPackageManifest]) -> None:
    if key != _record_key(stored.archive.sha256):
        raise broken("registration.archive.sha256", "belongs under another key")
    for field in ("initialize_artifact", "resume_artifact"):
        artifact = stored.registration.get(field)
        if artifact is not None:
            _check_artifact(field, artifact)
        elif field == "initialize_artifact":
            raise broken(f"registration.{field}", "required here")


def _check_artifact(field: str, artifact: object) -> None:
    if not isinstance(artifact, dict):
        raise broken(f"registration.{field}", "must be an object")
    validate(ModelArtifact, artifact)
