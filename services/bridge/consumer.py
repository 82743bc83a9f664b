"""Takes submissions from their queue, one at a time, and acknowledges each once it is recorded or its refusal is."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import logging
import time
from typing import TYPE_CHECKING, Any, Final

import aio_pika

from contracts.errors import BrokerUnavailableError, InternalError, RuntimeFault
from contracts.limits import BROKER_CONFIRM_SECONDS, DELIVERY_HOLD_SECONDS
from services.bridge.broker import connected, pause_after
from services.bridge.submissions import Answered, Dead, Recorded, take

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from aio_pika.abc import AbstractChannel, AbstractConnection, AbstractIncomingMessage

    from runtime.installation import Installation
    from runtime.live_installation import Source
    from services.bridge.submissions import Verdict
    from services.bridge.topology import Topology

_LOG: Final = logging.getLogger(__name__)
_HEADER_CHARACTERS: Final = 1_000
_KEPT_HEADERS_CHARACTERS: Final = 32_000
"""All headers of a message must fit one frame of 128 KiB: a reason is cut, and a sender's own are kept up to here."""


class Consumer:
    """One connection that takes submissions.

    Args:
        source: knows the installation as the platform's settings would have it now.
        topology: the names on the broker.
        recorded: told each execution that the ledger has; it must return at once.
    """

    def __init__(self, source: Source, topology: Topology, recorded: Callable[[str], None]) -> None:
        self._source, self._topology, self._recorded = source, topology, recorded
        self._stop = asyncio.Event()
        self._lost = asyncio.Event()

    async def consume(self, stop: asyncio.Event, began: Callable[[], None]) -> None:
        """Takes submissions until `stop` is set; then the delivery at hand is finished and nothing new is taken.

        Args:
            stop: ends it.
            began: told when submissions are being taken.

        Raises:
            RuntimeFault: the broker is away, or not as it must be. Call it again: nothing is lost.
        """
        self._stop, self._lost = stop, asyncio.Event()
        settings = self._source.current().settings
        async with connected(settings, "submissions") as connection:
            await self._topology.declare(connection)
            incoming = await connection.channel()
            outgoing = await connection.channel(on_return_raises=True)
            await incoming.set_qos(prefetch_count=1)
            await self._watch(connection, incoming)
            deliveries: asyncio.Queue[AbstractIncomingMessage] = asyncio.Queue()
            queue = await incoming.get_queue(self._topology.queue, ensure=False)
            await queue.consume(deliveries.put)
            began()
            while (message := await self._next(deliveries)) is not None:
                await self._answer(message, outgoing)
        if not stop.is_set():
            raise BrokerUnavailableError(
                "the broker ended the connection, or the queue of submissions is gone",
                hint="The bridge connects again by itself.",
                context={"queue": self._topology.queue},
            )

    async def _watch(self, connection: AbstractConnection, channel: AbstractChannel) -> None:
        """Afterwards whatever ends the deliveries ends the wait for them, a queue that is deleted included."""

        def lost(*_: Any) -> None:
            self._lost.set()

        connection.close_callbacks.add(lost)
        channel.close_callbacks.add(lost)
        (await channel.get_underlay_channel()).on_consumer_cancel_callbacks.add(lost)

    async def _next(self, deliveries: asyncio.Queue[AbstractIncomingMessage]) -> AbstractIncomingMessage | None:
        """The next delivery, or `None` when none is to be taken any more."""
        found: AbstractIncomingMessage | None = await self._unless_over(deliveries.get())
        return found

    async def _unless_over(self, wanted: Awaitable[Any], seconds: float | None = None) -> Any:
        """What is wanted, or `None` where the end, or the end of the connection or of `seconds`, comes first."""
        tasks = [asyncio.ensure_future(one) for one in (wanted, self._stop.wait(), self._lost.wait())]
        try:
            await asyncio.wait(tasks, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
            over = self._stop.is_set() or self._lost.is_set()
            return tasks[0].result() if tasks[0].done() and not over else None
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    # --- one delivery -------------------------------------------------------------------------------------------------

    async def _answer(self, message: AbstractIncomingMessage, outgoing: AbstractChannel) -> None:
        verdict = await self._verdict(message)
        if verdict is None:
            with contextlib.suppress(Exception):  # a connection that is gone gives it back, too
                await message.nack(requeue=True)
            return
        if isinstance(verdict, Dead):
            await self._bury(message, verdict.fault, outgoing)
        await message.ack()
        if isinstance(verdict, Recorded):
            self._recorded(verdict.execution_id)
        if isinstance(verdict, Answered):
            _LOG.warning("refused a submission of task %s: %s", verdict.task_id, verdict.fault.message)

    async def _verdict(self, message: AbstractIncomingMessage) -> Verdict | None:
        """What becomes of the delivery; `None` gives it back: nothing could be decided for long enough, or we end."""
        deadline = time.monotonic() + DELIVERY_HOLD_SECONDS
        failures = 0
        while True:
            try:
                return await asyncio.to_thread(self._take, message.body)
            except RuntimeFault as fault:  # whose answer is to requeue: here it waits without going to and fro
                failures += 1
                _LOG.warning("a submission waits: %s %s", fault.message, fault.hint)
            except Exception as defect:  # noqa: BLE001 - a message must not end the bridge
                _LOG.exception("a submission could not be taken because of a defect; report it")
                if message.redelivered or failures:
                    return Dead(_defect(defect))
                failures += 1
            await self._unless_over(asyncio.sleep(pause_after(failures)))
            if self._stop.is_set() or self._lost.is_set() or time.monotonic() > deadline:
                return None

    def _take(self, body: bytes) -> Verdict:
        here: Installation = self._source.fresh()
        return take(here, body)

    async def _bury(self, message: AbstractIncomingMessage, fault: RuntimeFault, outgoing: AbstractChannel) -> None:
        """Afterwards the dead-letter queue has the delivery, its bytes unchanged, and says why."""
        _LOG.error("a submission goes to %s: %s %s", self._topology.dead_queue, fault.message, fault.hint)
        letter = aio_pika.Message(
            message.body,
            headers={
                **(message.headers if len(str(message.headers)) <= _KEPT_HEADERS_CHARACTERS else {}),
                "x-mtr-code": fault.code,
                "x-mtr-reason": _header(fault.message),
                "x-mtr-hint": _header(fault.hint),
                "x-mtr-exchange": message.exchange or "",
                "x-mtr-routing-key": message.routing_key or "",
            },
            message_id=message.message_id or hashlib.sha256(message.body).hexdigest(),
            content_type=message.content_type,
            content_encoding=message.content_encoding,
            correlation_id=message.correlation_id,
            timestamp=message.timestamp,
            type=message.type,
            app_id=message.app_id,
            delivery_mode=aio_pika.DeliveryMode.PERSISTENT,
        )
        await outgoing.default_exchange.publish(letter, self._topology.dead_queue, timeout=BROKER_CONFIRM_SECONDS)


def _header(text: str) -> str:
    """`text` as a header takes it: a letter that cannot be written would come back for ever."""
    return text[:_HEADER_CHARACTERS].encode("utf-8", "replace").decode()


def _defect(defect: Exception) -> InternalError:
    return InternalError(
        f"{type(defect).__name__}: {defect}", hint="This is a defect of mtr: report it with the bridge's log."
    )
