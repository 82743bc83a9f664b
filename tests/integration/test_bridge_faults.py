"""Whatever dies, is away for a while or comes back: by `message_id` nothing is lost and nothing is contradictory."""

from __future__ import annotations

import random
import time
from typing import TYPE_CHECKING

import pytest

from tests.assets.bridge_process import TAKES_SUBMISSIONS, start_bridge
from tests.assets.bridge_site import BridgeSite
from tests.assets.rabbitmq_server import RabbitMqServer
from tests.assets.submissions import submission_document

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.service

KILLS = 20
MOMENTS = [random.Random(f"kill {number}").uniform(0, 1.5) for number in range(KILLS)]
"""Seconds after the bridge has begun to take submissions; one takes about a second to its simulated end."""


@pytest.fixture
def own_broker(tmp_path: Path) -> Iterator[RabbitMqServer]:
    """A broker that a test may kill."""
    with RabbitMqServer(tmp_path / "rabbitmq") as server:
        yield server


def kill_at(site: BridgeSite, log: Path, seconds: float) -> None:
    """A bridge in a process of its own, killed so long after it has begun to take submissions."""
    said_before = log.read_text().count(TAKES_SUBMISSIONS) if log.exists() else 0
    process = start_bridge(site.here.settings, log, "succeeded")
    site.platform.wait_until(lambda: log.read_text().count(TAKES_SUBMISSIONS) > said_before)
    time.sleep(seconds)
    process.kill()
    process.wait(30)


def ended(process: subprocess.Popen[bytes]) -> int:
    """How the process ends after it was asked to."""
    process.terminate()
    return process.wait(60)


@pytest.mark.parametrize(
    "moments", [MOMENTS[:2], pytest.param(MOMENTS, marks=[pytest.mark.crash, pytest.mark.timeout(900)])], ids=len
)
def test_a_bridge_that_is_killed_at_any_moment_loses_and_doubles_nothing(
    rabbitmq_server: RabbitMqServer, tmp_path: Path, moments: list[float]
) -> None:
    with BridgeSite.open(rabbitmq_server, tmp_path) as site:
        documents = []
        for moment in moments:
            refused = {**submission_document(task={"task_id": 9, "task_kind": "classification"}), "surprise": 1}
            documents.append(submission_document())
            site.platform.submit(documents[-1], refused, b"no document", documents[0])
            kill_at(site, tmp_path / "bridge.log", moment)
        with site.simulated():
            site.platform.await_ends([one["execution_id"] for one in documents], seconds=180)
            site.platform.wait_until(lambda: site.platform.waiting() == 0)
            site.await_all_told()

        assert {tuple(site.platform.statuses(one["execution_id"])) for one in documents} == {(0, 1, 3)}
        letters = site.platform.dead_letters()
        assert {letter.body for letter in letters} == {b"no document"}
        assert len(letters) >= len(moments)  # a kill between a letter and its acknowledgement repeats it


def test_a_bridge_that_is_asked_to_end_finishes_what_it_has_at_hand(
    rabbitmq_server: RabbitMqServer, tmp_path: Path
) -> None:
    with BridgeSite.open(rabbitmq_server, tmp_path) as site:
        documents = [submission_document() for _ in range(30)]
        site.platform.submit(*documents)
        log = tmp_path / "bridge.log"
        process = start_bridge(site.here.settings, log, "succeeded")
        site.platform.wait_until(lambda: len(site.here.ledger.list()) > 3)

        assert ended(process) == 0
        recorded = len(site.here.ledger.list())
        assert recorded + site.platform.waiting() == len(documents)


def test_a_broker_that_is_killed_while_much_is_going_on_loses_nothing(
    own_broker: RabbitMqServer, tmp_path: Path
) -> None:
    with BridgeSite.open(own_broker, tmp_path) as site, site.simulated():
        before = [submission_document() for _ in range(10)]
        site.platform.submit(*before)
        site.platform.wait_until(lambda: len(site.platform.told) > 3)

        own_broker.restart()

        after = submission_document()
        site.platform.wait_until(lambda: _submits(site, after), seconds=90)
        site.platform.await_ends([one["execution_id"] for one in [*before, after]])
        site.await_all_told()
        assert {tuple(site.platform.statuses(one["execution_id"])) for one in [*before, after]} == {(0, 1, 3)}


def test_a_queue_of_submissions_that_is_deleted_is_made_again(rabbitmq_server: RabbitMqServer, tmp_path: Path) -> None:
    with BridgeSite.open(rabbitmq_server, tmp_path) as site, site.simulated() as bridge:
        site.platform.wait_until(lambda: bridge.state.consuming)
        site.platform._do(site.platform._channel.queue_delete(site.platform.queue))

        document = submission_document()
        site.platform.wait_until(lambda: _submits(site, document))
        site.platform.await_statuses(document["execution_id"], 0, 1, 3)


@pytest.mark.crash
def test_a_frozen_broker_is_given_up_and_found_again(own_broker: RabbitMqServer, tmp_path: Path) -> None:
    document = submission_document()
    with (
        BridgeSite.open(own_broker, tmp_path, MTR_RABBITMQ_HEARTBEAT_SECONDS="5") as site,
        site.simulated() as bridge,
    ):
        site.platform.wait_until(lambda: bridge.state.consuming and bridge.state.publishing)
        own_broker.freeze()
        try:
            site.platform.wait_until(lambda: bridge.state.fault is not None)
        finally:
            own_broker.thaw()
        site.platform.wait_until(lambda: _submits(site, document), seconds=90)
        site.platform.await_statuses(document["execution_id"], 0, 1, 3)
        site.await_all_told()


def _submits(site: BridgeSite, document: dict[str, object]) -> bool:
    """Whether the broker took the submission; while it is away, or its queue is, it does not."""
    try:
        site.platform.submit(document)
    except Exception:
        return False
    return True
