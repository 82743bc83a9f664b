"""What answers of any length share: few threads of their own to read in, and an end as soon as the client leaves."""

from __future__ import annotations

from typing import TYPE_CHECKING

import anyio
from anyio import to_thread

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from typing import TypeVar

    from starlette.types import Receive

    Answer = TypeVar("Answer")


class Threads:
    """At most so many threads, and none of those that other requests need: a store that hangs holds up downloads only."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._limiter: anyio.CapacityLimiter | None = None

    async def run(self, work: Callable[[], Answer]) -> Answer:
        """What `work` answers, called in one of the threads."""
        if self._limiter is None:  # made within the event loop that uses it
            self._limiter = anyio.CapacityLimiter(self._most)
        return await to_thread.run_sync(work, limiter=self._limiter)


async def while_connected(receive: Receive, work: Callable[[], Awaitable[None]]) -> None:
    """Calls `work`, which is cancelled where it waits when the client leaves. The request's body must have been read."""
    async with anyio.create_task_group() as tasks:

        async def end_when_the_client_leaves() -> None:
            while (await receive())["type"] != "http.disconnect":
                pass
            tasks.cancel_scope.cancel()

        tasks.start_soon(end_when_the_client_leaves)
        await work()
        tasks.cancel_scope.cancel()
