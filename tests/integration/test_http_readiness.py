"""`/ready` and `/metrics` of a running API whose store and ledger are real servers that die, freeze and come back."""

from __future__ import annotations

import os
import signal
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.assets.api_server import Answer, ApiServer
from tests.assets.postgres_server import PostgresServer
from tests.assets.s3_server import S3Server

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.service

WAIT_SECONDS = 120


@dataclass
class Installed:
    """A running API with servers of its own."""

    api: ApiServer
    s3: S3Server
    postgres: PostgresServer

    def ready_once(self, **states: str) -> Answer:
        """The first answer of `/ready` in which these dependencies have these states."""
        deadline = time.monotonic() + WAIT_SECONDS
        while True:
            answer = self.api.ask("GET", "/ready")
            if {name: answer.document["checks"][name]["state"] for name in states} == states:
                return answer
            assert time.monotonic() < deadline, answer.document
            time.sleep(0.1)

    def metric(self, name: str, **labels: str) -> float:
        """One sample of `/metrics`."""
        text = self.api.ask("GET", "/metrics").body.decode()
        (value,) = (
            sample.value
            for family in text_string_to_metric_families(text)
            for sample in family.samples
            if sample.name == name and sample.labels == labels
        )
        return value


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installed]:
    folder = tmp_path_factory.mktemp("ready")
    with S3Server(folder / "s3") as s3, PostgresServer() as postgres:
        from runtime.store.objects import ObjectStore  # noqa: PLC0415 - with the store's library

        ObjectStore.s3(s3.settings("ready")).ensure_buckets()
        settings = {**s3.environment("ready"), "MTR_DATABASE_URL": postgres.new_database()}
        with ApiServer(folder / "home", **settings) as api:
            yield Installed(api, s3, postgres)


def test_everything_that_is_needed_answers(installed: Installed) -> None:
    answer = installed.ready_once(store="ok", ledger="ok")

    assert (answer.status, answer.document["status"]) == (200, "ready")
    assert answer.document["checks"]["ledger"]["message"] == "postgresql"
    assert {name: check["state"] for name, check in answer.document["checks"].items()} == {
        "store": "ok",
        "ledger": "ok",
        "prefect": "unused",
        "broker": "unused",
    }


def test_a_store_that_is_dead_is_said_and_its_return_too(installed: Installed) -> None:
    installed.s3.kill()
    try:
        answer = installed.ready_once(store="unavailable")
        assert (answer.status, answer.document["status"]) == (503, "unavailable")
        assert answer.document["checks"]["ledger"]["state"] == "ok"
    finally:
        installed.s3.start()

    assert installed.ready_once(store="ok").status == 200


def test_a_store_that_says_nothing_is_not_waited_for(installed: Installed) -> None:
    os.kill(installed.s3.pid, signal.SIGSTOP)
    try:
        answer = installed.ready_once(store="unavailable")
        assert answer.document["checks"]["store"]["message"].startswith("no answer for ")
        assert installed.api.ask("GET", "/health").status == 200
    finally:
        os.kill(installed.s3.pid, signal.SIGCONT)

    assert installed.ready_once(store="ok").status == 200


def test_a_ledger_that_is_dead_is_said_and_its_return_too(installed: Installed) -> None:
    installed.postgres.kill()
    try:
        answer = installed.ready_once(ledger="unavailable")
        assert (answer.status, answer.document["checks"]["store"]["state"]) == (503, "ok")
        assert installed.metric("mtr_ledger_up") == 0
        listed = installed.api.ask("GET", "/v1/executions")
        assert (listed.status, listed.code) == (503, "ledger_unavailable")
    finally:
        installed.postgres.start()

    assert installed.ready_once(ledger="ok").status == 200
    assert installed.metric("mtr_ledger_up") == 1


def test_what_goes_through_is_counted(installed: Installed) -> None:
    received, refused = "mtr_http_received_bytes_total", {"method": "POST", "status": "422"}
    assert installed.api.ask("POST", "/v1/executions", b"{}").status == 422
    before, asked = installed.metric(received), installed.metric("mtr_http_requests_total", **refused)

    assert installed.api.ask("POST", "/v1/executions", b"{" + b" " * 998 + b"}").status == 422

    assert installed.metric(received) == before + 1_000
    assert installed.metric("mtr_http_requests_total", **refused) == asked + 1
