"""What a connection may cost before it has sent a request: plain sockets against a server as `mtr serve` starts it."""

from __future__ import annotations

import json
import socket
import threading
from typing import TYPE_CHECKING

import pytest
import uvicorn

from contracts.limits import MAX_HEADER_BYTES
from services.http_server import configuration

if TYPE_CHECKING:
    from collections.abc import Iterator

    from starlette.types import Receive, Scope, Send

WAIT_SECONDS = 30.0
IDLE_SECONDS = 0.3


async def echo(scope: Scope, receive: Receive, send: Send) -> None:
    """Answers what it got; a request for /refused before it reads the body."""
    if scope["type"] == "lifespan":
        await receive()
        await send({"type": "lifespan.startup.complete"})
        await receive()
        await send({"type": "lifespan.shutdown.complete"})
        return
    body, more = b"", scope["path"] != "/refused"
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            return
        body += message.get("body", b"")
        more = message["more_body"]
    said = json.dumps({"method": scope["method"], "body": body.decode()}).encode()
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"%d" % len(said))]})
    await send({"type": "http.response.body", "body": said})


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    config = configuration(echo)
    config.timeout_keep_alive = IDLE_SECONDS  # type: ignore[assignment] - seconds; uvicorn adds them to a clock
    server = uvicorn.Server(config)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=server.run, args=([listening],))
        thread.start()
        yield listening.getsockname()[1]
        server.should_exit = True
        thread.join(WAIT_SECONDS)


def answer_to(port: int, *pieces: bytes) -> bytes:
    """All that comes until the server closes the connection, however it does."""
    said = b""
    with socket.create_connection(("127.0.0.1", port), timeout=WAIT_SECONDS) as client:
        try:
            for piece in pieces:
                client.sendall(piece)
            while received := client.recv(65536):
                said += received
        except ConnectionError:
            pass
    return said


def body_of(answer: bytes) -> dict[str, str]:
    """The document of the answer."""
    document: dict[str, str] = json.loads(answer.partition(b"\r\n\r\n")[2])
    return document


def test_a_head_without_an_end_is_refused_where_its_limit_is(port) -> None:
    said = answer_to(port, b"GET / HTTP/1.1\r\nX: " + b"a" * MAX_HEADER_BYTES)

    assert said.startswith(b"HTTP/1.1 431 Request Header Fields Too Large\r\n")
    assert body_of(said)["code"] == "headers_too_large"


def test_a_second_head_on_a_connection_is_bound_like_the_first(port) -> None:
    first = b"GET / HTTP/1.1\r\n\r\n"
    with socket.create_connection(("127.0.0.1", port), timeout=WAIT_SECONDS) as client:
        client.sendall(first)
        client.recv(65536)
        client.sendall(b"GET / HTTP/1.1\r\nX: " + b"a" * MAX_HEADER_BYTES)

        assert client.recv(65536).startswith(b"HTTP/1.1 431 ")


def test_trailers_without_an_end_close_the_connection(port) -> None:
    head = b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n"

    assert answer_to(port, head, b"X: aaaaaaaaaaaa\r\n" * MAX_HEADER_BYTES) == b""


def test_a_long_body_is_no_head(port) -> None:
    body = b"a" * 4 * MAX_HEADER_BYTES
    head = b"POST / HTTP/1.1\r\nConnection: close\r\nContent-Length: %d\r\n\r\n" % len(body)

    assert len(body_of(answer_to(port, head, body))["body"]) == len(body)


@pytest.mark.parametrize("begun", [b"", b"GET / HTT", b"GET / HTTP/1.1\r\nX: a"])
def test_whoever_sends_no_whole_head_is_not_waited_for(port, begun) -> None:
    assert answer_to(port, begun) == b""


def test_whoever_is_refused_and_then_sends_half_a_body_is_not_waited_for(port) -> None:
    said = answer_to(port, b"POST /refused HTTP/1.1\r\nContent-Length: 10\r\n\r\n", b"abc")

    assert body_of(said)["body"] == ""


OFFER = b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA\r\n"


@pytest.mark.parametrize(
    "framed", [b"Content-Length: 5\r\n\r\nhello", b"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"]
)
def test_a_client_that_offers_http_2_keeps_its_body(port, framed) -> None:
    assert body_of(answer_to(port, b"POST / HTTP/1.1\r\nHost: a\r\n" + OFFER + framed)) == {
        "method": "POST",
        "body": "hello",
    }


def test_a_body_may_come_after_the_head_that_offered_http_2(port) -> None:
    said = answer_to(port, b"POST / HTTP/1.1\r\n" + OFFER + b"Content-Length: 5\r\n\r\n", b"he", b"llo")

    assert body_of(said)["body"] == "hello"


def test_an_offer_without_a_body_is_a_request(port) -> None:
    assert body_of(answer_to(port, b"GET / HTTP/1.1\r\n" + OFFER + b"\r\n")) == {"method": "GET", "body": ""}


def test_requests_after_an_offer_are_answered_on_the_same_connection(port) -> None:
    with socket.create_connection(("127.0.0.1", port), timeout=WAIT_SECONDS) as client:
        client.sendall(b"GET / HTTP/1.1\r\n" + OFFER + b"\r\n")
        client.recv(65536)
        client.sendall(b"DELETE / HTTP/1.1\r\n\r\n")

        assert body_of(client.recv(65536))["method"] == "DELETE"


def test_a_tunnel_is_refused(port) -> None:
    assert answer_to(port, b"CONNECT /x HTTP/1.1\r\nHost: a\r\n\r\n").startswith(b"HTTP/1.1 400 ")
