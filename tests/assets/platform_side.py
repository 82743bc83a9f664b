"""The other side of the broker, for tests: what the platform does with it, and what must hold of all that it is told."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections import defaultdict
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

import aio_pika

from contracts.base import validate
from contracts.messages import ModelRegistered, TaskLog, TaskStatusUpdate

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from datetime import datetime
    from types import TracebackType

    from runtime.ledger import RecordedMessage

KINDS = {one.kind: one for one in (TaskStatusUpdate, TaskLog, ModelRegistered)}
TERMINAL = {3, 4}


@dataclass(frozen=True)
class Told:
    """One delivery to the platform."""

    routing_key: str
    message_id: str
    content: bytes
    content_type: str
    type: str
    persistent: bool
    timestamp: datetime

    @cached_property
    def body(self) -> dict[str, Any]:
        return json.loads(self.content)

    @property
    def status(self) -> int | None:
        return self.body.get("status")

    @property
    def execution_id(self) -> str | None:
        extra = self.body.get("extra_data") or self.body.get("model_info") or {}
        return extra.get("execution_id")


class Platform:
    """A control plane on a broker: a durable queue bound to all that it is told, a thread that reads it, and a sender.

    It survives the broker's restarts, and like the real one may be told the same again.
    """

    def __init__(self, url: str, *, exchange: str, queue: str) -> None:
        self.url, self.exchange, self.queue = url, exchange, queue
        self.told: list[Told] = []
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._connection: aio_pika.abc.AbstractRobustConnection
        self._channel: aio_pika.abc.AbstractRobustChannel
        self._exchange: aio_pika.abc.AbstractExchange

    # --- what it does -------------------------------------------------------------------------------------------------

    def submit(self, *documents: dict[str, Any] | bytes) -> None:
        """Afterwards the broker has these messages: submissions, or whatever bytes."""
        self._do(self._submit([one if isinstance(one, bytes) else json.dumps(one).encode() for one in documents]))

    async def _submit(self, bodies: list[bytes]) -> None:
        for body in bodies:
            message = aio_pika.Message(
                body, delivery_mode=aio_pika.DeliveryMode.PERSISTENT, content_type="application/json"
            )
            await self._exchange.publish(message, self.queue, timeout=30)

    def dead_letters(self) -> list[aio_pika.abc.AbstractIncomingMessage]:
        """What lies in the dead-letter queue; it is taken out."""
        return self._do(self._take_all(f"{self.queue}.dead"))

    async def _take_all(self, name: str) -> list[aio_pika.abc.AbstractIncomingMessage]:
        async with self._connection.channel() as channel:
            queue = await channel.declare_queue(name, durable=True)
            found = []
            while (message := await queue.get(fail=False, no_ack=True)) is not None:
                found.append(message)
            return found

    def waiting(self) -> int:
        """How many submissions nobody has taken, or has not acknowledged once it is known that nobody consumes."""
        return self._do(self._count(self.queue))

    async def _count(self, name: str) -> int:
        async with self._connection.channel() as channel:
            queue = await channel.declare_queue(name, durable=True)
            return queue.declaration_result.message_count or 0

    # --- what it was told ---------------------------------------------------------------------------------------------

    def of(self, execution_id: str) -> list[Told]:
        """The statuses and models of an execution, repetitions left out, in the order in which they came first."""
        first = {one.message_id: one for one in reversed(self.told) if one.execution_id == execution_id}
        return list(reversed(first.values()))

    def statuses(self, execution_id: str) -> list[int]:
        return [one.status for one in self.of(execution_id) if one.status is not None]

    def await_statuses(self, execution_id: str, *wanted: int, seconds: float = 120) -> None:
        """Returns once it was told exactly these."""
        self.wait_until(lambda: self.statuses(execution_id) == list(wanted), seconds=seconds)

    def await_ends(self, execution_ids: Iterable[str], *, seconds: float = 120) -> None:
        """Returns once it was told how each of these ended."""
        ids = list(execution_ids)
        self.wait_until(lambda: all(TERMINAL & set(self.statuses(one)) for one in ids), seconds=seconds)

    def wait_until(self, holds: Callable[[], bool], *, seconds: float = 60) -> None:
        deadline = time.monotonic() + seconds
        while not holds():
            assert time.monotonic() < deadline, [(one.routing_key, one.body) for one in self.told[-5:]]
            time.sleep(0.05)

    # --- its own affairs ----------------------------------------------------------------------------------------------

    async def _open(self) -> None:
        self._connection = await aio_pika.connect_robust(self.url, reconnect_interval=0.2, timeout=30)
        self._channel = await self._connection.channel(on_return_raises=True)
        self._exchange = await self._channel.declare_exchange(self.exchange, aio_pika.ExchangeType.TOPIC, durable=True)
        submissions = await self._channel.declare_queue(self.queue, durable=True)
        await submissions.bind(self._exchange, self.queue)
        told = await self._channel.declare_queue(f"{self.exchange}.platform", durable=True)
        for kind in KINDS:
            await told.bind(self._exchange, kind)
        await told.consume(self._hear)

    async def _hear(self, message: aio_pika.abc.AbstractIncomingMessage) -> None:
        self.told.append(
            Told(
                routing_key=message.routing_key or "",
                message_id=message.message_id or "",
                content=message.body,
                content_type=message.content_type or "",
                type=message.type or "",
                persistent=message.delivery_mode == aio_pika.DeliveryMode.PERSISTENT,
                timestamp=message.timestamp,
            )
        )
        await message.ack()

    def _do(self, work) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(60)

    def __enter__(self) -> Self:
        self._thread.start()
        self._do(self._open())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._do(self._connection.close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()


def require_nothing_lost_or_contradictory(told: list[Told], recorded: Iterable[RecordedMessage]) -> None:
    """What must hold of all that a platform was told, by `message_id`, against what the ledger wanted to tell.

    Every message came, and no other; a repeated one has the same bytes; each is what its contract says and came on its
    routing key; the statuses of an execution are 0, 1 and one end, and nothing of it but its model comes after that.
    """
    contents: dict[str, set[bytes]] = defaultdict(set)
    first: dict[str, Told] = {}
    for one in told:
        contents[one.message_id].add(one.content)
        first.setdefault(one.message_id, one)
    assert {message_id for message_id, seen in contents.items() if len(seen) > 1} == set(), "changed in repetition"

    wanted = {one.message_id: one for one in recorded}
    assert set(first) == set(wanted), "lost, or told and never recorded"
    assert [one.message_id for one in wanted.values() if one.sent_at is None] == []

    for one in first.values():
        validate(KINDS[one.routing_key], one.content)
        assert one.body["message_type"] == one.type == one.routing_key
        assert (one.content_type, one.persistent) == ("application/json", True)
        assert one.body == wanted[one.message_id].body
        assert one.timestamp.replace(microsecond=0) == wanted[one.message_id].created_at.replace(microsecond=0)

    stories: dict[str, list[Told]] = defaultdict(list)
    for one in first.values():  # in the order of first telling
        owner = wanted[one.message_id].execution_id
        if owner is not None:
            stories[owner].append(one)
    for execution_id, story in stories.items():
        statuses = [one.status for one in story if one.status is not None]
        assert statuses in ([0], [0, 1], [0, 1, 3], [0, 1, 4], [0, 4]), (execution_id, statuses)
        ends = [index for index, one in enumerate(story) if one.status in TERMINAL]
        after = [one.routing_key for index, one in enumerate(story) if ends and index > ends[0]]
        assert after in ([], [ModelRegistered.kind]), (execution_id, after)
        assert ends or ModelRegistered.kind not in {one.routing_key for one in story}, execution_id
