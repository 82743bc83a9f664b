"""How executions stand, told to any number of waiting requests by one look at the ledger a second."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from anyio import to_thread

from contracts.errors import RuntimeFault

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Collection, Mapping

    from runtime.ledger.records import Standing

LOOK_SECONDS: Final = 1.0

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class Watched:
    """One execution that somebody waits for.

    Attributes:
        standing: as the ledger said last; `None` before it said anything.
        ended: set once it has ended.
        watchers: how many wait for it.
    """

    standing: Standing | None = None
    ended: asyncio.Event = field(default_factory=asyncio.Event)
    watchers: int = 0


class Watch:
    """Looks after every execution that a request waits for, for all of them at once.

    Args:
        look: answers how executions stand, by id; those that there are not have no entry. Called in a thread.
    """

    def __init__(self, look: Callable[[Collection[str]], Mapping[str, Standing]]) -> None:
        self._look = look
        self._watched: dict[str, Watched] = {}
        self._looking: asyncio.Task[None] | None = None

    @contextlib.asynccontextmanager
    async def on(self, execution_id: str) -> AsyncIterator[Watched]:
        """While the block lasts, what the ledger says of the execution. A ledger that is away says nothing new."""
        watched = self._watched.setdefault(execution_id, Watched())
        watched.watchers += 1
        if self._looking is None:
            self._looking = asyncio.get_running_loop().create_task(self._look_on())
        try:
            yield watched
        finally:
            watched.watchers -= 1
            if not watched.watchers:
                del self._watched[execution_id]

    async def _look_on(self) -> None:
        try:
            while self._watched:
                await self._look_once()
                await asyncio.sleep(LOOK_SECONDS)
        finally:
            self._looking = None

    async def _look_once(self) -> None:
        wanted = [execution_id for execution_id, watched in self._watched.items() if not watched.ended.is_set()]
        if not wanted:
            return
        try:
            found = await to_thread.run_sync(self._look, wanted)
        except RuntimeFault as fault:
            _log.warning("how executions stand cannot be seen: %s", fault.message)
            return
        for execution_id, standing in found.items():
            watched = self._watched.get(execution_id)
            if watched is not None:
                watched.standing = standing
                if standing.ended:
                    watched.ended.set()
