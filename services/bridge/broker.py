"""Connections to the broker, with one kind of error, and the pace at which they are tried again."""

from __future__ import annotations

import contextlib
import re
from typing import TYPE_CHECKING, Final

import aio_pika
from aio_pika import exceptions as amqp
from aiormq.exceptions import ChannelAccessRefused, ChannelLockedResource, ConnectionNotAllowed

from contracts.errors import BrokerMismatchError, BrokerRefusedError, BrokerUnavailableError, RuntimeFault
from contracts.limits import BROKER_CONNECT_SECONDS, BROKER_FIRST_PAUSE_SECONDS, BROKER_LONGEST_PAUSE_SECONDS

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from aio_pika.abc import AbstractConnection

    from runtime.settings import Settings

_INEQUIVALENT: Final = re.compile(
    r"inequivalent arg '(?P<argument>[^']*)' for (?P<kind>queue|exchange) '(?P<name>[^']*)' in vhost '[^']*': "
    r"received (?P<wanted>.*?) but current is (?P<found>[^\"]*)"
)
_REFUSED: Final = (
    amqp.AuthenticationError,
    amqp.ProbableAuthenticationError,
    ChannelAccessRefused,
    ChannelLockedResource,
    ConnectionNotAllowed,
)


def pause_after(failures: int) -> float:
    """Seconds until a broker that failed so many times in a row is tried again: doubled each time, and bounded."""
    return min(BROKER_FIRST_PAUSE_SECONDS * 2.0 ** min(failures - 1, 16), BROKER_LONGEST_PAUSE_SECONDS)


@contextlib.asynccontextmanager
async def connected(settings: Settings, purpose: str) -> AsyncIterator[AbstractConnection]:
    """While the block lasts, a connection of its own; afterwards it is closed. The broker's operator sees `purpose`.

    Raises:
        BrokerUnavailableError: the broker does not answer or ended the connection; raised for what the block does, too.
        BrokerRefusedError: it does not let us in, or does not let us do something.
        BrokerMismatchError: something is declared otherwise than we need it.
    """
    with translated(settings):
        connection = await aio_pika.connect(
            host=settings.rabbitmq_host,
            port=settings.rabbitmq_port,
            login=settings.rabbitmq_user,
            password=settings.rabbitmq_password.get_secret_value(),
            virtualhost=settings.rabbitmq_vhost,
            heartbeat=settings.rabbitmq_heartbeat_seconds,
            client_properties={"connection_name": f"mtr bridge: {purpose}"},
            timeout=BROKER_CONNECT_SECONDS,
        )
        try:
            yield connection
        finally:
            with contextlib.suppress(Exception):  # it may be gone, which is all that is wanted
                await connection.close()


@contextlib.contextmanager
def translated(settings: Settings) -> Iterator[None]:
    """Turns what the client library says into our errors."""
    try:
        yield
    except RuntimeFault:
        raise
    except amqp.ChannelPreconditionFailed as error:
        raise mismatch_of(error) from error
    except _REFUSED as error:
        raise BrokerRefusedError(
            f"the broker at {place(settings)} refuses: {_said(error)}",
            hint=f"Check rabbitmq_user, rabbitmq_password and rabbitmq_vhost; {settings.rabbitmq_user} needs to "
            "configure, write and read the exchange and the queues.",
            context={"broker": place(settings)},
        ) from error
    except (*amqp.CONNECTION_EXCEPTIONS, TimeoutError, EOFError) as error:
        raise BrokerUnavailableError(
            f"the broker at {place(settings)} does not answer: {_said(error)}",
            hint="Check rabbitmq_host and rabbitmq_port, and that the broker runs; the bridge keeps trying.",
            context={"broker": place(settings)},
        ) from error


def place(settings: Settings) -> str:
    """The broker's address as people may see it."""
    return f"{settings.rabbitmq_host}:{settings.rabbitmq_port}"


def _said(error: BaseException) -> str:
    return " ".join(str(error).split()) or type(error).__name__


def mismatch_of(refusal: amqp.ChannelPreconditionFailed) -> BrokerMismatchError:
    """What the broker says about something that is declared otherwise: it names the first argument that differs."""
    said = _said(refusal)
    found = _INEQUIVALENT.search(said)
    if found is None:
        return BrokerMismatchError(
            f"something is declared on the broker otherwise than the bridge needs it: {said}",
            hint="Compare the exchange and the queues with the platform's declarations.",
        )
    argument, kind, name, wanted, current = (
        found["argument"],
        found["kind"],
        found["name"],
        found["wanted"],
        found["found"],
    )
    return BrokerMismatchError(
        f"{kind} {name} is declared otherwise on the broker: {argument} is {current.strip()}, the bridge needs {wanted}",
        hint=f"Declare {kind} {name} as the platform does, or name another one in the settings.",
        context={
            "kind": kind,
            "name": name,
            "wanted": {argument: wanted},
            "found": {argument: current.strip()},
        },
    )
