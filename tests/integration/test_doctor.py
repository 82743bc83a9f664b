"""`mtr doctor` on a broker and an HTTP API: what is there, and what is declared otherwise."""

from __future__ import annotations

import asyncio
import json
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import TYPE_CHECKING, Any

import aio_pika
import pytest

from runtime.provenance import product_version
from services.cli.door_checks import door_checks
from tests.assets.executions import settings_at

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

    from aio_pika.abc import AbstractChannel

    from services.cli.checks import Check
    from tests.assets.rabbitmq_server import RabbitMqServer

pytestmark = pytest.mark.service

QUEUE = "training.code.execute"


@pytest.fixture
def broker(rabbitmq_server: RabbitMqServer) -> RabbitMqServer:
    return rabbitmq_server


@pytest.fixture
def look(broker, tmp_path, request) -> Callable[..., dict[str, Check]]:
    """The checks by name, on an exchange and a queue of the test's own."""
    own = {"MTR_RABBITMQ_EXCHANGE": f"exchange-{request.node.name}", "MTR_RABBITMQ_QUEUE": f"queue-{request.node.name}"}

    def looked(**environment: str) -> dict[str, Check]:
        settings = settings_at(tmp_path / "home", **{**broker.environment, **own, **environment})
        return {check.name: check for check in door_checks(settings)}

    return looked


def on_channel(broker: RabbitMqServer, act: Callable[[AbstractChannel], Awaitable[object]]) -> None:
    async def acted() -> None:
        async with await aio_pika.connect(broker.url) as connection:
            await act(await connection.channel())

    asyncio.run(acted())


def test_nothing_is_there_before_the_bridge_made_it(look) -> None:
    found = look()

    assert found["broker"].status == "ok"
    assert [found[name].status for name in ("broker exchange", "broker queue")] == ["warning", "warning"]
    assert "`mtr bridge` makes it" in found["broker queue"].remedy
    assert look() == found  # looking made nothing


def test_what_the_bridge_would_declare_matches(broker, look, request) -> None:
    async def declare(channel: AbstractChannel) -> None:
        await channel.declare_exchange(f"exchange-{request.node.name}", "topic", durable=True)
        await channel.declare_queue(f"queue-{request.node.name}", durable=True)

    on_channel(broker, declare)
    found = look()

    assert found["broker exchange"].status == "ok"
    assert "found, arguments match, 0 consumers, 0 submissions waiting" in found["broker queue"].message
    assert found["broker queue"].status == "warning"  # nobody consumes it


def test_a_queue_that_was_declared_otherwise_is_shown_beside_ours(broker, look, request) -> None:
    arguments = {"x-message-ttl": 60_000, "x-dead-letter-exchange": "elsewhere", "x-single-active-consumer": True}
    on_channel(
        broker, lambda channel: channel.declare_queue(f"queue-{request.node.name}", durable=False, arguments=arguments)
    )
    found = look()["broker queue"]

    assert found.status == "warning"
    assert (
        "there (durable=False, x-dead-letter-exchange=elsewhere, x-message-ttl=60000, x-single-active-consumer=True), "
        "ours (durable=True)"
    ) in found.message


def test_an_exchange_of_another_type_fails(broker, look, request) -> None:
    on_channel(
        broker, lambda channel: channel.declare_exchange(f"exchange-{request.node.name}", "fanout", durable=True)
    )
    found = look()["broker exchange"]

    assert (found.status, found.exit_code) == ("failed", 4)
    assert "there (durable=True, type=fanout), ours (durable=True, type=topic)" in found.message


def test_dead_letters_are_counted(broker, look, request) -> None:
    async def bury(channel: AbstractChannel) -> None:
        name = f"queue-{request.node.name}.dead"
        await channel.declare_queue(name, durable=True)
        for _ in range(2):
            await channel.default_exchange.publish(aio_pika.Message(b"?"), name)

    on_channel(broker, bury)
    found = look()["dead letters"]

    assert found.status == "warning"
    assert "2 deliveries" in found.message
    assert "x-mtr-reason" in found.remedy


def test_a_broker_that_is_away_fails_and_says_what_to_set(look) -> None:
    found = look(RABBITMQ_PORT="9")

    assert (found["broker"].status, found["broker"].exit_code) == ("failed", 5)
    assert "rabbitmq_host" in found["broker"].remedy
    assert "broker queue" not in found


def test_a_wrong_password_fails_and_is_not_shown(look) -> None:
    found = look(RABBITMQ_PASSWORD="not-this-one")

    assert found["broker"].status == "failed"
    assert "rabbitmq_password" in found["broker"].remedy
    assert "not-this-one" not in str(found)


def test_without_a_broker_there_is_nothing_to_look_at(tmp_path) -> None:
    assert "broker" not in {check.name for check in door_checks(settings_at(tmp_path / "home"))}


# --- the HTTP API ----------------------------------------------------------------------------------------------------


@pytest.fixture
def api() -> Iterator[dict[str, Any]]:
    """What /health answers, to be changed by the test, and under `address` where: other versions cannot be had."""
    said = {"service": "model-training-runtime", "version": product_version(), "mode": "in_service_execution"}

    class Health(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            content = json.dumps(said).encode()
            self.send_response(200)
            self.send_header("content-length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: Any) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Health)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    said["address"] = f"http://127.0.0.1:{server.server_port}"
    yield said
    server.shutdown()
    thread.join()
    server.server_close()


def api_check(tmp_path, address: str) -> Check:
    checks = {check.name: check for check in door_checks(settings_at(tmp_path / "home", MTR_BASE_URL=address))}
    return checks["http api"]


def test_an_api_of_this_version_is_fine(api, tmp_path) -> None:
    assert api_check(tmp_path, api["address"]).status == "ok"


def test_an_api_of_another_version_is_said(api, tmp_path) -> None:
    api["version"] = "0.0.1"
    found = api_check(tmp_path, api["address"])

    assert found.status == "warning"
    assert "version 0.0.1" in found.message
    assert product_version() in found.remedy


def test_something_else_on_the_port_is_no_api(api, tmp_path) -> None:
    api["service"] = "another"

    assert "something else answers" in api_check(tmp_path, api["address"]).message


def test_an_api_that_is_away_fails(tmp_path) -> None:
    found = api_check(tmp_path, "http://127.0.0.1:9")

    assert (found.status, found.exit_code) == ("failed", 5)
    assert "mtr serve" in found.remedy
