"""Publishes what stands in the ledger's outbox, in its order, each message until the broker has confirmed it."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import aio_pika
from aio_pika.exceptions import PublishError

from contracts.limits import (
    BROKER_CONFIRM_SECONDS,
    OUTBOX_LEASE_SECONDS,
    OUTBOX_MESSAGES_AT_ONCE,
    OUTBOX_POLL_SECONDS,
    UNROUTABLE_PAUSE_SECONDS,
)
from contracts.messages import SERVICE_NAME, TaskLog
from contracts.strict_json import dump_canonical
from runtime.ledger import Owner
from services.bridge.broker import connected

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from aio_pika.abc import AbstractExchange

    from runtime.ledger import Ledger, PendingMessage
    from runtime.live_installation import Source
    from services.bridge.topology import Topology

_LOG: Final = logging.getLogger(__name__)
LEASE: Final = "outbox"


class Publisher:
    """One connection that tells the platform, while no other bridge does.

    Args:
        source: knows the installation.
        topology: the names on the broker.
    """

    def __init__(self, source: Source, topology: Topology) -> None:
        self._source, self._topology = source, topology
        self._holder = Owner.here().new_holder()
        self._leased_until = 0.0
        self._bell = asyncio.Event()
        self._held = 0
        self._told_unwanted = False

    def wake(self) -> None:
        """Afterwards the outbox is looked at, at once. Call it in the thread of its loop."""
        self._bell.set()

    async def publish(self, stop: asyncio.Event, began: Callable[[], None]) -> None:
        """Publishes until `stop` is set; then the message at hand is finished, and another bridge may go on at once.

        Args:
            stop: ends it.
            began: told when the broker is there.

        Raises:
            RuntimeFault: the broker or the ledger is away. Call it again: what was not confirmed is sent again.
        """
        here = self._source.current()
        async with connected(here.settings, "messages") as connection:
            await self._topology.declare(connection)
            channel = await connection.channel(on_return_raises=True)
            exchange = await channel.get_exchange(self._topology.exchange, ensure=False)
            began()
            try:
                while not stop.is_set():
                    self._bell.clear()
                    pause = await self._publish_some(here.ledger, exchange, stop)
                    if pause:
                        await _wait_for_one(pause, stop, self._bell, connection.closed())
                    if connection.is_closed:
                        raise ConnectionError("the broker ended the connection")
            finally:
                self._leased_until = 0.0
                with contextlib.suppress(Exception):  # it runs out by itself
                    await asyncio.to_thread(here.ledger.release_lease, LEASE, self._holder)

    async def _publish_some(self, ledger: Ledger, exchange: AbstractExchange, stop: asyncio.Event) -> float:
        """Afterwards some messages are confirmed and marked; how long there is nothing to do."""
        if not await self._leased(ledger):
            return OUTBOX_POLL_SECONDS
        wanted = OUTBOX_MESSAGES_AT_ONCE + self._held  # what waits for a queue must not keep others from being seen
        waiting = await asyncio.to_thread(ledger.pending_messages, limit=wanted)
        round_ = _Round()
        try:
            for message in waiting:
                if stop.is_set() or not await self._leased(ledger):
                    break
                if not round_.holds_back(message):
                    await self._send(exchange, message, round_)
        finally:
            if round_.confirmed:
                await asyncio.to_thread(ledger.mark_sent, *round_.confirmed)
        self._held = len(round_.held)
        if round_.held:
            _LOG.warning(
                "%d messages wait: no queue is bound to %s for %s",
                len(round_.held),
                self._topology.exchange,
                ", ".join(sorted(round_.unroutable)),
            )
            return OUTBOX_POLL_SECONDS if round_.confirmed else UNROUTABLE_PAUSE_SECONDS
        return 0.0 if len(waiting) == wanted else OUTBOX_POLL_SECONDS

    async def _send(self, exchange: AbstractExchange, message: PendingMessage, round_: _Round) -> None:
        """Afterwards the broker has the message, or it is known that no queue takes it."""
        outgoing = aio_pika.Message(
            dump_canonical(message.body),
            content_type="application/json",
            content_encoding="utf-8",
            delivery_mode=aio_pika.DeliveryMode.PERSISTENT,
            message_id=message.message_id,
            type=message.kind,
            timestamp=message.created_at,
            app_id=SERVICE_NAME,
        )
        try:
            await exchange.publish(outgoing, message.kind, mandatory=True, timeout=BROKER_CONFIRM_SECONDS)
        except PublishError:
            if message.kind != TaskLog.kind:
                round_.hold(message)
                return
            # A platform that binds nothing for logs wants none, and the others must not wait for them.
            if not self._told_unwanted:
                _LOG.warning("no queue is bound to %s for %s: logs are told to nobody", exchange.name, message.kind)
            self._told_unwanted = True
        round_.confirmed.append(message.message_id)

    async def _leased(self, ledger: Ledger) -> bool:
        """Whether this bridge is the one that publishes, for longer than a message may take."""
        if time.monotonic() < self._leased_until - 2 * BROKER_CONFIRM_SECONDS:
            return True
        asked_at = time.monotonic()
        held = await asyncio.to_thread(ledger.lease, LEASE, self._holder, OUTBOX_LEASE_SECONDS)
        self._leased_until = asked_at + OUTBOX_LEASE_SECONDS if held else 0.0
        return held


@dataclass(slots=True)
class _Round:
    """What became of the messages that were read together.

    Attributes:
        confirmed: the ids of those that the broker has.
        held: those that must wait, in order.
        unroutable: the kinds that no queue takes.
    """

    confirmed: list[str] = field(default_factory=list)
    held: list[PendingMessage] = field(default_factory=list)
    unroutable: set[str] = field(default_factory=set)

    def hold(self, message: PendingMessage) -> None:
        """Afterwards the message waits, and with it whatever must not come before it."""
        self.held.append(message)
        self.unroutable.add(message.kind)

    def holds_back(self, message: PendingMessage) -> bool:
        """Whether it must wait: nobody takes its kind, or an earlier message of its task waits."""
        waits = message.kind in self.unroutable or any(one.task_id == message.task_id for one in self.held)
        if waits:
            self.held.append(message)
        return waits


async def _wait_for_one(seconds: float, stop: asyncio.Event, bell: asyncio.Event, closed: Awaitable[Any]) -> None:
    tasks = [asyncio.ensure_future(one) for one in (stop.wait(), bell.wait(), closed)]
    try:
        await asyncio.wait(tasks, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
