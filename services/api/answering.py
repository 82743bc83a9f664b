"""What requests about executions share in one application: who looks at the ledger for them, and the threads they read in."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Annotated

from fastapi import Depends, Request

from contracts.limits import DOWNLOADS_READ_AT_ONCE, JOURNALS_READ_AT_ONCE
from runtime.store.downloads import Downloads
from services.api.dependencies import Here
from services.api.streams import Threads
from services.api.watching import Watch

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from runtime.ledger import Standing
    from runtime.live_installation import Source
    from runtime.store.objects import ObjectStore


class Answering:
    """Made once an application, when it is first asked for.

    Attributes:
        watch: tells how executions stand.
        downloading: threads that read objects.
        reading: threads that read journals.
    """

    def __init__(self, source: Source) -> None:
        self.watch = Watch(partial(_look, source))
        self.downloading = Threads(DOWNLOADS_READ_AT_ONCE)
        self.reading = Threads(JOURNALS_READ_AT_ONCE)
        self._downloads: tuple[ObjectStore, Downloads] | None = None

    def downloads(self, store: ObjectStore) -> Downloads:
        """What gives out the objects of `store`: the same for as long as the settings name the same store."""
        if self._downloads is None or self._downloads[0] is not store:
            self._downloads = (store, Downloads(store))
        return self._downloads[1]


def _look(source: Source, execution_ids: Collection[str]) -> Mapping[str, Standing]:
    return source.current().ledger.standings(execution_ids)


async def _answering(request: Request) -> Answering:
    state = request.app.state
    if not hasattr(state, "answering"):
        state.answering = Answering(state.source)
    made: Answering = state.answering
    return made


async def _address(request: Request, here: Here) -> str:
    return here.settings.base_url.rstrip("/") or str(request.base_url).rstrip("/")


Address = Annotated[str, Depends(_address)]
"""The API's own address as its clients reach it, without a slash at its end."""

Shared = Annotated[Answering, Depends(_answering)]
