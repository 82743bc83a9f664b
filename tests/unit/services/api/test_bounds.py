"""What a request may cost, where the bytes come from a test instead of a socket."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from starlette.requests import Request

from contracts.errors import RequestTimeoutError, RequestTooLargeError
from contracts.limits import MAX_JSON_BODY_BYTES
from services.api import bounds

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from starlette.types import Message, Receive, Scope, Send


def read_all(receive: Callable[[], Awaitable[Message]], path: str = "/v1/executions") -> int:
    """How many bytes a handler reads behind the bounds."""
    size = 0

    async def handler(_scope: Scope, receive: Receive, _send: Send) -> None:
        nonlocal size
        more = True
        while more:
            message = await receive()
            size += len(message["body"])
            more = message["more_body"]

    async def unheard(_message: Message) -> None:
        raise AssertionError("the bounds leave the answer to whoever reads")

    scope: dict[str, Any] = {"type": "http", "method": "POST", "path": path, "headers": []}
    asyncio.run(bounds.Bounds(handler)(scope, receive, unheard))
    return size


def test_a_body_that_trickles_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounds, "REQUEST_ALLOWANCE_SECONDS", 0.05)
    come = iter([{"type": "http.request", "body": b"x", "more_body": True}])

    async def trickle() -> Message:
        for message in come:
            return message
        await asyncio.Event().wait()
        raise AssertionError("nobody sets it")

    with pytest.raises(RequestTimeoutError, match="the body came too slowly: 1 bytes so far"):
        read_all(trickle)


def test_a_streamed_body_is_bound_by_its_handler_alone() -> None:
    come = iter([b"x" * MAX_JSON_BODY_BYTES, b"x", b""])

    async def receive() -> Message:
        body = next(come)
        return {"type": "http.request", "body": body, "more_body": body != b""}

    assert read_all(receive, "/v1/registrations/packages") == MAX_JSON_BODY_BYTES + 1


def test_another_body_ends_with_the_byte_that_is_too_many() -> None:
    come = iter([b"x" * MAX_JSON_BODY_BYTES, b"x"])

    async def receive() -> Message:
        return {"type": "http.request", "body": next(come), "more_body": True}

    with pytest.raises(RequestTooLargeError, match=f"more than {MAX_JSON_BODY_BYTES} bytes"):
        read_all(receive)


def test_whoever_leaves_before_the_body_has_come_is_no_failure() -> None:
    come = iter([{"type": "http.request", "body": b"x", "more_body": True}, {"type": "http.disconnect"}])
    reached: list[str] = []

    async def receive() -> Message:
        return next(come)

    async def handler(scope: Scope, receive: Receive, _send: Send) -> None:
        reached.append(scope["path"])
        await Request(scope, receive).body()
        raise AssertionError("there is no body")

    async def unheard(_message: Message) -> None:
        raise AssertionError("there is nobody to answer")

    scope: dict[str, Any] = {"type": "http", "method": "POST", "path": "/v1/executions", "headers": []}
    asyncio.run(bounds.Bounds(handler)(scope, receive, unheard))

    assert reached == ["/v1/executions"]
