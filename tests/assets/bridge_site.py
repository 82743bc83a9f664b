"""An installation and a platform on one broker, each pair on names of its own, and the bridge between them."""

from __future__ import annotations

import contextlib
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

from runtime.installation import Installation
from runtime.live_installation import Fixed
from services.bridge import Bridge
from services.orchestrator import Dispatcher
from services.simulation import SimulatedDispatcher, Simulation
from tests.assets.executions import settings_at
from tests.assets.platform_side import Platform, require_nothing_lost_or_contradictory

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from runtime.settings import Settings
    from tests.assets.rabbitmq_server import RabbitMqServer


@dataclass
class BridgeSite:
    """Both sides.

    Attributes:
        here: the installation.
        platform: who submits and is told.
    """

    here: Installation
    platform: Platform

    @classmethod
    @contextlib.contextmanager
    def open(cls, broker: RabbitMqServer, folder: Path, **given: str) -> Iterator[Self]:
        """Both sides, connected; no bridge yet. `given` are settings of the installation."""
        settings = bridge_settings(broker, folder, **given)
        with (
            Installation.open(settings) as here,
            Platform(broker.url, exchange=settings.rabbitmq_exchange, queue=settings.rabbitmq_queue) as platform,
        ):
            yield cls(here, platform)

    @contextlib.contextmanager
    def simulated(self, outcome: str = "succeeded") -> Iterator[Bridge]:
        """While the block lasts, a bridge in this process; every execution that it records gets this outcome."""
        with (
            SimulatedDispatcher(self.here, Simulation(outcome)) as dispatcher,
            Bridge(Fixed(self.here), dispatcher) as bridge,
        ):
            yield bridge

    @contextlib.contextmanager
    def recording(self) -> Iterator[Bridge]:
        """While the block lasts, a bridge in this process; what it records stays queued."""
        with Bridge(Fixed(self.here), Dispatcher(self.here)) as bridge:
            yield bridge

    def await_all_told(self, *, seconds: float = 60) -> None:
        """Returns once nothing of the outbox is pending and the platform has heard it, and requires that it is right."""
        self.platform.wait_until(lambda: not self.here.ledger.pending_messages(limit=1), seconds=seconds)
        recorded = self.here.ledger.messages()
        ids = {one.message_id for one in recorded}
        self.platform.wait_until(lambda: {one.message_id for one in self.platform.told} >= ids, seconds=seconds)
        require_nothing_lost_or_contradictory(self.platform.told, recorded)

    def logs(self) -> list[str]:
        """The log lines that the platform was told."""
        return [one.body["log_content"] for one in self.platform.told if one.routing_key == "task.log"]


def bridge_settings(broker: RabbitMqServer, folder: Path, **given: str) -> Settings:
    """An installation on the broker whose exchange and queues nobody else uses."""
    return settings_at(folder / "home", **{**bridge_environment(broker), **given})


def bridge_environment(broker: RabbitMqServer) -> dict[str, str]:
    """The settings of such an installation."""
    names = uuid.uuid4().hex[:10]
    return {
        **broker.environment,
        "MTR_RABBITMQ_EXCHANGE": f"exchange-{names}",
        "MTR_RABBITMQ_QUEUE": f"submissions-{names}",
    }


def without(document: dict[str, Any], *fields: str) -> dict[str, Any]:
    """The document with these fields left out."""
    return {name: value for name, value in document.items() if name not in fields}
