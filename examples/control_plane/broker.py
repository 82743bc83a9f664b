"""RabbitMQ, as a control plane uses it: submissions in, and everything that the platform is told out."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from typing import Any

import aio_pika
from aio_pika.abc import AbstractQueue

SUBMISSIONS = "training.code.execute"
MESSAGES = ("task.status.update", "task.log", "model.registered")
"""The kinds of messages about an execution; each one's routing key is its name."""

COMPLETED, FAILED = 3, 4


@dataclass(frozen=True)
class Broker:
    """Where the broker is, and the exchange that platform and runtime share.

    Attributes:
        queue: our own queue of messages. It outlives us, so that nothing is missed while we are away.
    """

    url: str
    exchange: str = "auto_ml_exchange"
    queue: str = "control_plane.training"

    @classmethod
    def from_environment(cls, environ: Mapping[str, str]) -> Broker:
        """The broker by the platform's own names."""
        user, password = environ.get("RABBITMQ_USER", "guest"), environ.get("RABBITMQ_PASSWORD", "guest")
        host, port = environ["RABBITMQ_HOST"], environ.get("RABBITMQ_PORT", "5672")
        vhost = environ.get("RABBITMQ_VHOST", "/").replace("/", "%2F")
        url = f"amqp://{user}:{password}@{host}:{port}/{vhost}"
        return cls(url, environ.get("RABBITMQ_EXCHANGE", "auto_ml_exchange"))

    def subscribe(self) -> None:
        """Afterwards the broker keeps every message for us, whether we listen or not. Once is enough, before the first submission."""
        asyncio.run(self._subscribe())

    def submit(self, submission: dict[str, Any]) -> None:
        """Afterwards the broker has the submission safely in the runtime's queue."""
        asyncio.run(self._submit(submission))

    async def messages(self) -> AsyncGenerator[dict[str, Any]]:
        """Every message, each once, from the oldest that we have not had.

        The runtime delivers at least once: the second copy of a message has the same `message_id` and the same body.
        A real control plane remembers in its database which ids it has handled; here a set must do.
        """
        async with self._open() as queue, queue.iterator() as arriving:
            handled: set[str | None] = set()
            async for message in arriving:
                async with message.process():  # acknowledged when the caller comes back for the next
                    if message.message_id not in handled:
                        handled.add(message.message_id)
                        yield {"routing_key": message.routing_key, "message_id": message.message_id} | {
                            "body": json.loads(message.body)
                        }

    async def messages_of(self, task_id: int, *, quiet_seconds: float = 5.0) -> AsyncGenerator[dict[str, Any]]:
        """The messages of one task, until its end was told and nothing followed for `quiet_seconds`."""
        ended = False
        async with aclosing(self.messages()) as arriving:
            while True:
                try:
                    async with asyncio.timeout(quiet_seconds if ended else None):
                        message = await anext(arriving)
                except TimeoutError:
                    return
                if message["body"]["task_id"] == task_id:
                    ended = ended or message["body"].get("status") in {COMPLETED, FAILED}
                    yield message

    async def _subscribe(self) -> None:
        async with self._open():
            pass

    @asynccontextmanager
    async def _open(self) -> AsyncGenerator[AbstractQueue]:
        connection = await aio_pika.connect_robust(self.url)
        async with connection:
            channel = await connection.channel()
            await channel.set_qos(prefetch_count=100)
            exchange = await channel.declare_exchange(self.exchange, aio_pika.ExchangeType.TOPIC, durable=True)
            queue = await channel.declare_queue(self.queue, durable=True)
            for kind in MESSAGES:
                await queue.bind(exchange, kind)
            yield queue

    async def _submit(self, submission: dict[str, Any]) -> None:
        connection = await aio_pika.connect(self.url)
        async with connection:
            channel = await connection.channel(publisher_confirms=True)
            exchange = await channel.declare_exchange(self.exchange, aio_pika.ExchangeType.TOPIC, durable=True)
            message = aio_pika.Message(
                json.dumps(submission).encode(),
                content_type="application/json",
                delivery_mode=aio_pika.DeliveryMode.PERSISTENT,
                message_id=submission["message_id"],
            )
            # mandatory: without a queue at the other end this raises, and does not lose the submission.
            await exchange.publish(message, SUBMISSIONS, mandatory=True)
