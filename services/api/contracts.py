"""`/v1/contracts/…/validate`: one document, every violation of it at once."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Final

from anyio import to_thread
from fastapi import APIRouter, Request, Response

from contracts import strict_json
from contracts.base import CONTRACTS, validate
from contracts.errors import RequestTooLargeError
from contracts.limits import LARGE_DOCUMENT_BYTES, MAX_JSON_BODY_BYTES, MAX_VALIDATED_BODY_BYTES

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

router = APIRouter(prefix="/v1/contracts", tags=["contracts"])

PATHS: Final = {
    "package": "package",
    "dataset-manifest": "dataset_manifest",
    "dataset-source-manifest": "dataset_source_manifest",
    "execution": "execution",
    "event": "event",
    "result": "result",
    "mq-submission": "mq_submission",
}
"""Path segment -> name of the contract."""

_one_large_document: Final = asyncio.Lock()
"""A document of millions of items takes gigabytes of memory while it is checked: one after the other."""


def _endpoint(name: str, most: int) -> Callable[[Request], Awaitable[Response]]:
    async def check(request: Request) -> Response:
        content = await bounded_body(request, most)
        work = partial(_normalized, name, content)
        del content
        if most > MAX_JSON_BODY_BYTES and len(work.args[1]) > LARGE_DOCUMENT_BYTES:
            async with _one_large_document:
                return Response(await to_thread.run_sync(work), media_type="application/json")
        return Response(await to_thread.run_sync(work), media_type="application/json")

    check.__name__ = f"validate_{name}"
    check.__doc__ = f"Check a `{CONTRACTS[name].version}` document; the answer has it with every default filled in."
    return check


def _normalized(name: str, content: bytes) -> bytes:
    document = validate(name, content)
    answer = {"valid": True, "contract": CONTRACTS[name].version, "normalized": document.to_document()}
    return strict_json.dump(answer)


async def bounded_body(request: Request, most: int) -> bytes:
    """The request's body.

    Raises:
        RequestTooLargeError: it has more than `most` bytes; the rest is not read.
    """
    parts, size = [], 0
    async for part in request.stream():
        size += len(part)
        if size > most:
            raise RequestTooLargeError(
                f"the document has more than {most} bytes, the limit here",
                hint="Register a data set of this size at /v1/registrations/dataset-snapshots, which checks it as well.",
                context={"limit_bytes": most},
            )
        parts.append(part)
    return b"".join(parts)


for _segment, _name in PATHS.items():
    _most = MAX_VALIDATED_BODY_BYTES if _segment.startswith("dataset-") else MAX_JSON_BODY_BYTES
    router.add_api_route(
        f"/{_segment}/validate", _endpoint(_name, _most), methods=["POST"], operation_id=f"validate_{_name}"
    )
