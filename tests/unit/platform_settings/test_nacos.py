"""Reading one document from Nacos: its versions, its logins, and every way in which it may not answer."""

from __future__ import annotations

import socket
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from contracts.errors import PlatformSettingsUnavailableError
from runtime.platform_settings.nacos import NacosClient, NacosPlace
from runtime.settings import Settings
from tests.assets.nacos_server import NacosServer

if TYPE_CHECKING:
    from collections.abc import Iterator

TEXT = "model-training-runtime: {enabled: true} # 模型\n"


@pytest.fixture
def server() -> Iterator[NacosServer]:
    with NacosServer() as running:
        yield running


def client_of(*servers: NacosServer | str, seconds: float = 20, **given: object) -> NacosClient:
    addresses = ",".join(server if isinstance(server, str) else server.address for server in servers)
    place = NacosPlace.of(Settings.model_validate({"home": Path("/h"), "nacos_server_addr": addresses, **given}))
    return NacosClient(place, seconds=seconds)


def why_not(client: NacosClient) -> str:
    with pytest.raises(PlatformSettingsUnavailableError) as refused:
        client.fetch()
    assert "NACOS_SERVER_ADDR" in refused.value.hint
    return refused.value.message


@pytest.mark.parametrize("version", [2, 3])
def test_a_document_is_read_by_either_api(server: NacosServer, version: int) -> None:
    server.version = version
    server.publish(TEXT)

    assert client_of(server).fetch() == TEXT.encode()


@pytest.mark.parametrize("version", [2, 3])
def test_a_namespace_other_than_public_is_asked_for(server: NacosServer, version: int) -> None:
    server.version = version
    server.publish("a: public\n")
    server.publish("a: lab\n", namespace="lab-1", group="G", data_id="D")

    client = client_of(server, nacos_namespace="lab-1", nacos_group="G", nacos_data_id="D")
    assert client.fetch() == b"a: lab\n"


@pytest.mark.parametrize("namespace", ["", "public", " public "])
@pytest.mark.parametrize("version", [2, 3])
def test_public_is_the_empty_namespace(server: NacosServer, version: int, namespace: str) -> None:
    server.version = version
    server.publish(TEXT)

    assert client_of(server, nacos_namespace=namespace).fetch() == TEXT.encode()


@pytest.mark.parametrize("version", [2, 3])
def test_a_document_that_is_not_there_is_told_from_a_server_that_is_not(server: NacosServer, version: int) -> None:
    server.version = version

    assert client_of(server).fetch() is None


def test_an_older_server_is_asked_by_its_own_api_from_then_on(server: NacosServer) -> None:
    server.version = 2
    server.publish(TEXT)
    client = client_of(server)
    client.fetch()
    server.requests.clear()

    client.fetch()

    assert [request.partition("?")[0] for request in server.requests] == ["/nacos/v1/cs/configs"]


def test_a_server_that_was_upgraded_is_still_understood(server: NacosServer) -> None:
    server.version = 2
    server.publish(TEXT)
    client = client_of(server)
    client.fetch()
    server.version = 3
    with pytest.raises(PlatformSettingsUnavailableError):
        client.fetch()

    assert client.fetch() == TEXT.encode()


@pytest.mark.parametrize("version", [2, 3])
def test_a_user_logs_in_once_and_the_token_stays_out_of_addresses(server: NacosServer, version: int) -> None:
    server.version, server.users = version, {"mtr": "hush"}
    server.publish(TEXT)
    client = client_of(server, nacos_username="mtr", nacos_password="hush")

    assert [client.fetch(), client.fetch()] == [TEXT.encode()] * 2
    assert len(server.tokens) == 1
    assert not [request for request in server.requests if "hush" in request or "token-0" in request]


def test_a_token_that_no_longer_holds_is_fetched_anew(server: NacosServer) -> None:
    server.users = {"mtr": "hush"}
    server.publish(TEXT)
    client = client_of(server, nacos_username="mtr", nacos_password="hush")
    client.fetch()
    server.tokens = {"another"}

    assert client.fetch() == TEXT.encode()


@pytest.mark.parametrize("version", [2, 3])
def test_a_wrong_password_is_said_without_showing_it(server: NacosServer, version: int) -> None:
    server.version, server.users = version, {"mtr": "hush"}

    message = why_not(client_of(server, nacos_username="mtr", nacos_password="guess"))

    assert "refuses the login of 'mtr' (HTTP 403)" in message
    assert "guess" not in message


@pytest.mark.parametrize("version", [2, 3])
def test_a_server_that_wants_a_login_says_so(server: NacosServer, version: int) -> None:
    server.version, server.users = version, {"mtr": "hush"}
    server.publish(TEXT)

    assert "does not let us, who give no NACOS_USERNAME, read the document (HTTP 403)" in why_not(client_of(server))


@pytest.mark.parametrize(
    ("broken", "said"),
    [
        ("garbage", "does not answer as Nacos does (HTTP 200)"),
        ("endless", "answers with more than 4194304 bytes"),
        (403, "does not let us, who give no NACOS_USERNAME, read the document (HTTP 403)"),
        (404, "does not answer as Nacos does (HTTP 404)"),
        (500, "answers HTTP 500"),
        (302, "answers HTTP 302"),
    ],
)
def test_an_answer_that_is_no_use_is_named(server: NacosServer, broken: str | int, said: str) -> None:
    server.broken = broken

    assert f"{server.address}/nacos {said}" in why_not(client_of(server))


def test_a_server_that_is_not_there_is_named(server: NacosServer) -> None:
    server.stop()

    assert f"http://{server.address}/nacos: [Errno 111] Connection refused" in why_not(client_of(server))


@pytest.mark.slow
@pytest.mark.parametrize("broken", ["slow", "trickle"])
def test_a_server_that_does_not_come_to_an_end_is_left(server: NacosServer, broken: str) -> None:
    server.broken = broken

    assert f"{server.address}/nacos does not answer in time" in why_not(client_of(server, seconds=0.3))


def test_a_second_server_stands_in_for_the_first(server: NacosServer) -> None:
    server.publish(TEXT)
    with NacosServer() as first:
        first.broken = 500

        assert client_of(first, server).fetch() == TEXT.encode()


def test_a_login_without_a_token_is_no_use(server: NacosServer) -> None:
    server.broken = "garbage"

    assert "answers a login without an accessToken" in why_not(client_of(server, nacos_username="mtr"))


def test_nothing_runs_in_the_background(server: NacosServer) -> None:
    server.publish(TEXT)
    before = {thread for thread in threading.enumerate() if "process_request_thread" not in thread.name}

    client_of(server).fetch()

    now = {thread for thread in threading.enumerate() if "process_request_thread" not in thread.name}
    assert now == before


def test_a_proxy_of_the_environment_is_not_asked(server: NacosServer, monkeypatch: pytest.MonkeyPatch) -> None:
    server.publish(TEXT)
    with socket.create_server(("127.0.0.1", 0)) as nobody:
        monkeypatch.setenv("HTTP_PROXY", f"http://127.0.0.1:{nobody.getsockname()[1]}")
        monkeypatch.delenv("NO_PROXY", raising=False)

        assert client_of(server).fetch() == TEXT.encode()


def test_the_place_is_shown_without_the_password() -> None:
    client = client_of("nacos:1", nacos_username="mtr", nacos_password="hush")

    assert str(client.place) == "AUTO_ML/AUTO_ML_CONFIG in namespace public of Nacos at http://nacos:1/nacos"
    assert "hush" not in repr(client.place)
