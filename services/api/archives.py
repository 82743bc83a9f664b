"""`/v1/packages/archive/…` and `/v1/model-packages/archive/…`: what a ZIP is, without keeping or running any of it."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse

from contracts.errors import ArchiveTooLargeError, UnsupportedMediaTypeError
from contracts.limits import MAX_ARCHIVE_BYTES
from runtime.archive.inspection import ArchiveKind, inspect_model_package, inspect_package
from services.api.answers import answered
from services.api.dependencies import Here
from services.api.package_answers import (
    INSPECTED_MODEL_PACKAGE,
    INSPECTED_PACKAGE,
    VALID_MODEL_PACKAGE,
    VALID_PACKAGE,
)
from services.api.receiving import aside, received

if TYPE_CHECKING:
    from runtime.archive.inspection import ModelPackageArchive, PackageArchive
    from runtime.installation import Installation

router = APIRouter(prefix="/v1", tags=["archives"])

_ZIP_BODY: Final[dict[str, Any]] = {
    "requestBody": {
        "required": True,
        "description": "The ZIP file, at most 512 MiB packed and unpacked.",
        "content": {"application/zip": {"schema": {"type": "string", "format": "binary"}}},
    }
}
_ACCEPTED: Final = "The archive breaks no rule."
_ZIP_TYPES: Final = frozenset({"application/zip", "application/x-zip-compressed", "application/octet-stream", ""})
"""What clients call a ZIP; one that says nothing is believed, since the archive itself is checked."""


@router.post("/packages/archive/validate", openapi_extra=_ZIP_BODY, responses={200: answered(_ACCEPTED, VALID_PACKAGE)})
async def validate_package_archive(request: Request, here: Here) -> JSONResponse:
    """Check a code package's ZIP by every rule; its manifest comes back normalized."""
    return JSONResponse(_verdict(await _inspected(request, here, "training_code_package")))


@router.post(
    "/packages/archive/inspect", openapi_extra=_ZIP_BODY, responses={200: answered(_ACCEPTED, INSPECTED_PACKAGE)}
)
async def inspect_package_archive(request: Request, here: Here) -> JSONResponse:
    """Check a code package's ZIP, and answer what it is and how it is configured."""
    found = await _inspected(request, here, "training_code_package")
    return JSONResponse(_configuration("training_code_package", found))


@router.post(
    "/model-packages/archive/validate",
    openapi_extra=_ZIP_BODY,
    responses={200: answered(_ACCEPTED, VALID_MODEL_PACKAGE)},
)
async def validate_model_package_archive(request: Request, here: Here) -> JSONResponse:
    """Check a model package's ZIP by every rule; its manifest comes back normalized."""
    return JSONResponse(_verdict(await _inspected(request, here, "training_model_package")))


@router.post(
    "/model-packages/archive/inspect",
    openapi_extra=_ZIP_BODY,
    responses={200: answered(_ACCEPTED, INSPECTED_MODEL_PACKAGE)},
)
async def inspect_model_package_archive(request: Request, here: Here) -> JSONResponse:
    """Check a model package's ZIP, and answer what it is and how it is configured."""
    found = await _inspected(request, here, "training_model_package")
    return JSONResponse(_configuration("training_model_package", found))


async def _inspected(request: Request, here: Installation, kind: ArchiveKind) -> PackageArchive | ModelPackageArchive:
    said = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if said not in _ZIP_TYPES:
        raise UnsupportedMediaTypeError(
            f"the body is said to be {said[:100]!r}, and must be a ZIP",
            hint="Send the ZIP itself as the body, with `Content-Type: application/zip`.",
            context={"content_type": said[:100]},
        )
    look = inspect_package if kind == "training_code_package" else inspect_model_package
    spool = partial(received, here.store.spool, request.stream())
    async with spool(max_bytes=MAX_ARCHIVE_BYTES, too_large=_too_large) as archive:
        return await aside(look, archive.path, sha256=archive.sha256, name="the archive")


def _verdict(found: PackageArchive | ModelPackageArchive) -> dict[str, Any]:
    return {"valid": True, **_facts(found), "manifest": found.manifest.to_document()}


def _configuration(kind: ArchiveKind, found: PackageArchive | ModelPackageArchive) -> dict[str, Any]:
    return {"kind": kind, "valid": True, "archive": _facts(found), "configuration": found.manifest.to_document()}


def _facts(found: PackageArchive | ModelPackageArchive) -> dict[str, Any]:
    report = found.report
    return {
        "sha256": report.sha256,
        "file_count": report.file_count,
        "uncompressed_bytes": report.uncompressed_bytes,
    }


def _too_large() -> ArchiveTooLargeError:
    return ArchiveTooLargeError(
        f"the archive has more than {MAX_ARCHIVE_BYTES} bytes, the limit here",
        hint="Larger ones go to /v1/uploads; leave data and weights out of a code package.",
        context={"limit_bytes": MAX_ARCHIVE_BYTES},
    )
