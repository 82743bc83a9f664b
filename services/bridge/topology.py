"""The exchange and the queues that the bridge and the platform share, and what is done where they are not there yet."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from aio_pika import ExchangeType
from aio_pika import exceptions as amqp

from contracts.errors import BrokerMismatchError, InvalidSettingsError
from services.bridge.broker import mismatch_of

if TYPE_CHECKING:
    from aio_pika.abc import AbstractConnection

    from runtime.settings import Settings

Kind = Literal["queue", "exchange"]

LEGACY_QUEUE: Final = "trainer.task.queue"
"""The legacy trainer's own. Whoever took a message from it would take a training from the trainer."""


@dataclass(frozen=True, slots=True)
class Difference:
    """One argument of something on the broker that is not as the bridge would declare it.

    Attributes:
        kind: `queue` or `exchange`.
        name: which one.
        wanted: the argument as the bridge would declare it.
        found: as it is.
        harmful: whether the bridge cannot work with it.
    """

    kind: Kind
    name: str
    wanted: dict[str, str]
    found: dict[str, str]
    harmful: bool

    def __str__(self) -> str:
        pairs = (f"{name} is {self.found.get(name)}, usually {value}" for name, value in self.wanted.items())
        return f"{self.kind} {self.name}: {'; '.join(pairs)}"


@dataclass(frozen=True, slots=True)
class Topology:
    """The names on the broker.

    Attributes:
        exchange: durable, topic; submissions come by it and what the platform is told leaves by it.
        queue: where submissions wait; its name is their routing key.
    """

    exchange: str
    queue: str

    @property
    def dead_queue(self) -> str:
        """Where deliveries go that can neither be recorded nor be answered."""
        return f"{self.queue}.dead"

    @classmethod
    def of(cls, settings: Settings) -> Topology:
        """What the settings name.

        Raises:
            InvalidSettingsError: no broker is configured, or the queue is the legacy trainer's.
        """
        if not settings.rabbitmq_host:
            raise InvalidSettingsError(
                "no message broker is configured: rabbitmq_host is empty",
                hint="Set RABBITMQ_HOST, with RABBITMQ_PORT, RABBITMQ_USER and RABBITMQ_PASSWORD where they are not the defaults.",
                context={"violations": [{"path": "rabbitmq_host", "message": "is empty"}]},
            )
        if settings.rabbitmq_queue.strip() == LEGACY_QUEUE:
            raise InvalidSettingsError(
                f"rabbitmq_queue is {LEGACY_QUEUE}, which the legacy trainer consumes; the bridge never does",
                hint="Leave rabbitmq_queue at training.code.execute.",
                context={"violations": [{"path": "rabbitmq_queue", "message": f"must not be {LEGACY_QUEUE}"}]},
            )
        return cls(settings.rabbitmq_exchange, settings.rabbitmq_queue)

    async def declare(self, connection: AbstractConnection) -> None:
        """Afterwards the exchange and both queues are there, and submissions reach theirs.

        What is there already stays as whoever declared it wanted it.

        Raises:
            BrokerMismatchError: the exchange is no topic exchange.
        """
        if await _exists(connection, "exchange", self.exchange):
            _require_harmless(await _compared(connection, "exchange", self.exchange))
        else:
            await _declare(connection, "exchange", self.exchange)
        for name in (self.queue, self.dead_queue):
            if not await _exists(connection, "queue", name):
                await _declare(connection, "queue", name)
        async with connection.channel() as channel:
            queue = await channel.get_queue(self.queue, ensure=False)
            await queue.bind(self.exchange, routing_key=self.queue)


async def _exists(connection: AbstractConnection, kind: Kind, name: str) -> bool:
    """Whether the broker has it, asked without declaring it. A channel does not survive that it has not."""
    try:
        async with connection.channel() as channel:
            await (channel.get_queue(name) if kind == "queue" else channel.get_exchange(name))
    except amqp.ChannelNotFoundEntity:
        return False
    return True


async def _declare(connection: AbstractConnection, kind: Kind, name: str) -> None:
    """Afterwards it is there, as the bridge declares it; a channel does not survive that it is there otherwise."""
    async with connection.channel() as channel:
        if kind == "queue":
            await channel.declare_queue(name, durable=True)
        else:
            await channel.declare_exchange(name, ExchangeType.TOPIC, durable=True)


async def _compared(connection: AbstractConnection, kind: Kind, name: str) -> Difference | None:
    """How something that is there differs from what the bridge would declare; declaring it again changes nothing."""
    try:
        await _declare(connection, kind, name)
    except amqp.ChannelPreconditionFailed as refusal:
        said = mismatch_of(refusal)
        wanted, found = said.context.get("wanted"), said.context.get("found")
        if not isinstance(wanted, dict) or not isinstance(found, dict):
            raise said from refusal
        return Difference(kind, name, wanted, found, harmful=kind == "exchange" and "type" in wanted)
    return None


def _require_harmless(difference: Difference | None) -> None:
    if difference is not None and difference.harmful:
        raise BrokerMismatchError(
            f"{difference}; the bridge cannot work with it",
            hint=f"Declare {difference.kind} {difference.name} as the platform does, or name another one in the settings.",
            context={
                "kind": difference.kind,
                "name": difference.name,
                "wanted": difference.wanted,
                "found": difference.found,
            },
        )
