"""An execution's journal as server-sent events: from any position, as it is written, to the execution's end.

Nobody's reading costs another's: a follower that waits costs a look at the file's size four times a second, one that reads a
page at a time in a thread, and no page is read before the last one went out, so slow readers hold one page.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import socket
import time
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import orjson
from starlette.responses import Response

from contracts.limits import FOLLOW_HEARTBEAT_SECONDS, FOLLOW_POLL_SECONDS
from runtime.execution.journal_pages import read_page
from services.api.streams import while_connected

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator
    from pathlib import Path

    from starlette.types import Receive, Scope, Send

    from runtime.execution.journal_pages import Page
    from runtime.ledger.records import Standing
    from services.api.streams import Threads
    from services.api.watching import Watch, Watched

END_ID: Final = "end"
"""The id of the last event: a client that comes back with it has everything."""
LAST_WORDS_SECONDS: Final = 2.0
"""After its end an execution still says how its last stage went; a process that was killed says nothing more."""

_NAME: Final = re.compile(r"[a-z][a-z_]{0,63}")
_HEARTBEAT: Final = b": nothing new\n\n"


class Follower:
    """One client's way through a journal.

    Args:
        execution_id: whose journal.
        path: where it is, or will be.
        position: 0, or the id of the last event that the client has.
        watch: says when the execution has ended.
        threads: where journals are read.
    """

    def __init__(self, execution_id: str, path: Path, position: int, watch: Watch, threads: Threads) -> None:
        self._execution_id, self._path, self._position = execution_id, path, position
        self._watch, self._threads = watch, threads
        self._seen_bytes = -1
        self._last_stage_told = False

    async def events(self) -> AsyncGenerator[bytes, None]:
        """Events in the wire form of server-sent events; the last one is `end`."""
        yield b"retry: 2000\n\n"  # milliseconds; and whoever follows knows at once that it is heard
        told_at, ended_at, told_where = time.monotonic(), None, False
        async with self._watch.on(self._execution_id) as watched:
            while True:
                ended = watched.ended.is_set()  # before the look: what was written before the end is told before it
                page = await self._next_page()
                if page is not None and page.entries:
                    yield b"".join(self._event(at, entry) for at, entry in page.entries)
                    told_at = time.monotonic()
                if page is not None and page.more:
                    continue
                standing = watched.standing
                if standing is not None and not told_where and (said := self._elsewhere(standing)):
                    yield said
                    told_where, told_at = True, time.monotonic()
                if ended and standing is not None:
                    ended_at = ended_at or time.monotonic()
                    if self._said_all(standing, ended_at):
                        yield _end(self._execution_id, standing)
                        return
                if time.monotonic() - told_at >= FOLLOW_HEARTBEAT_SECONDS:
                    yield _HEARTBEAT
                    told_at = time.monotonic()
                await _wait(watched, ended=ended)

    async def _next_page(self) -> Page | None:
        try:
            size = os.stat(self._path).st_size  # noqa: PTH116 - a look at a local file costs less than a thread
        except OSError:
            return None
        if size == self._seen_bytes or size <= self._position:
            return None
        page = await self._threads.run(partial(read_page, self._path, self._position))
        self._position = page.position
        if not page.more:
            self._seen_bytes = size  # what is behind the position is half a line: nothing to read before it grows
        return page

    def _event(self, position: int, entry: dict[str, Any]) -> bytes:
        if (
            entry.get("kind") == "stage"
            and entry.get("stage") == "publish_outcome"
            and entry.get("state") == "completed"
        ):
            self._last_stage_told = True
        return event(str(entry.get("kind")), str(position), entry)

    def _said_all(self, standing: Standing, seen_at: float) -> bool:
        if self._last_stage_told or standing.ended_at is None:
            return True
        since_end = time.time() - standing.ended_at.timestamp()
        return since_end > LAST_WORDS_SECONDS or time.monotonic() - seen_at > LAST_WORDS_SECONDS

    def _elsewhere(self, standing: Standing) -> bytes | None:
        """An event that says why nothing is told here of an execution that did run."""
        if self._path.exists() or standing.stage is None:
            return None
        host = standing.owner_host
        if not standing.ended and (host is None or host == socket.gethostname()):
            return None  # its first line is about to be written
        where = f"on {host}" if host else "on the machine that carried it out, or was removed"
        message = (
            f"the journal of this execution is not on this machine but {where}; its state is told here all the same"
        )
        return event("elsewhere", None, {"kind": "elsewhere", "host": host, "message": message})


def event(name: str, identity: str | None, data: dict[str, Any]) -> bytes:
    """One event. Its data is one line whatever it says: JSON escapes what could end a line."""
    named = name if _NAME.fullmatch(name) else "entry"
    head = f"id: {identity}\nevent: {named}\n" if identity is not None else f"event: {named}\n"
    return head.encode() + b"data: " + orjson.dumps(data) + b"\n\n"


def _end(execution_id: str, standing: Standing) -> bytes:
    said = {"kind": "end", "execution_id": execution_id, "state": standing.state, "error": standing.error}
    return event("end", END_ID, said)


async def _wait(watched: Watched, *, ended: bool) -> None:
    if ended:
        await asyncio.sleep(FOLLOW_POLL_SECONDS)
        return
    try:
        async with asyncio.timeout(FOLLOW_POLL_SECONDS):
            await watched.ended.wait()
    except TimeoutError:
        return


class EventStream(Response):
    """Server-sent events, until they end or the client leaves."""

    media_type = "text/event-stream"

    def __init__(self, events: AsyncGenerator[bytes, None]) -> None:
        self._events = events
        super().__init__(headers={"cache-control": "no-store", "x-accel-buffering": "no"})
        self.raw_headers = [(name, value) for name, value in self.raw_headers if name != b"content-length"]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """As an ASGI application."""
        del scope
        await while_connected(receive, partial(self._send, send))

    async def _send(self, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        async with contextlib.aclosing(self._events) as events:
            async for piece in events:
                await send({"type": "http.response.body", "body": piece, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})
