"""Submissions by RabbitMQ that really train, in processes of their own, while the world around them misbehaves."""

from __future__ import annotations

import contextlib
import logging
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from runtime.installation import Installation
from runtime.live_installation import Fixed
from runtime.store.objects import open_store
from services.bridge import Bridge
from services.orchestrator import Dispatcher
from tests.assets.bridge_site import BridgeSite, without
from tests.assets.executions import Site, write_images
from tests.assets.rabbitmq_server import RabbitMqServer
from tests.assets.s3_server import S3Server

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = [pytest.mark.service, pytest.mark.timeout(600)]

TRAINING_SECONDS = 300


@dataclass
class Trainings:
    """A bridge whose executions are carried out, and what to submit to it."""

    site: BridgeSite
    data: Path

    def document(self, task_id: int, **parameters: Any) -> dict[str, Any]:
        """A submission of the quick package, its package and data stored."""
        submission = Site(self.site.here.settings).submission(data=self.data, **parameters)
        document = submission.to_document()
        return {**document, "task": {**document["task"], "task_id": task_id}}

    @contextlib.contextmanager
    def bridge(self) -> Iterator[Bridge]:
        """While the block lasts, a bridge that has executions carried out."""
        with Dispatcher(self.site.here) as dispatcher, Bridge(Fixed(self.site.here), dispatcher) as bridge:
            yield bridge

    def await_success(self, document: dict[str, Any]) -> None:
        """Returns once the platform was told everything, and nothing else is left of the execution."""
        self.site.platform.await_statuses(document["execution_id"], 0, 1, 3, seconds=TRAINING_SECONDS)
        self.site.await_all_told()
        Site(self.site.here.settings).require_one_clean_success(document["execution_id"])


@pytest.fixture
def trainings(rabbitmq_server: RabbitMqServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Trainings]:
    """With the shortest heartbeat that a test has time for."""
    monkeypatch.delenv("PREFECT_API_URL", raising=False)
    with BridgeSite.open(rabbitmq_server, tmp_path, MTR_RABBITMQ_HEARTBEAT_SECONDS="10") as site:
        yield Trainings(site, write_images(tmp_path / "images"))


def test_a_training_is_told_from_its_queue_to_its_model(trainings: Trainings) -> None:
    document = trainings.document(41, epochs=2)
    with trainings.bridge():
        trainings.site.platform.submit(document)
        trainings.await_success(document)

    told = trainings.site.platform.of(document["execution_id"])
    assert [(one.routing_key, one.body["task_id"]) for one in told] == [
        *[("task.status.update", 41)] * 3,
        ("model.registered", 41),
    ]
    execution = trainings.site.here.ledger.get(document["execution_id"])
    assert told[2].body["extra_data"] == {
        "backend": "training_code_runtime",
        "execution_id": document["execution_id"],
        "result": execution.result,
        "artifacts": execution.artifacts,
    }
    model = next(one["object"] for one in execution.artifacts if one["artifact"]["deployable"])
    assert without(told[3].body["model_info"], "loss") == {
        "onnx_save_path": model["object_key"],
        "save_path": None,
        "task_kind": "classification",
        "class_names": ["bus", "car"],
        "trained_model_name": "quick-task-41",
        "runtime_template": "onnx_classification",
        "execution_id": document["execution_id"],
    }
    assert trainings.site.here.store.stat("models", model["object_key"]).size_bytes == model["size_bytes"]
    assert "epoch 2 val: accuracy" in "\n".join(trainings.site.logs())


@pytest.mark.crash
def test_the_connection_outlives_a_training_that_is_longer_than_the_heartbeat(
    trainings: Trainings, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, logger="services.bridge")
    document = trainings.document(42, epochs=1, pause_seconds=35)
    with trainings.bridge():
        trainings.site.platform.submit(document)
        trainings.await_success(document)

    connected = [record.message for record in caplog.records if "by way of" in record.message]
    assert sorted(one.split()[0] for one in connected) == ["consuming", "publishing"]  # once each, never again


@pytest.mark.crash
def test_a_broker_that_restarts_during_a_training_learns_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PREFECT_API_URL", raising=False)
    with RabbitMqServer(tmp_path / "rabbitmq") as broker, BridgeSite.open(broker, tmp_path) as site:
        trainings = Trainings(site, write_images(tmp_path / "images"))
        document = trainings.document(43, epochs=5, pause_seconds=2)
        with trainings.bridge():
            site.platform.submit(document)
            site.platform.await_statuses(document["execution_id"], 0, 1, seconds=TRAINING_SECONDS)
            broker.restart()
            trainings.await_success(document)


@pytest.mark.crash
def test_a_store_that_is_away_for_half_a_minute_delays_an_execution(
    rabbitmq_server: RabbitMqServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PREFECT_API_URL", raising=False)
    with (
        S3Server(tmp_path / "s3") as store,
        BridgeSite.open(rabbitmq_server, tmp_path, **store.environment(f"t{uuid.uuid4().hex[:10]}")) as site,
    ):
        open_store(site.here.settings).ensure_buckets()
        trainings = Trainings(site, write_images(tmp_path / "images"))
        document = trainings.document(44)
        with trainings.bridge():
            store.stop()
            site.platform.submit(document)
            site.platform.await_statuses(document["execution_id"], 0, 1, seconds=TRAINING_SECONDS)
            log = site.here.settings.executions_root / document["execution_id"] / "detached.log"
            site.platform.wait_until(lambda: "storage_unavailable" in log.read_text(), seconds=TRAINING_SECONDS)
            store.start()
            trainings.await_success(document)


@pytest.mark.crash
def test_a_bridge_that_ends_leaves_its_training_running_and_another_tells_of_it(trainings: Trainings) -> None:
    document = trainings.document(45, epochs=5, pause_seconds=2)
    with trainings.bridge():
        trainings.site.platform.submit(document)
        trainings.site.platform.await_statuses(document["execution_id"], 0, 1, seconds=TRAINING_SECONDS)
    with Installation.open(trainings.site.here.settings) as here, Bridge(Fixed(here), Dispatcher(here)):
        trainings.await_success(document)  # without anybody who could have carried it out anew
