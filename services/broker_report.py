"""What a broker holds for this installation, looked at without changing it.

AMQP never tells how something was declared. But a declaration that differs is refused with the first difference and its
present value, so declaring again with what was said, until it is accepted, finds them all; an accepted one changes nothing.
"""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from aio_pika.exceptions import ChannelClosed, ChannelNotFoundEntity, ChannelPreconditionFailed

from services.bridge import Topology
from services.bridge.broker import connected

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from aio_pika.abc import AbstractChannel, AbstractConnection

    from runtime.settings import Settings

_OUR_QUEUE: Final = {"durable": True}
_OUR_EXCHANGE: Final = {"type": "topic", "durable": True}
"""How the bridge declares what is not there."""

_MOST_DIFFERENCES: Final = 32
_DIFFERENCE: Final = re.compile(
    r"inequivalent arg '(?P<name>[^']+)' for .*: received .* but current is (?P<current>.*)$"
)
_VALUE: Final = re.compile(r"the value '(?P<value>.*)' of type '(?P<type>\w+)'")
_FLAGS: Final = ("type", "durable", "auto_delete", "internal", "exclusive")
"""What is no argument of the argument table."""

Declared = dict[str, Any]


@dataclass(frozen=True, slots=True)
class ExchangeReport:
    """The exchange.

    Attributes:
        arguments: how it was declared, flags included; `None` where that could not be found out.
    """

    arguments: Declared | None

    @property
    def ours(self) -> Declared:
        """How the bridge would have declared it."""
        return dict(_OUR_EXCHANGE)

    @property
    def as_ours(self) -> bool:
        """Whether it is as the bridge would have declared it."""
        return self.arguments == self.ours


@dataclass(frozen=True, slots=True)
class QueueReport:
    """One queue.

    Attributes:
        name: its name.
        arguments: how it was declared, flags included; `None` where that could not be found out.
        messages: how many wait in it.
        consumers: how many consume it.
    """

    name: str
    arguments: Declared | None
    messages: int
    consumers: int

    @property
    def ours(self) -> Declared:
        """How the bridge would have declared it."""
        return dict(_OUR_QUEUE)

    @property
    def as_ours(self) -> bool:
        """Whether it is as the bridge would have declared it."""
        return self.arguments == self.ours


@dataclass(frozen=True, slots=True)
class BrokerReport:
    """What was found; `None` for what is not there.

    Attributes:
        exchange: of submissions and of what the platform is told.
        queue: of submissions.
        dead: of dead letters.
    """

    exchange: ExchangeReport | None
    queue: QueueReport | None
    dead: QueueReport | None


def inspect_broker(settings: Settings) -> BrokerReport:
    """What the broker of `settings` holds. Nothing is made there, and nothing taken from it.

    Raises:
        BrokerUnavailableError: it does not answer.
        BrokerRefusedError: it does not let us in.
        InvalidSettingsError: the settings name the queue of the legacy trainer.
    """
    return asyncio.run(_inspect(settings))


async def _inspect(settings: Settings) -> BrokerReport:
    topology = Topology.of(settings)
    async with connected(settings, "doctor") as connection:
        return BrokerReport(
            await _exchange(connection, topology.exchange),
            await _queue(connection, topology.queue),
            await _queue(connection, topology.dead_queue),
        )


async def _exchange(connection: AbstractConnection, name: str) -> ExchangeReport | None:
    async def declare(channel: AbstractChannel, flags: Declared, arguments: Declared) -> object:
        return await channel.declare_exchange(name, arguments=arguments, **flags)

    try:
        await _on_channel(connection, lambda channel: channel.declare_exchange(name, passive=True))
    except ChannelNotFoundEntity:
        return None
    return ExchangeReport(await _declared(connection, _OUR_EXCHANGE, declare))


async def _queue(connection: AbstractConnection, name: str) -> QueueReport | None:
    async def declare(channel: AbstractChannel, flags: Declared, arguments: Declared) -> object:
        return await channel.declare_queue(name, arguments=arguments, **flags)

    try:
        found = await _on_channel(connection, lambda channel: channel.declare_queue(name, passive=True))
    except ChannelNotFoundEntity:
        return None
    arguments = await _declared(connection, _OUR_QUEUE, declare)
    result = found.declaration_result
    return QueueReport(name, arguments, result.message_count or 0, result.consumer_count or 0)


async def _on_channel(connection: AbstractConnection, ask: Callable[[AbstractChannel], Awaitable[Any]]) -> Any:
    """What `ask` answers, on a channel of its own: a refusal closes the channel that it came on."""
    channel = await connection.channel()
    try:
        return await ask(channel)
    finally:
        if not channel.is_closed:
            await channel.close()


async def _declared(
    connection: AbstractConnection,
    ours: Declared,
    declare: Callable[[AbstractChannel, Declared, Declared], Awaitable[object]],
) -> Declared | None:
    """How something that is there was declared; `None` where the broker does not let us find out."""
    known: Declared = dict(ours)
    corrected: set[str] = set()
    for _ in range(_MOST_DIFFERENCES):
        flags = {name: value for name, value in known.items() if name in _FLAGS}
        arguments = {name: value for name, value in known.items() if name not in _FLAGS}

        def ask(
            channel: AbstractChannel, flags: Declared = flags, arguments: Declared = arguments
        ) -> Awaitable[object]:
            return declare(channel, flags, arguments)

        try:
            await _on_channel(connection, ask)
        except ChannelPreconditionFailed as refused:
            found = _DIFFERENCE.search(str(refused))
            if found is None or found["name"] in corrected:
                return None
            corrected.add(found["name"])
            known[found["name"]] = _current(found["current"])
        except ChannelClosed:  # exclusive to somebody else, or we may not declare
            return None
        else:
            return known
    return None


def _current(said: str) -> Any:
    """The present value of an argument, as the broker words it."""
    typed = _VALUE.fullmatch(said.strip())
    value = typed["value"] if typed else said.strip().strip("'")
    if value in {"true", "false"} and (typed is None or typed["type"] == "bool"):
        return value == "true"
    is_number = typed is not None and typed["type"] != "longstr" and re.fullmatch(r"-?\d+", value) is not None
    return int(value) if is_number else value
