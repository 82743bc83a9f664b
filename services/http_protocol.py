"""HTTP/1.1 as uvicorn speaks it, with a bound on what comes before a request is one.

What the application may refuse it hears of only when the headers are complete. Until then it is up to the connection.
"""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING

import httptools
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from contracts.limits import MAX_HEADER_BYTES
from services.api.bounds import headers_too_large
from services.api.failures import failure_response

if TYPE_CHECKING:
    import asyncio


class BoundedProtocol(HttpToolsProtocol):
    """One connection of a client.

    1. Whoever sends no whole head for as long as an idle connection may last is not waited for any longer; that a byte of it
       came now and then changes nothing.
    2. A head, or what follows a body, is not collected beyond `MAX_HEADER_BYTES`.
    3. Whoever offers another protocol besides, as Java's client does with HTTP/2, is answered in this one. The parser takes the
       offer for the end of HTTP, and would lose the body.
    """

    _uncounted_bytes = 0
    """What came since the parser told of a head, of a piece of a body, or of its end."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """As the base class; the client's time begins."""
        super().connection_made(transport)
        self._wait_for_head()

    def data_received(self, data: bytes) -> None:
        """As the base class, but for the bounds."""
        self._uncounted_bytes += len(data)
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade as stopped:
            self._go_on_without_upgrade(data[stopped.args[0] :])
        except httptools.HttpParserError:
            self.logger.warning("a connection was closed: what came is no HTTP request")
            self.send_400_response("Invalid HTTP request received.")
        else:
            if self._uncounted_bytes > MAX_HEADER_BYTES:
                self._refuse_head()

    def on_headers_complete(self) -> None:
        """As the base class; the request is the application's now."""
        if self.parser.should_upgrade():
            return  # the same head comes again, without its offer
        self._uncounted_bytes = 0
        self._unset_keepalive_if_required()
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """As the base class. Who was refused before its body came may still send it."""
        self._uncounted_bytes = 0
        if self.cycle.response_complete:
            self._wait_for_head()
        super().on_body(body)

    def on_message_complete(self) -> None:
        """As the base class."""
        if self.parser.should_upgrade():
            return
        self._uncounted_bytes = 0
        super().on_message_complete()

    def _go_on_without_upgrade(self, rest: bytes) -> None:
        """Afterwards the head was read once more, as if nothing had been offered, and `rest` behind it."""
        method, version = self.parser.get_method(), self.parser.get_http_version().encode()
        if method == b"CONNECT":  # no offer: it wants another protocol in any case
            self.send_400_response("CONNECT is not understood here.")
            return
        lines = [method + b" " + self.url + b" HTTP/" + version]
        lines += [name + b": " + value for name, value in self.headers if name != b"upgrade"]
        self.parser = httptools.HttpRequestParser(self)
        self.parser.set_dangerous_leniencies(lenient_data_after_close=True)  # as the base class
        self._uncounted_bytes = 0
        self.data_received(b"\r\n".join([*lines, b"", b""]) + rest)

    def _wait_for_head(self) -> None:
        self._unset_keepalive_if_required()
        self.timeout_keep_alive_task = self.loop.call_later(self.timeout_keep_alive, self.timeout_keep_alive_handler)

    def _refuse_head(self) -> None:
        """Afterwards the connection is closed; the client is told why, unless an answer is under way."""
        if self.cycle is None or self.cycle.response_complete:
            refused = failure_response(headers_too_large(self._uncounted_bytes))
            status = HTTPStatus(refused.status_code)
            head = [f"HTTP/1.1 {status.value} {status.phrase}".encode(), b"connection: close"]
            head += [name + b": " + value for name, value in refused.raw_headers]
            self.transport.write(b"\r\n".join([*head, b"", bytes(refused.body)]))
        self.transport.close()
