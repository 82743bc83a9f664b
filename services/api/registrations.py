"""Registering packages and data sets: bodies are streamed, checked by every rule, and kept only then.

The order of checks is that of the whole API: the token, before a byte is read; the body, by the rules of its contract; and
only then whether the name is taken.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Final

from fastapi import APIRouter, Query, Request
from fastapi.responses import JSONResponse, Response, StreamingResponse

from contracts import strict_json
from contracts.errors import ArchiveTooLargeError, ObjectTooLargeError
from contracts.limits import CHECKED_HERE_BYTES, LARGE_DOCUMENT_BYTES, MAX_SNAPSHOT_BYTES
from contracts.strict_json import dump_canonical
from services.api.access import WRITE
from services.api.answers import answered
from services.api.apart import answered_apart, pieces
from services.api.dependencies import Here
from services.api.package_answers import REGISTERED_MODEL_PACKAGE, REGISTERED_PACKAGE, REGISTERED_SNAPSHOT
from services.api.pinning import pin
from services.api.receiving import aside, received

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from contextlib import AbstractAsyncContextManager
    from pathlib import Path

    from runtime.installation import Installation
    from runtime.store.objects import ObjectStore
    from runtime.store.spool import Spool

router = APIRouter(prefix="/v1/registrations", tags=["registrations"])

ArchiveName = Annotated[
    str,
    Query(
        max_length=1024,
        description="The file name that the archive has; its last part is kept.",
        examples=["digits-0.1.0.zip"],
    ),
]

_ZIP_BODY: Final[dict[str, Any]] = {
    "requestBody": {
        "required": True,
        "description": "The ZIP file, of any length up to `max_upload_bytes`; it need not be announced.",
        "content": {"application/zip": {"schema": {"type": "string", "format": "binary"}}},
    }
}
_MANIFEST_BODY: Final[dict[str, Any]] = {
    "requestBody": {
        "required": True,
        "description": "A source manifest, whose references may be pinned already.",
        "content": {"application/json": {"schema": {"type": "object"}}},
    }
}
_REGISTERED: Final = "Registered, now or before."
_one_large_manifest: Final = asyncio.Lock()
"""A source manifest of millions of items takes gigabytes of memory while it is pinned: one after the other."""


@router.post(
    "/packages",
    dependencies=[WRITE],
    openapi_extra=_ZIP_BODY,
    responses={200: answered(_REGISTERED, REGISTERED_PACKAGE)},
)
async def register_package(request: Request, here: Here, archive_name: ArchiveName = "") -> JSONResponse:
    """The archive's key and version stand for exactly its bytes from now on.

    The same archive again is answered with `created: false`; another archive for its version is a conflict.
    """
    async with receive_archive(request.stream(), here) as archive:
        registered = await aside(here.packages.register, archive, archive_name=archive_name)
    return JSONResponse({"created": registered.created, "registration": registered.registration})


@router.post(
    "/model-packages",
    dependencies=[WRITE],
    openapi_extra=_ZIP_BODY,
    responses={200: answered(_REGISTERED, REGISTERED_MODEL_PACKAGE)},
)
async def register_model_package(request: Request, here: Here, archive_name: ArchiveName = "") -> JSONResponse:
    """Training can start from the archive's model, and resume from its checkpoint, from now on.

    The same archive again is answered with `created: false`.
    """
    async with receive_archive(request.stream(), here) as archive:
        registered = await aside(here.model_packages.register, archive, archive_name=archive_name)
    return JSONResponse({"created": registered.created, "registration": registered.registration})


@router.post(
    "/dataset-snapshots",
    dependencies=[WRITE],
    openapi_extra=_MANIFEST_BODY,
    responses={200: answered(_REGISTERED, REGISTERED_SNAPSHOT)},
)
async def register_dataset_snapshot(request: Request, here: Here) -> Response:
    """Every object that the source manifest names is read and pinned; the same content again is the same snapshot."""
    too_large = partial(_manifest_too_large, MAX_SNAPSHOT_BYTES)
    async with received(here.store.spool, request.stream(), max_bytes=MAX_SNAPSHOT_BYTES, too_large=too_large) as spool:
        if spool.size_bytes <= CHECKED_HERE_BYTES:
            said = await aside(_pin, here, spool.path)
        elif spool.size_bytes <= LARGE_DOCUMENT_BYTES:
            said = await _pinned_apart(request, here, spool.path)
        else:
            async with _one_large_manifest:
                said = await _pinned_apart(request, here, spool.path)
    if not said:
        return Response()  # the client has left
    return StreamingResponse(_answer(here.store, strict_json.parse(said)), media_type="application/json")


def receive_archive(body: AsyncIterator[bytes], here: Installation) -> AbstractAsyncContextManager[Spool]:
    """A spool with the archive that `body` is, for an `async with`; nothing is left of it afterwards.

    Raises:
        ArchiveTooLargeError: it is longer than `max_upload_bytes`; the rest is not read.
    """
    most = here.settings.max_upload_bytes
    return received(here.store.spool, body, max_bytes=most, too_large=partial(_archive_too_large, most))


def _pin(here: Installation, document: Path) -> bytes:
    return pin(here, document.read_bytes())


async def _pinned_apart(request: Request, here: Installation, document: Path) -> bytes:
    settings = here.settings.to_environment()
    answer = await answered_apart(request, "services.api.pinning", [], document, settings)
    return b"" if answer is None else b"".join(pieces(answer))


def _answer(store: ObjectStore, pinned: dict[str, Any]) -> Iterator[bytes]:
    """The stored snapshot inside of the answer, read from the store: it may be as long as memory."""
    reference = pinned["object"]
    head = dump_canonical({"created": pinned["created"]})[:-1]
    yield head + b',"registration":{"object":' + dump_canonical(reference) + b',"source_manifest":'
    for chunk in store.chunks(reference["bucket"], reference["object_key"]):
        yield bytes(chunk)
    yield b"}}"


def _archive_too_large(most: int) -> ArchiveTooLargeError:
    return ArchiveTooLargeError(
        f"the archive has more than {most} bytes, the limit",
        hint="Leave data out of the package: data belongs in a data set. The limit is max_upload_bytes.",
        context={"limit_bytes": most},
    )


def _manifest_too_large(most: int) -> ObjectTooLargeError:
    return ObjectTooLargeError(
        f"the source manifest has more than {most} bytes, the limit",
        hint="Divide the data set, or leave metadata out of its items.",
        context={"limit_bytes": most},
    )
