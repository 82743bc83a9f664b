"""What is told to whoever still waits for an answer when the server has waited long enough for its own end."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from contracts.errors import ServiceEndingError
from services.api.failures import failure_response

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send


class Ending:
    """Middleware: a request that the server breaks off because it ends is refused like any other, if there is still time.

    An answer that was begun cannot be taken back: its connection is closed short of its end.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """As an ASGI application."""
        begun = False

        async def note_begin(message: Message) -> None:
            nonlocal begun
            begun = True
            await send(message)

        try:
            await self._app(scope, receive, note_begin)
        except asyncio.CancelledError:  # the server's own doing: who leaves ends what waits for him, not his request
            if not begun:
                await failure_response(_ending())(scope, receive, send)


def _ending() -> ServiceEndingError:
    return ServiceEndingError(
        "the API ends, and this request had no answer yet",
        hint="Send the same request again; what was accepted goes on meanwhile.",
    )
