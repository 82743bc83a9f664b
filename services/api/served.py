"""The application as a server's whole life: opened with it, closed with it."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from anyio import to_thread

from runtime.settings import load_settings
from services import orchestrator
from services.api.application import create_application
from services.orchestrator.dispatcher import Dispatcher

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send


class ServedApplication:
    """An ASGI application that opens the served installation when its server starts, and closes it when that ends.

    Settings that are wrong end the start, with the error that names them.
    """

    def __init__(self) -> None:
        self._application: ASGIApp | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """As an ASGI application; the server must speak the lifespan protocol, as uvicorn does."""
        if scope["type"] != "lifespan":
            assert self._application is not None, "the server did not start the application"  # noqa: S101 - a server's defect
            await self._application(scope, receive, send)
            return
        with contextlib.ExitStack() as held:
            await receive()
            try:
                self._application = await to_thread.run_sync(_open, held)
            except Exception as error:
                await send({"type": "lifespan.startup.failed", "message": str(error)})
                raise
            await send({"type": "lifespan.startup.complete"})
            await receive()
            await to_thread.run_sync(held.close)
            await send({"type": "lifespan.shutdown.complete"})


def _open(held: contextlib.ExitStack) -> ASGIApp:
    source = held.enter_context(orchestrator.open_source(load_settings(served=True)))
    dispatcher = held.enter_context(Dispatcher(source.current()))
    return create_application(source, dispatcher=dispatcher)
