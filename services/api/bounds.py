"""What one request may cost before anybody has looked at it: its headers, its body, and how long it takes to come.

`Content-Length` is not believed: bytes are counted as they come. Where a handler streams its body, it has a bound of its own,
and this one only sees to it that the bytes keep coming.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import time
from typing import TYPE_CHECKING, Final

from starlette.requests import ClientDisconnect

from contracts.errors import HeadersTooLargeError, RequestTimeoutError, RequestTooLargeError
from contracts.limits import (
    MAX_HEADER_BYTES,
    MAX_JSON_BODY_BYTES,
    REQUEST_ALLOWANCE_SECONDS,
    REQUEST_SLOWEST_BYTES_PER_SECOND,
)
from services.api.failures import failure_response

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

_STREAMED: Final = re.compile(
    r"/v1/registrations/.+|/v1/uploads/[^/]+/content|/v1/(?:model-)?packages/archive/.+|/v1/contracts/dataset-.+"
)
"""Paths whose handlers take their body piece by piece, each with a limit of its own."""


class Bounds:
    """Middleware: no request is larger or slower than the limits."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """As an ASGI application."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        header_bytes = sum(len(name) + len(value) + 4 for name, value in scope["headers"])
        header_bytes += len(scope.get("query_string", b"")) + len(scope.get("raw_path") or b"")
        if header_bytes > MAX_HEADER_BYTES:
            await failure_response(headers_too_large(header_bytes))(scope, receive, send)
            return
        most = None if _STREAMED.fullmatch(scope["path"]) else MAX_JSON_BODY_BYTES
        # Who left before the body had come wants no answer, and nothing of ours failed.
        with contextlib.suppress(ClientDisconnect):
            await self._app(scope, _Body(receive, most), send)


class _Body:
    """The request's body as it comes, in time and within its bound."""

    def __init__(self, receive: Receive, most: int | None) -> None:
        self._receive, self._most = receive, most
        self._size = 0
        self._ends = False
        self._began_at = time.monotonic()

    async def __call__(self) -> Message:
        """The next message.

        Raises:
            RequestTooLargeError: more came than is taken; the rest is not read.
            RequestTimeoutError: it came too slowly.
        """
        if self._ends:  # what is left to come is the client's leaving
            return await self._receive()
        allowed = REQUEST_ALLOWANCE_SECONDS + self._size / REQUEST_SLOWEST_BYTES_PER_SECOND
        left = self._began_at + allowed - time.monotonic()
        try:
            async with asyncio.timeout(max(0.0, left)):
                message = await self._receive()
        except TimeoutError:
            self._ends = True
            raise _too_slow(self._size) from None
        if message["type"] == "http.request":
            self._size += len(message.get("body", b""))
            self._ends = not message.get("more_body", False)
            if self._most is not None and self._size > self._most:
                self._ends = True
                raise _too_large(self._most)
        else:
            self._ends = True
        return message


def headers_too_large(size: int) -> HeadersTooLargeError:
    """The refusal of a request whose address and headers have `size` bytes, or more."""
    return HeadersTooLargeError(
        f"the request's address and headers have {size} bytes, the limit is {MAX_HEADER_BYTES}",
        hint="Send fewer or shorter headers, and long values in the body.",
        context={"limit_bytes": MAX_HEADER_BYTES},
    )


def _too_large(most: int) -> RequestTooLargeError:
    return RequestTooLargeError(
        f"the body has more than {most} bytes, the limit here",
        hint="Send the document alone; archives and data sets go to /v1/registrations or /v1/uploads.",
        context={"limit_bytes": most},
    )


def _too_slow(size: int) -> RequestTimeoutError:
    return RequestTimeoutError(
        f"the body came too slowly: {size} bytes so far",
        hint=f"Send it again, faster than {REQUEST_SLOWEST_BYTES_PER_SECOND} bytes a second.",
        context={"received_bytes": size},
    )
