"""What a package archive is: checked by every rule, its manifest read, and no code or model byte handed out.

1. The file is regular and within its size limit.
2. Its structure reads the same for every reader (`structure`), with safe and distinct names.
3. The manifest lies at its root, and a code package carries no file that installs or configures dependencies.
4. The declared sizes together are within the limit.
5. Every member unpacks to exactly its declared size and checksum; nothing is kept of it.
6. The manifest is a valid document, and what it names is there.

Steps 2 and 3 collect together, 5 and 6 each by themselves, and each raises once with everything that it found.
An archive inside of the archive is a member like any other: nothing here or later unpacks it.
"""

from __future__ import annotations

import posixpath
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeVar

from contracts import model_package, package
from contracts.base import validate
from contracts.errors import ArchiveTooLargeError
from contracts.model_package import ModelPackageManifest
from contracts.package import PackageManifest
from runtime.archive.content import ContentError, unpack
from runtime.archive.limits import CONTRACT_LIMITS, ArchiveLimits
from runtime.archive.names import is_dependency_file
from runtime.archive.source import open_archive
from runtime.archive.structure import read_structure
from runtime.archive.violations import Violations

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from contracts.base import Document
    from runtime.archive.source import ArchiveSource
    from runtime.archive.structure import Member

ArchiveKind = Literal["training_code_package", "training_model_package"]
"""As the inspection endpoints name them."""

_MANIFESTS: Mapping[str, ArchiveKind] = {
    package.MANIFEST_NAME: "training_code_package",
    model_package.MANIFEST_NAME: "training_model_package",
}


@dataclass(frozen=True, slots=True)
class ArchiveReport:
    """An archive that keeps all rules.

    Attributes:
        sha256: of the file, 64 lower-case hex digits.
        size_bytes: of the file.
        file_count: its members, folders not counted.
        uncompressed_bytes: what all members really unpacked to.
    """

    sha256: str
    size_bytes: int
    file_count: int
    uncompressed_bytes: int


@dataclass(frozen=True, slots=True)
class PackageArchive:
    """An inspected code package."""

    report: ArchiveReport
    manifest: PackageManifest


@dataclass(frozen=True, slots=True)
class ModelPackageArchive:
    """An inspected model package."""

    report: ArchiveReport
    manifest: ModelPackageManifest


def inspect_package(
    path: Path, limits: ArchiveLimits = CONTRACT_LIMITS, *, sha256: str | None = None, name: str | None = None
) -> PackageArchive:
    """The code package at `path`: whatever is returned keeps every ZIP rule and has a valid manifest.

    Args:
        path: the ZIP file.
        limits: what reading it may cost; the contract's by default.
        sha256: its digest, where it is known: hashing a large file once more takes seconds.
        name: what messages call it; by default the file's name.

    Raises:
        ArchiveRejectedError: it breaks rules; `context["violations"]` lists all that could be found.
        ArchiveTooLargeError: it is over a size limit, packed or unpacked.
        InvalidDocumentError: its manifest breaks the contract.
        NotFoundError: there is no readable file at `path`.
    """
    report, manifest, files = _inspect(
        path, limits, package.MANIFEST_NAME, PackageManifest, is_code=True, sha256=sha256, name=name
    )
    violations = Violations(name or path.name)
    _require_files(files, {"entrypoint": manifest.entrypoint}, package.MANIFEST_NAME, violations)
    violations.raise_if_any()
    return PackageArchive(report, manifest)


def inspect_model_package(
    path: Path, limits: ArchiveLimits = CONTRACT_LIMITS, *, sha256: str | None = None, name: str | None = None
) -> ModelPackageArchive:
    """The model package at `path`: whatever is returned keeps every ZIP rule, and the files that it names have bytes.

    Args:
        path: the ZIP file.
        limits: what reading it may cost; the contract's by default.
        sha256: its digest, where it is known: hashing a large file once more takes seconds.
        name: what messages call it; by default the file's name.

    Raises:
        ArchiveRejectedError: it breaks rules; `context["violations"]` lists all that could be found.
        ArchiveTooLargeError: it is over a size limit, packed or unpacked.
        InvalidDocumentError: its manifest breaks the contract.
        NotFoundError: there is no readable file at `path`.
    """
    report, manifest, files = _inspect(
        path, limits, model_package.MANIFEST_NAME, ModelPackageManifest, is_code=False, sha256=sha256, name=name
    )
    named = {"artifact_path": manifest.artifact_path}
    if manifest.resume_checkpoint_path is not None:
        named["resume_checkpoint_path"] = manifest.resume_checkpoint_path
    violations = Violations(name or path.name)
    _require_files(files, named, model_package.MANIFEST_NAME, violations)
    violations.raise_if_any()
    return ModelPackageArchive(report, manifest)


def find_kind(path: Path, limits: ArchiveLimits = CONTRACT_LIMITS) -> ArchiveKind:
    """What the ZIP file at `path` means to be, by the manifest at its root; nothing else about it is established.

    Raises:
        ArchiveRejectedError: it has no manifest at its root, or both, or is no ZIP file.
        ArchiveTooLargeError: it is over a size limit.
        NotFoundError: there is no readable file at `path`.
    """
    with open_archive(path, limits.max_packed_bytes) as source:
        violations = Violations(source.name)
        paths = {member.path for member in read_structure(source, limits, violations)}
        found = [kind for name, kind in _MANIFESTS.items() if name in paths]
        if len(found) != 1:
            expected = " or ".join(_MANIFESTS)
            violations.stop("", f"it must have {expected} at its root, and has {'both' if found else 'neither'}")
        return found[0]


D = TypeVar("D", bound="Document")


def _inspect(
    path: Path,
    limits: ArchiveLimits,
    manifest_name: str,
    contract: type[D],
    *,
    is_code: bool,
    sha256: str | None,
    name: str | None,
) -> tuple[ArchiveReport, D, dict[str, Member]]:
    with open_archive(path, limits.max_packed_bytes, name) as source:  # 1
        violations = Violations(source.name)
        members = read_structure(source, limits, violations)  # 2
        files = {member.path: member for member in members if not member.is_folder}
        _require_manifest(files, manifest_name, limits, violations)  # 3
        if is_code:
            _refuse_dependencies(members, violations)
        violations.raise_if_any()
        require_total(source, members, limits)  # 4
        manifest_bytes = b""
        for member in members:  # 5
            try:
                if member.path == manifest_name:
                    manifest_bytes = b"".join(unpack(source, member))
                else:
                    for _ in unpack(source, member):
                        pass
            except ContentError as error:
                violations.add(member.path, str(error))
        violations.raise_if_any()
        report = ArchiveReport(
            sha256=sha256 or source.sha256(),
            size_bytes=source.size_bytes,
            file_count=len(files),
            uncompressed_bytes=sum(member.size_bytes for member in members),
        )
        source.require_unchanged()
    return report, validate(contract, manifest_bytes), files  # 6


def require_total(source: ArchiveSource, members: Sequence[Member], limits: ArchiveLimits) -> None:
    """Returns when the declared sizes together are within the limit; `unpack` holds each member to its own.

    Raises:
        ArchiveTooLargeError: they are not.
    """
    total = sum(member.size_bytes for member in members)
    if total > limits.max_unpacked_bytes:
        raise ArchiveTooLargeError(
            f"{source.name} unpacks to {total} bytes, the limit is {limits.max_unpacked_bytes}",
            hint="Leave data and weights out of the package: data belongs in a data set, weights in a model package.",
            context={"archive": source.name, "unpacked_bytes": total, "limit_bytes": limits.max_unpacked_bytes},
        )


def _require_manifest(
    files: Mapping[str, Member], manifest_name: str, limits: ArchiveLimits, violations: Violations
) -> None:
    manifest = files.get(manifest_name)
    if manifest is None:
        other = next((path for path in files if path.endswith("/" + manifest_name)), None)
        violations.add(
            manifest_name,
            "it is missing at the archive's root"
            + (f"; it lies at {other}: pack the folder's content, not the folder" if other else ""),
        )
    elif manifest.size_bytes > limits.max_manifest_bytes:
        violations.add(manifest_name, f"it has {manifest.size_bytes} bytes, the limit is {limits.max_manifest_bytes}")


def _refuse_dependencies(members: Sequence[Member], violations: Violations) -> None:
    for member in members:
        if is_dependency_file(member.path):
            violations.add(
                member.path,
                "a code package must not bring dependencies or environment files; `runtime.id` chooses what is installed",
            )


def _require_files(
    files: Mapping[str, Member], named: Mapping[str, str], manifest_name: str, violations: Violations
) -> None:
    for field, path in named.items():
        member = files.get(posixpath.normpath(path))
        if member is None:
            violations.add(path, f"{manifest_name} names it as {field}, and it is not a file in the archive")
        elif member.size_bytes == 0:
            violations.add(path, f"{manifest_name} names it as {field}, and it is empty")
