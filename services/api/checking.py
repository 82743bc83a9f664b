"""Bodies that are checked and not kept: small ones at once, large ones beside this process."""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
import sys
import tempfile
from functools import partial
from typing import IO, TYPE_CHECKING, Final

from anyio import to_thread
from fastapi import Response
from fastapi.responses import StreamingResponse

from contracts import strict_json
from contracts.errors import RequestTooLargeError, fault_from_document
from contracts.limits import CHECKED_HERE_BYTES
from services.api.checks import CHECKS, REFUSED
from services.api.receiving import aside, received
from services.api.streams import while_connected

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path

    from fastapi import Request

    from runtime.installation import Installation

_one_large_document: Final = asyncio.Lock()
"""A document of half a million items takes gigabytes of memory while it is checked: one after the other."""
_CHUNK_BYTES: Final = 256 * 1024


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
        return await _checked_apart(request, document.path, name)


async def _checked_apart(request: Request, document: Path, name: str) -> Response:
    """As `checked`, by a process that ends when the client leaves."""
    answer = await aside(_unnamed_file, document.parent)
    status: int | None = None

    async def work() -> None:
        nonlocal status
        status = await _ended(await aside(_start, name, document, answer))

    with contextlib.ExitStack() as held:
        held.callback(answer.close)
        await while_connected(request.receive, work)
        if status == REFUSED:
            raise fault_from_document(strict_json.parse(await aside(_whole, answer)))
        if status not in {0, None}:  # None: the client has left
            raise RuntimeError(f"the check of a {name} document ended with {status}")
        held.pop_all()
    return StreamingResponse(_pieces(answer), media_type="application/json")


def _unnamed_file(folder: Path) -> IO[bytes]:
    """A file of which nothing is left, whoever is killed."""
    return tempfile.TemporaryFile(dir=folder)


def _start(name: str, document: Path, answer: IO[bytes]) -> subprocess.Popen[bytes]:
    with document.open("rb") as content:
        return subprocess.Popen([sys.executable, "-m", "services.api.checks", name], stdin=content, stdout=answer)


async def _ended(process: subprocess.Popen[bytes]) -> int:
    """Its exit status; it is killed when nobody waits for it any more."""
    try:
        return await to_thread.run_sync(process.wait, abandon_on_cancel=True)
    finally:
        process.kill()


def _whole(answer: IO[bytes]) -> bytes:
    answer.seek(0)
    return answer.read()


def _pieces(answer: IO[bytes]) -> Iterator[bytes]:
    with answer:
        answer.seek(0)
        while piece := answer.read(_CHUNK_BYTES):
            yield piece


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
