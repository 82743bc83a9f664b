"""What Prefect loses, the platform does not: its server and its database go away in the middle of trainings."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from uuid import UUID

import pytest

from runtime.installation import Installation
from runtime.live_installation import Fixed
from services.bridge import Bridge
from services.orchestrator import Dispatcher
from tests.assets.api_server import ApiServer
from tests.assets.bridge_site import BridgeSite, bridge_environment
from tests.assets.platform_side import Platform
from tests.assets.prefect_stack import PrefectStack

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from runtime.ledger import Execution
    from tests.assets.rabbitmq_server import RabbitMqServer

pytestmark = [pytest.mark.service, pytest.mark.timeout(900)]

END_SECONDS = 400
AWAY_SECONDS = 15.0
"""Longer than a Prefect client tries again at once."""


@dataclass
class Doors:
    """An installation whose executions Prefect's workers carry out, submitted to by RabbitMQ and asked by HTTP."""

    prefect: PrefectStack
    site: BridgeSite
    api: ApiServer

    def submit(self, task_id: int, **parameters: Any) -> str:
        """The execution that the platform asked for, once the platform was told that it is recorded."""
        document = self.prefect.site.submission(data=self.prefect.data, **parameters).to_document()
        self.site.platform.submit({**document, "task": {**document["task"], "task_id": task_id}})
        self.site.platform.wait_until(lambda: self.site.platform.statuses(document["execution_id"])[:1] == [0])
        return str(document["execution_id"])

    def told_by_http(self, execution_id: str) -> dict[str, Any]:
        """The execution as the HTTP API tells it."""
        answer = self.api.ask("GET", f"/v1/executions/{execution_id}")
        assert answer.status == 200, answer.body
        return answer.document

    def await_execution(self, execution_id: str, holds: Callable[[Execution], bool]) -> Execution:
        """As the ledger has it, once `holds` is true of it."""
        deadline = time.monotonic() + END_SECONDS
        while not holds(found := self.site.here.ledger.get(execution_id)):
            assert time.monotonic() < deadline, (found.state, found.stage)
            time.sleep(0.1)
        return found

    def await_success(self, execution_id: str) -> None:
        """Returns once the platform was told the whole story, and nothing else is left of the execution."""
        self.site.platform.await_statuses(execution_id, 0, 1, 3, seconds=END_SECONDS)
        self.site.await_all_told()
        self.prefect.site.require_one_clean_success(execution_id)
        assert self.told_by_http(execution_id)["state"] == "succeeded"


@pytest.fixture
def doors(rabbitmq_server: RabbitMqServer, tmp_path: Path) -> Iterator[Doors]:
    """Everything of its own but for the broker."""
    prefect = PrefectStack.start(tmp_path, **bridge_environment(rabbitmq_server))
    settings = prefect.site.settings
    try:
        with (
            prefect.stack.as_client(),
            Installation.open(settings) as here,
            Platform(
                rabbitmq_server.url, exchange=settings.rabbitmq_exchange, queue=settings.rabbitmq_queue
            ) as platform,
            ApiServer(settings.home, **settings.to_environment(), **prefect.site.environ) as api,
            Dispatcher(here) as dispatcher,
            Bridge(Fixed(here), dispatcher),
        ):
            yield Doors(prefect, BridgeSite(here, platform), api)
    finally:
        prefect.stop()


def test_a_server_that_restarts_during_a_training_shows_its_end(doors: Doors) -> None:
    trained = doors.submit(51, epochs=4, pause_seconds=5)
    doors.await_execution(trained, lambda one: one.stage == "train")

    doors.prefect.kill_server()
    assert doors.told_by_http(trained)["state"] == "running"
    waited = doors.submit(52)
    time.sleep(AWAY_SECONDS)
    assert doors.told_by_http(waited)["state"] == "queued"
    doors.prefect.start_server()

    doors.await_success(trained)
    doors.await_success(waited)
    for execution_id in (trained, waited):
        run_id = doors.site.here.ledger.get(execution_id).flow_run_id
        assert run_id is not None
        assert doors.prefect.await_run(UUID(run_id), lambda run: run.state.is_final()).state.is_completed()


def test_a_database_that_is_lost_takes_no_execution_along(doors: Doors) -> None:
    trained = doors.submit(53, epochs=4, pause_seconds=5)
    doors.await_execution(trained, lambda one: one.stage == "train")

    doors.prefect.kill_server()
    assert doors.told_by_http(trained)["state"] == "running"
    waited = doors.submit(54)
    doors.prefect.start_server(empty=True)

    doors.await_success(trained)
    doors.await_success(waited)
