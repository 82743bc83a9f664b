"""`mtr serve` and `mtr bridge` as processes: they start, say where they are, carry out or simulate, and end in order."""

from __future__ import annotations

import asyncio
import hashlib
import json
import signal
import socket
import threading
import time
import uuid
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from examples.control_plane.broker import Broker
from tests.assets.mtr_program import WAIT_SECONDS, Mtr
from tests.assets.submissions import submission_document

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Iterator

    from tests.assets.rabbitmq_server import RabbitMqServer

pytestmark = pytest.mark.service


class Door:
    """A running `mtr serve` or `mtr bridge`."""

    def __init__(self, mtr: Mtr, *command: str, **environment: str) -> None:
        self.process = mtr.start(*command, "--json", USE_NACOS="false", **environment)
        self.said: list[str] = []
        self._reader = threading.Thread(target=self._read, args=(self.process,), daemon=True)
        self._reader.start()
        self.document = json.loads(self._first_document())
        self.http = httpx.Client(base_url=self.document["url"] or "", timeout=60)

    def _read(self, process: subprocess.Popen[str]) -> None:
        self.said.extend(process.stderr)

    def _first_document(self) -> str:
        said = ""
        for line in self.process.stdout:
            said += line
            if line.startswith("}"):
                return said
        raise AssertionError("".join(self.said))

    def ended(self, submission: dict[str, Any]) -> dict[str, Any]:
        """The execution of `submission`, once it has ended."""
        deadline = time.monotonic() + WAIT_SECONDS
        while True:
            now = self.http.get(f"/v1/executions/{submission['execution_id']}").json()
            if now["state"] not in {"queued", "running"}:
                return now
            assert time.monotonic() < deadline, now
            time.sleep(0.1)

    def end(self, number: int = signal.SIGTERM) -> int:
        self.http.close()
        if self.process.poll() is None:
            self.process.send_signal(number)
        code = self.process.wait(WAIT_SECONDS)
        self._reader.join(WAIT_SECONDS)
        self.process.stdout.close()
        self.process.stderr.close()
        return code

    @property
    def stderr(self) -> str:
        return "".join(self.said)

    def wait_until_said(self, text: str) -> None:
        deadline = time.monotonic() + WAIT_SECONDS
        while text not in self.stderr:
            assert time.monotonic() < deadline, self.stderr
            time.sleep(0.05)


@pytest.fixture(scope="module")
def mtr(tmp_path_factory) -> Mtr:
    return Mtr(tmp_path_factory.mktemp("installation") / "home")


@pytest.fixture(scope="module")
def served(mtr) -> Iterator[Door]:
    """A door with nothing configured but a token."""
    door = Door(mtr, "serve", "--port", "0", MTR_API_TOKEN="the-token")
    yield door
    door.end()


@pytest.fixture(scope="module")
def succeeding(mtr) -> Iterator[Door]:
    """A door that simulates successes."""
    door = Door(mtr, "serve", "--port", "0", "--simulate", "succeeded")
    yield door
    door.end()


def test_it_says_where_it_is_and_that_execution_is_off(served) -> None:
    assert served.http.get("/health").json()["mode"] == "contract_validation_only"
    assert served.document == {
        "url": str(served.http.base_url).rstrip("/"),
        "broker": None,
        "execution_enabled": False,
        "simulates": None,
    }


def test_it_says_how_to_turn_execution_on(served) -> None:
    served.wait_until_said("execution is off")

    assert "MTR_EXECUTION_ENABLED=true" in served.stderr


def test_neither_the_log_nor_an_error_shows_a_token_or_a_query(served) -> None:
    wrong = {"authorization": "Bearer not-the-token"}
    refused = served.http.post("/v1/executions?signature=secret-part", json={}, headers=wrong)
    served.wait_until_said('"POST /v1/executions HTTP/1.1" 401')

    assert refused.json()["code"] == "unauthorized"
    assert not any(secret in served.stderr + refused.text for secret in ("the-token", "secret-part"))


def test_forwarded_headers_are_not_believed(served) -> None:
    served.http.get("/v1/contracts", headers={"x-forwarded-for": "192.0.2.7"})
    served.wait_until_said('"GET /v1/contracts HTTP/1.1" 200')

    assert "192.0.2.7" not in served.stderr


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_it_ends_in_order_whatever_clients_leave_open(mtr, number) -> None:
    door = Door(mtr, "serve", "--port", "0")
    with socket.create_connection(("127.0.0.1", door.http.base_url.port), timeout=5) as idle:
        idle.sendall(b"GET /v1/executions HTTP/1.1\r\nhost: h\r\n")  # and never the rest

        assert door.end(number) == 0
    assert "Traceback" not in door.stderr


def test_a_port_that_is_taken_is_a_conflict(mtr) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        refused = mtr("serve", "--port", other.getsockname()[1], USE_NACOS="false")

    assert refused.code == 4
    assert refused.document["error"]["code"] == "conflict"
    assert "--port" in refused.document["error"]["hint"]


def test_an_unknown_outcome_is_refused_with_the_ones_there_are(mtr) -> None:
    refused = mtr("serve", "--simulate", "nonsense")

    assert refused.code == 2
    assert set(refused.document["error"]["context"]["outcomes"]) >= {"succeeded", "cancelled", "out_of_memory"}


def test_the_bridge_without_a_broker_says_what_to_set(mtr) -> None:
    refused = mtr("bridge", USE_NACOS="false")

    assert (refused.code, refused.document["error"]["code"]) == (2, "invalid_settings")
    assert "RABBITMQ_HOST" in refused.document["error"]["hint"]


@pytest.mark.parametrize("command", [["bridge"], ["serve", "--port", "0", "--with-bridge"]])
def test_the_queue_of_the_present_trainer_is_never_consumed(mtr, command) -> None:
    refused = mtr(*command, USE_NACOS="false", RABBITMQ_HOST="127.0.0.1", MTR_RABBITMQ_QUEUE="trainer.task.queue")

    assert (refused.code, refused.document["error"]["code"]) == (2, "invalid_settings")


# --- simulation ------------------------------------------------------------------------------------------------------


def test_a_simulated_success_is_answered_by_http(succeeding) -> None:
    submission = submission_document()
    accepted = succeeding.http.post("/v1/executions", json=submission)

    assert accepted.status_code == 202
    assert succeeding.ended(submission)["result"]["summary"] == "simulated: nothing was trained"


def test_a_simulated_model_can_be_fetched(succeeding) -> None:
    submission = submission_document()
    succeeding.http.post("/v1/executions", json=submission)
    model = succeeding.ended(submission)["model"]
    fetched = succeeding.http.get(f"/v1/executions/{submission['execution_id']}/artifacts/{model['sha256']}")

    assert hashlib.sha256(fetched.content).hexdigest() == model["sha256"]


def test_a_simulation_has_executions_of_its_own(mtr, succeeding) -> None:
    submission = submission_document()
    succeeding.http.post("/v1/executions", json=submission)
    succeeding.ended(submission)

    assert mtr("executions", "list").document == {"executions": []}


def test_a_simulated_failure_has_the_wanted_code(mtr) -> None:
    door = Door(mtr, "serve", "--port", "0", "--simulate", "out_of_memory")
    submission = submission_document()
    door.http.post("/v1/executions", json=submission)
    ended = door.ended(submission)
    door.end()

    assert (ended["state"], ended["error"]["code"]) == ("failed", "out_of_memory")


def test_a_simulated_refusal_is_answered_at_the_door(mtr) -> None:
    door = Door(mtr, "serve", "--port", "0", "--simulate", "policy_refused")
    refused = door.http.post("/v1/executions", json=submission_document())
    door.end()

    assert (refused.status_code, refused.json()["code"]) == (503, "policy_refused")


def test_a_simulation_on_the_broker_tells_the_platform_everything(mtr, rabbitmq_server: RabbitMqServer) -> None:
    own = {"MTR_RABBITMQ_EXCHANGE": f"x-{uuid.uuid4()}"}
    broker = Broker(rabbitmq_server.url, own["MTR_RABBITMQ_EXCHANGE"], f"platform-{uuid.uuid4()}")
    broker.subscribe()
    door = Door(
        mtr, "serve", "--port", "0", "--with-bridge", "--simulate", "succeeded", **rabbitmq_server.environment, **own
    )
    submission = submission_document(task={"task_id": 4711, "task_kind": "classification"})
    door.wait_until_said("consuming by way of")  # it made the queue
    broker.submit(submission)

    async def told() -> list[dict[str, Any]]:
        return [message async for message in broker.messages_of(4711, quiet_seconds=3)]

    messages = asyncio.run(asyncio.wait_for(told(), WAIT_SECONDS))
    door.end()

    kinds = [message["body"].get("status", message["routing_key"]) for message in messages]
    assert [kind for kind in kinds if kind != "task.log"] == [0, 1, 3, "model.registered"]
    assert "task.log" in kinds
