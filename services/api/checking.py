"""Bodies that are checked and not kept: small ones at once, large ones beside this process."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Final

from anyio import to_thread
from fastapi import Response
from fastapi.responses import StreamingResponse

from contracts.errors import RequestTooLargeError
from contracts.limits import CHECKED_HERE_BYTES
from services.api.apart import answered_apart, pieces
from services.api.checks import CHECKS
from services.api.receiving import received

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from fastapi import Request

    from runtime.installation import Installation

_one_large_document: Final = asyncio.Lock()
"""A document of half a million items takes gigabytes of memory while it is checked: one after the other."""


async def checked(request: Request, here: Installation, name: str, most: int) -> Response:
    """The answer of the check `name` to the request's body.

    Args:
        request: whose body has not been read.
        here: where a large body lies while it is checked.
        name: a key of `CHECKS`.
        most: the longest body that is taken, in bytes.

    Raises:
        RequestTooLargeError: it has more than `most` bytes; the rest is not read.
        RuntimeFault: what the check refuses it for.
    """
    body = request.stream()
    parts, size = [], 0
    async for part in body:
        parts.append(part)
        size += len(part)
        if size > CHECKED_HERE_BYTES:
            break
    else:
        answer = await to_thread.run_sync(CHECKS[name], b"".join(parts))
        return Response(answer, media_type="application/json")
    whole = _joined(parts, body)
    del parts
    async with (
        received(here.store.spool, whole, max_bytes=most, too_large=partial(_too_large, most)) as document,
        _one_large_document,
    ):
        told = await answered_apart(request, "services.api.checks", [name], document.path)
    return Response() if told is None else StreamingResponse(pieces(told), media_type="application/json")


async def _joined(parts: list[bytes], rest: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    while parts:
        yield parts.pop(0)
    async for part in rest:
        yield part


def _too_large(most: int) -> RequestTooLargeError:
    return RequestTooLargeError(
        f"the document has more than {most} bytes, the limit here",
        hint="Register a data set of this size at /v1/registrations/dataset-snapshots, which checks it as well.",
        context={"limit_bytes": most},
    )
