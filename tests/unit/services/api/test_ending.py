"""Requests without an answer when the server ends, where the end comes from a test instead of a signal."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING

from services.api.ending import Ending

if TYPE_CHECKING:
    from starlette.types import Message, Receive, Scope, Send


def answer_of_one_that_is_broken_off(*first: Message) -> list[Message]:
    """What goes out when an application that sent `first` is broken off."""
    sent: list[Message] = []

    async def application(_scope: Scope, _receive: Receive, send: Send) -> None:
        for message in first:
            await send(message)
        await asyncio.Event().wait()

    async def receive() -> Message:
        raise AssertionError("nobody asks for the body")

    async def send(message: Message) -> None:
        sent.append(message)

    async def served() -> None:
        request = asyncio.create_task(Ending(application)({"type": "http"}, receive, send))
        await asyncio.sleep(0)
        request.cancel("timeout graceful shutdown exceeded")
        await request

    asyncio.run(served())
    return sent


def test_whoever_waits_is_told_to_ask_again() -> None:
    head, body = answer_of_one_that_is_broken_off()

    assert head["status"] == 503
    assert (b"retry-after", b"5") in head["headers"]
    assert json.loads(body["body"])["code"] == "service_ending"


def test_an_answer_that_was_begun_is_left_as_it_is() -> None:
    begun: Message = {"type": "http.response.start", "status": 200, "headers": []}

    assert answer_of_one_that_is_broken_off(begun) == [begun]
