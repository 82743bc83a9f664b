"""The ASGI application, made from its parts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

from runtime.installation import Installation
from runtime.live_installation import Fixed
from runtime.provenance import product_version
from services.api import (
    admission,
    archives,
    contracts,
    events,
    executions,
    health,
    metrics,
    models,
    page,
    readiness,
    registrations,
    uploads,
)
from services.api.access import TokenGate
from services.api.bounds import Bounds
from services.api.ending import Ending
from services.api.failures import install_failures
from services.api.openapi import DescribedApplication

if TYPE_CHECKING:
    from starlette.types import ASGIApp

    from runtime.live_installation import Source

_ROUTERS: Final = (
    page.router,
    health.router,
    readiness.router,
    metrics.router,
    contracts.router,
    admission.router,
    archives.router,
    registrations.router,
    uploads.router,
    executions.router,
    events.router,
    models.router,
)


class Carrier(Protocol):
    """Who carries executions out, once they are recorded."""

    def wake(self, execution_id: str | None = None) -> None:
        """Afterwards it knows that there is something to carry out."""
        ...


def create_application(
    here: Installation | Source, *, dispatcher: Carrier | None = None, consumes: bool = False
) -> ASGIApp:
    """The HTTP API of an installation.

    Args:
        here: what answers; a `Source` follows the platform's settings.
        dispatcher: is told of every execution that was accepted; without one they wait in the ledger for that of
            another process.
        consumes: whether this process consumes submissions from the broker, as `/health` says it.
    """
    application = DescribedApplication(
        title="Model Training Runtime",
        version=product_version(),
        description="Runs versioned training packages: a package in, a registered ONNX model out.",
        docs_url=None,  # its page would load programs from a public network
        redoc_url=None,
        redirect_slashes=False,  # behind a proxy it would send a client, and its token, to an address without TLS
    )
    source: Source = Fixed(here) if isinstance(here, Installation) else here
    application.state.source = source
    application.state.dispatcher = dispatcher
    application.state.consumes = consumes
    application.state.traffic = metrics.Traffic()
    install_failures(application)
    for router in _ROUTERS:
        application.include_router(router)
    # Added last stands first: what is counted includes what the gate and the bounds refuse.
    application.add_middleware(TokenGate, source=source)
    application.add_middleware(Bounds)
    application.add_middleware(Ending)
    application.add_middleware(metrics.TrafficCount, traffic=application.state.traffic)
    return application
