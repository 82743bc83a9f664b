"""Direct uploads: a package's bytes go to the store by a PUT of their own, and are registered once they were checked.

On S3 the PUT goes to the store itself, by a signature for exactly the announced bytes; a store of local folders is reached
by an address of ours, and a secret in a header, which no log of a server or proxy has. Both take bytes until the upload
expires, and neither asks for a token.
"""

from __future__ import annotations

from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

from fastapi import APIRouter, Header, Path, Request, Response
from pydantic import BaseModel

from contracts.base import validate
from contracts.errors import ArchiveTooLargeError
from contracts.upload import PackageKind, UploadRequest
from runtime.registry.uploads import Uploads
from services.api.access import WRITE
from services.api.answers import exemplified
from services.api.dependencies import Here
from services.api.package_answers import REGISTERED_MODEL_PACKAGE, UPLOAD, UPLOAD_STATE
from services.api.receiving import aside, received

if TYPE_CHECKING:
    from runtime.installation import Installation

router = APIRouter(prefix="/v1/uploads", tags=["uploads"])

SECRET_HEADER: Final = "X-Upload-Secret"  # noqa: S105 - the name of one

UploadId = Annotated[str, Path(description="As `POST /v1/uploads` answered it.", max_length=64)]


class UploadAnswer(BaseModel):
    """An upload that was begun, and the one request that sends its bytes.

    Attributes:
        upload_id: completes it.
        method: of that request.
        url: where it goes.
        headers: what it must bear, exactly; whoever knows both may send the bytes.
        expires_at: until when bytes are taken and the upload can be completed.
    """

    upload_id: str
    method: Literal["PUT"] = "PUT"
    url: str
    headers: dict[str, str]
    expires_at: datetime


class UploadStateAnswer(BaseModel):
    """How far an upload has come.

    Attributes:
        upload_id: the upload.
        state: `waiting` for its bytes, `received`, `completed`, or `expired` without that.
        kind: what was announced; likewise the next three.
        archive_name: the file name.
        sha256: the digest.
        size_bytes: the length.
        expires_at: until when it can be completed.
        created: of a completed one, whether it registered the package, which may have been there.
        registration: of a completed one, the registration.
    """

    upload_id: str
    state: Literal["waiting", "received", "completed", "expired"]
    kind: PackageKind
    archive_name: str
    sha256: str
    size_bytes: int
    expires_at: datetime
    created: bool | None = None
    registration: dict[str, Any] | None = None


class CompletedAnswer(BaseModel):
    """As the registration endpoints answer.

    Attributes:
        created: whether the package was registered by this upload; False where it was there before.
        registration: the registration.
    """

    created: bool
    registration: dict[str, Any]


_ANNOUNCEMENT: Final[dict[str, Any]] = {
    "requestBody": {
        "required": True,
        "description": "What is about to be sent.",
        "content": {
            "application/json": {
                "schema": UploadRequest.model_json_schema(),
                "example": {
                    "kind": "training_model_package",
                    "archive_name": "digits-start.zip",
                    "sha256": "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
                    "size_bytes": 1_073_741_824,
                },
            }
        },
    }
}
_CONTENT: Final[dict[str, Any]] = {
    "requestBody": {
        "required": True,
        "description": "The archive, exactly as it was announced.",
        "content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}},
    }
}


@router.post(
    "",
    status_code=201,
    dependencies=[WRITE],
    openapi_extra=_ANNOUNCEMENT,
    responses={201: exemplified("It takes bytes until it expires.", UPLOAD)},
)
async def begin_upload(request: Request, here: Here) -> UploadAnswer:
    """An upload that takes exactly the announced bytes, and the request that sends them."""
    asked = validate(UploadRequest, await request.body())
    begun = await aside(_uploads(here).begin, asked)
    upload = begun.upload
    if begun.direct is not None:
        url, headers = begun.direct.url, dict(begun.direct.headers)
    else:
        base = here.settings.base_url.rstrip("/") or str(request.base_url).rstrip("/")
        url, headers = f"{base}/v1/uploads/{upload.upload_id}/content", {SECRET_HEADER: begun.secret}
    return UploadAnswer(upload_id=upload.upload_id, url=url, headers=headers, expires_at=upload.expires_at)


@router.put("/{upload_id}/content", response_class=Response, openapi_extra=_CONTENT)
async def receive_content(
    upload_id: UploadId,
    request: Request,
    here: Here,
    secret: Annotated[str, Header(alias=SECRET_HEADER, max_length=100, description="As it was answered.")],
) -> Response:
    """The upload has its bytes; it remains to be completed. Only for who knows what `POST /v1/uploads` answered."""
    uploads = _uploads(here)
    upload = await aside(uploads.expect, upload_id, secret)
    most = upload.request.size_bytes
    async with received(
        here.store.spool, request.stream(), max_bytes=most, too_large=partial(_longer_than_announced, upload_id, most)
    ) as content:
        await aside(uploads.keep, upload, content)
    return Response()


@router.post(
    "/{upload_id}/complete",
    dependencies=[WRITE],
    responses={200: exemplified("Registered, now or before.", REGISTERED_MODEL_PACKAGE)},
)
async def complete_upload(upload_id: UploadId, here: Here) -> CompletedAnswer:
    """The package is registered, once its digest and the archive were checked; repeated, the answer is the same."""
    completion = await aside(_uploads(here).complete, upload_id)
    return CompletedAnswer(created=completion.created, registration=completion.registration)


@router.get("/{upload_id}", responses={200: exemplified("The upload as it stands.", UPLOAD_STATE)})
def read_upload(upload_id: UploadId, here: Here) -> UploadStateAnswer:
    """How far the upload has come."""
    uploads = _uploads(here)
    upload = uploads.find(upload_id)
    state, completion = uploads.state(upload)
    return UploadStateAnswer(
        upload_id=upload_id,
        state=state,
        kind=upload.request.kind,
        archive_name=upload.request.archive_name,
        sha256=upload.request.sha256,
        size_bytes=upload.request.size_bytes,
        expires_at=upload.expires_at,
        created=completion and completion.created,
        registration=completion and completion.registration,
    )


@router.delete("/{upload_id}", status_code=204, dependencies=[WRITE])
def abandon_upload(upload_id: UploadId, here: Here) -> Response:
    """Nothing is left of the upload; what it registered stays."""
    _uploads(here).abandon(upload_id)
    return Response(status_code=204)


def _uploads(here: Installation) -> Uploads:
    return Uploads(here.store, here.packages, here.model_packages, here.settings.max_upload_bytes)


def _longer_than_announced(upload_id: str, most: int) -> ArchiveTooLargeError:
    return ArchiveTooLargeError(
        f"upload {upload_id} was announced with {most} bytes, and more arrived",
        hint="Begin an upload for the archive as it is now.",
        context={"upload_id": upload_id, "limit_bytes": most},
    )
