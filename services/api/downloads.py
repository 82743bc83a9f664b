"""Stored objects over HTTP: whole or in part, and an answer that ends cleanly only when every byte was right."""

from __future__ import annotations

import base64
import logging
import re
from functools import partial
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

import anyio
from starlette.responses import Response

from contracts.errors import NotFoundError, ObjectMissingError, RangeNotSatisfiableError, RuntimeFault
from services.api.failures import Refusal, failure_response
from services.api.streams import while_connected

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from starlette.requests import Request
    from starlette.types import Receive, Scope, Send

    from contracts.references import Pinned
    from runtime.store.downloads import Downloads
    from services.api.streams import Threads

_log = logging.getLogger(__name__)

_RANGE: Final = re.compile(r"bytes=(\d{0,20})-(\d{0,20})", re.ASCII)
_ETAGS: Final = re.compile(r'(?:W/)?"([^"]*)"')

DOWNLOAD_HEADERS: Final[dict[str, Any]] = {
    "ETag": {"description": "The object's SHA-256, quoted.", "schema": {"type": "string"}},
    "Content-Disposition": {"description": "A safe file name.", "schema": {"type": "string"}},
    "Accept-Ranges": {"schema": {"type": "string", "enum": ["bytes"]}},
}
DOWNLOAD_ANSWERS: Final[dict[int | str, dict[str, Any]]] = {
    200: {
        "description": "The bytes. The connection is broken off, never ended cleanly, where they are not the pinned ones.",
        "content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}},
        "headers": DOWNLOAD_HEADERS,
    },
    206: {
        "description": "The part that `Range` asked for.",
        "content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}},
        "headers": DOWNLOAD_HEADERS,
    },
    304: {"description": "`If-None-Match` names this very object."},
    416: {"model": Refusal, "description": "`Range` begins behind the last byte; `Content-Range` says where that is."},
}


async def offer(request: Request, downloads: Downloads, threads: Threads, pinned: Pinned, file_name: str) -> Response:
    """The answer to a request for a stored object.

    1. `If-None-Match` is answered without asking the store: the digest says what the object is.
    2. One range is honoured, on the condition of `If-Range`; several, or what is none, mean the whole object, as HTTP allows.
    3. The store is asked for the object before the status goes out.

    Raises:
        NotFoundError: the store has lost it.
        DigestMismatchError: it has another size than was pinned.
        StorageUnavailableError: the store does not answer.
    """
    etag = f'"{pinned.sha256}"'
    headers = {
        "etag": etag,
        "accept-ranges": "bytes",
        "cache-control": "private, no-cache",
        "content-disposition": disposition(file_name),
        "x-content-type-options": "nosniff",
        "repr-digest": f"sha-256=:{base64.b64encode(bytes.fromhex(pinned.sha256)).decode()}:",
    }
    if _names(request.headers.get("if-none-match"), pinned.sha256):
        return Response(status_code=304, headers=headers)
    start, stop, status = 0, pinned.size_bytes, 200
    condition = request.headers.get("if-range")
    wanted = request.headers.get("range")
    if wanted is not None and (condition is None or condition == etag):
        part = read_range(wanted, pinned.size_bytes)
        if part is not None:
            if part.start >= part.stop:
                return _unsatisfiable(wanted, pinned.size_bytes)
            start, stop, status = part.start, part.stop, 206
            headers["content-range"] = f"bytes {start}-{stop - 1}/{pinned.size_bytes}"
    try:
        pieces = await threads.run(partial(downloads.open, pinned, start, stop))
    except ObjectMissingError as error:
        raise NotFoundError(
            f"{file_name} is recorded here, but {error.message}",
            hint="Somebody removed it from the store: restore it from a backup.",
            context=error.context,
        ) from error
    headers["content-length"] = str(stop - start)
    if request.method == "HEAD":
        return Response(status_code=status, headers=headers, media_type="application/octet-stream")
    return Download(pieces, threads, status_code=status, headers=headers)


def read_range(header: str, size_bytes: int) -> range | None:
    """The bytes that a `Range` header asks for, cut to what there is, empty where it asks for nothing that there is.

    `None` where the header must be ignored: several ranges, another unit, or no range at all.
    """
    found = _RANGE.fullmatch(header.strip())
    if found is None:
        return None
    first, last = found.groups()
    if not first:
        return range(max(0, size_bytes - int(last)), size_bytes) if last else None
    if last and int(last) < int(first):
        return None
    return range(int(first), min(size_bytes, int(last) + 1) if last else size_bytes)


def disposition(file_name: str) -> str:
    """A `Content-Disposition` that lets every client save the file under its name, whatever the name holds."""
    name = file_name.replace("\\", "/").rpartition("/")[2]
    name = "".join(letter for letter in name if letter.isprintable()).lstrip(".") or "file"
    plain = "".join(letter if letter.isascii() and (letter.isalnum() or letter in "._- ") else "_" for letter in name)
    encoded = "" if plain == name else f"; filename*=UTF-8''{quote(name, safe='')}"
    return f'attachment; filename="{plain}"{encoded}'


class Download(Response):
    """Sends pieces as they are read and verified; on a fault the connection ends before the announced length.

    A client that leaves ends the reading with the piece that is being read.
    """

    media_type = "application/octet-stream"

    def __init__(self, pieces: Iterator[bytes], threads: Threads, status_code: int, headers: Mapping[str, str]) -> None:
        self._pieces, self._threads = pieces, threads
        self.status_code = status_code
        self.background = None
        self.body = b""
        self.init_headers(headers)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """As an ASGI application."""
        del scope
        try:
            await while_connected(receive, partial(self._send, send))
        finally:
            with anyio.CancelScope(shield=True):
                await self._threads.run(self._close)

    async def _send(self, send: Send) -> None:
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        try:
            while (piece := await self._threads.run(partial(next, self._pieces, None))) is not None:
                await send({"type": "http.response.body", "body": piece, "more_body": True})
        except RuntimeFault as fault:
            # Without the last message the server closes the connection short of the announced length.
            _log.error("a download was broken off: %s %s", fault.message, fault.hint)
            return
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    def _close(self) -> None:
        close = getattr(self._pieces, "close", None)
        if close is not None:
            close()


def _names(header: str | None, sha256: str) -> bool:
    """Whether `If-None-Match` names the object."""
    return header is not None and (header.strip() == "*" or sha256 in _ETAGS.findall(header))


def _unsatisfiable(wanted: str, size_bytes: int) -> Response:
    answer = failure_response(
        RangeNotSatisfiableError(
            f"there is nothing at {wanted[:100]}: the object has {size_bytes} bytes",
            hint="Ask for bytes that it has, or leave Range out.",
            context={"size_bytes": size_bytes},
        )
    )
    answer.headers["content-range"] = f"bytes */{size_bytes}"
    return answer
