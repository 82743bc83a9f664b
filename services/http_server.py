"""One HTTP server in this process: a port of its own, an orderly end, and a log that holds no secret."""

from __future__ import annotations

import logging
import sys
from typing import TYPE_CHECKING, Any, Final

import uvicorn

from contracts.errors import InternalError
from services.http_protocol import BoundedProtocol

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable

    from starlette.types import ASGIApp

SHUTDOWN_SECONDS: Final = 10
"""For requests that run when the server is told to end; whoever follows an execution would hold it for ever."""

KEEP_ALIVE_SECONDS: Final = 75
"""More than the minute after which proxies close idle connections: they, not we, must be the ones to close them."""

_FORMAT: Final = "%(asctime)s %(levelname)s %(name)s: %(message)s"
_OURS: Final = ("uvicorn", "mtr", "services", "runtime", "tasks", "contracts")
_TOLD_BY_THE_BRIDGE: Final = ("aiormq", "aio_pika")
"""What they have to say of a broker that is away fills pages, at each try; the bridge says it in a line."""
_PROBED: Final = ("/health", "/ready", "/metrics")
"""Asked every few seconds by machines: a line each would bury the others."""


def run(application: ASGIApp, listening: socket.socket, *, ready: Callable[[], None]) -> None:
    """Serves until SIGINT or SIGTERM, which it answers with an orderly end. Call it from the main thread.

    `X-Forwarded-…` headers are not believed: anybody can send them.

    Args:
        application: what answers.
        listening: where.
        ready: called once requests are answered.

    Raises:
        KeyboardInterrupt: it ended as it was told to.
        InternalError: the application did not start.
    """
    try:
        _Server(configuration(application), ready).run(sockets=[listening])
    except SystemExit as ended:  # how uvicorn says that the application's start failed
        raise InternalError(
            "the HTTP API did not start", hint="This is a defect of mtr: report it with the lines above."
        ) from ended


def configuration(application: ASGIApp) -> uvicorn.Config:
    """How an application is served."""
    return uvicorn.Config(
        application,
        http=BoundedProtocol,
        lifespan="on",
        ws="none",
        log_config=None,
        proxy_headers=False,
        server_header=False,
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=SHUTDOWN_SECONDS,
    )


class _Server(uvicorn.Server):
    """Says when it is ready."""

    def __init__(self, config: uvicorn.Config, ready: Callable[[], None]) -> None:
        super().__init__(config)
        self._ready = ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """As the base class."""
        await super().startup(sockets)
        if self.started:
            self._ready()


# --- what is logged --------------------------------------------------------------------------------------------------


def log_to_stderr() -> None:
    """Afterwards what a server of ours has to say goes to stderr, one line each, without the secrets of requests."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter(_FORMAT))
    for name in _OURS:
        logger = logging.getLogger(name)
        logger.handlers[:] = [handler]
        logger.setLevel(logging.INFO)
        logger.propagate = False
    access = logging.getLogger("uvicorn.access")
    access.filters[:] = [_without_secrets]
    for name in _TOLD_BY_THE_BRIDGE:
        logging.getLogger(name).setLevel(logging.CRITICAL)
    logging.getLogger("uvicorn.error").setLevel(logging.WARNING)  # its starts and ends are ours to tell


def _without_secrets(record: logging.LogRecord) -> bool:
    """Whether the line of a request is worth keeping. Afterwards it has no query, which may hold a signature."""
    given: Any = record.args
    if not isinstance(given, tuple) or len(given) != 5:
        return True
    client, method, target, version, status = given
    path = str(target).partition("?")[0]
    record.args = (client, method, path, version, status)
    return path not in _PROBED or int(status) >= 400
