"""Large bodies, taken into a spool as fast as they come, while every other request is answered at once.

The event loop only collects what arrives. Each full batch is hashed and written by one call in a thread, with the
interpreter's lock released, while the next batch arrives; a client that sends faster waits, so memory does not grow with
a body. These threads are as few as there are processors: `/health` does not wait behind them. (Giving them a lower priority
cost a busy machine half of the throughput and won nothing for `/health`.)
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Final, ParamSpec, TypeVar

from contracts.limits import RECEIVED_BATCH_BYTES, REGISTRATIONS_AT_ONCE

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from contracts.errors import RuntimeFault
    from runtime.store.spool import Spool

Arguments = ParamSpec("Arguments")
Answer = TypeVar("Answer")

_writers: Final = ThreadPoolExecutor(os.cpu_count() or 1, "receive")
_registrars: Final = ThreadPoolExecutor(REGISTRATIONS_AT_ONCE, "register")


async def aside(work: Callable[Arguments, Answer], /, *arguments: Arguments.args, **named: Arguments.kwargs) -> Answer:
    """What `work` answers, called in one of the threads for long work."""
    return await asyncio.get_running_loop().run_in_executor(_registrars, partial(work, *arguments, **named))


@contextlib.asynccontextmanager
async def received(
    make: Callable[[], Spool], body: AsyncIterator[bytes], *, max_bytes: int, too_large: Callable[[], RuntimeFault]
) -> AsyncIterator[Spool]:
    """A spool with all of `body`, for the block; afterwards, and whatever happens before, nothing is left of it.

    Args:
        make: makes the empty spool.
        body: what arrives; what it says about its length is not asked.
        max_bytes: the most that is taken.
        too_large: the error for a longer body, which is not read to its end.

    Raises:
        StorageRefusedError: this machine's disk is full, or refuses.
    """
    spool = await aside(make)
    try:
        await _receive(body, spool, max_bytes, too_large)
        yield spool
    finally:
        await aside(spool.discard)  # a large file takes a while to go


async def _receive(
    body: AsyncIterator[bytes], spool: Spool, max_bytes: int, too_large: Callable[[], RuntimeFault]
) -> None:
    loop = asyncio.get_running_loop()
    writing: asyncio.Future[None] | None = None
    batch: list[bytes] = []
    batch_bytes = total_bytes = 0
    async for piece in body:
        total_bytes += len(piece)
        if total_bytes > max_bytes:
            raise too_large()
        batch.append(piece)
        batch_bytes += len(piece)
        if batch_bytes >= RECEIVED_BATCH_BYTES:
            if writing is not None:
                await writing
            writing = loop.run_in_executor(_writers, _write, spool, batch)
            writing.add_done_callback(_note_end)
            batch, batch_bytes = [], 0
    if writing is not None:
        await writing
    await loop.run_in_executor(_writers, _write, spool, batch)


def _note_end(written: asyncio.Future[None]) -> None:
    """Whoever left before its end, since the body did not come to one, need not know how it ended."""
    if not written.cancelled():
        written.exception()


def _write(spool: Spool, batch: list[bytes]) -> None:
    """One piece, so that the interpreter's lock is asked for twice and not for every network packet."""
    spool.write(b"".join(batch))
