"""Announced executions come to their end on a Prefect server's workers, and in processes of their own, whatever dies."""

from __future__ import annotations

import os
import signal
import time
import uuid
from typing import TYPE_CHECKING

import pytest
from prefect.states import Cancelled, Scheduled

from runtime.installation import Installation
from services.orchestrator import Dispatcher, dispatcher
from tests.assets.executions import Site, settings_at, write_images

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from runtime.ledger import Execution
    from tests.assets.prefect_stack import PrefectStack

pytestmark = [pytest.mark.service, pytest.mark.timeout(600)]


def await_execution(
    here: Installation, execution_id: str, holds: Callable[[Execution], bool], seconds: float = 240
) -> Execution:
    """The execution, once `holds` is true of it."""
    deadline = time.monotonic() + seconds
    while not holds(found := here.ledger.get(execution_id)):
        assert time.monotonic() < deadline, (found.state, found.stage)
        time.sleep(0.1)
    return found


@pytest.fixture
def deployed(prefect_stack: PrefectStack, monkeypatch: pytest.MonkeyPatch) -> Iterator[Installation]:
    """The installation that the stack's workers serve, with their server as this process's own."""
    monkeypatch.setattr(dispatcher, "DISPATCH_UNTOLD_SECONDS", 0.0)
    with prefect_stack.stack.as_client(), Installation.open(prefect_stack.site.settings) as here:
        yield here


def accepted(here: Installation, site: Site, data: Path, **parameters: object) -> str:
    submission = site.submission(data=data, **parameters)
    return here.ledger.accept(submission, label="quick", announced=True).execution.execution_id


def test_a_worker_carries_out_what_was_announced_while_nobody_was_there(
    deployed: Installation, prefect_stack: PrefectStack
) -> None:
    execution_id = accepted(deployed, prefect_stack.site, prefect_stack.data)
    with Dispatcher(deployed):
        execution = await_execution(deployed, execution_id, lambda one: one.ended)
    assert (execution.state, execution.flow_run_id is not None) == ("succeeded", True)
    assert not (deployed.settings.executions_root / execution_id / "detached.log").exists()
    prefect_stack.site.require_one_clean_success(execution_id)


def test_a_run_that_a_lost_prefect_database_forgot_is_started_anew(
    deployed: Installation, prefect_stack: PrefectStack
) -> None:
    execution_id = accepted(deployed, prefect_stack.site, prefect_stack.data)
    forgotten = str(uuid.uuid4())
    deployed.ledger.set_flow_run(execution_id, forgotten, None)
    with Dispatcher(deployed):
        execution = await_execution(deployed, execution_id, lambda one: one.ended)
    assert execution.state == "succeeded"
    assert execution.flow_run_id != forgotten


def test_a_run_that_was_cancelled_in_prefect_before_it_began_ends_its_execution(
    deployed: Installation, prefect_stack: PrefectStack
) -> None:
    execution_id = accepted(deployed, prefect_stack.site, prefect_stack.data)
    with prefect_stack.client() as client:
        deployment = client.read_deployment_by_name("execute-training/platform")
        run = client.create_flow_run_from_deployment(
            deployment.id, parameters={"execution_id": execution_id}, state=Scheduled()
        )
        client.set_flow_run_state(run.id, Cancelled(), force=True)
    deployed.ledger.set_flow_run(execution_id, str(run.id), None)
    with Dispatcher(deployed):
        execution = await_execution(deployed, execution_id, lambda one: one.ended)
    assert execution.state == "cancelled"


@pytest.fixture
def alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Installation]:
    """An installation without any Prefect server."""
    monkeypatch.delenv("PREFECT_API_URL", raising=False)
    monkeypatch.setattr(dispatcher, "DISPATCH_UNTOLD_SECONDS", 0.0)
    with Installation.open(settings_at(tmp_path / "home")) as here:
        yield here


def test_a_dispatcher_that_follows_another_at_once_starts_nothing_twice(alone: Installation, tmp_path: Path) -> None:
    site = Site(alone.settings)
    execution_id = accepted(alone, site, write_images(tmp_path / "images"))
    log = alone.settings.executions_root / execution_id / "detached.log"
    with Dispatcher(alone) as first:
        first.wake(execution_id)
        _wait_until(log.exists)
    with Dispatcher(alone) as second:
        second.wake(execution_id)
        await_execution(alone, execution_id, lambda one: one.ended)

    site.require_one_clean_success(execution_id)
    assert "execution_busy" not in log.read_text()
    assert log.read_text().count("▸ validate_submission") == 1


@pytest.mark.crash
def test_a_killed_process_is_followed_by_another(
    alone: Installation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dispatcher, "DISPATCH_FIRST_PAUSE_SECONDS", 1.0)
    site = Site(alone.settings)
    execution_id = accepted(alone, site, write_images(tmp_path / "images"), epochs=3, pause_seconds=1)
    with Dispatcher(alone):
        held = await_execution(alone, execution_id, lambda one: one.stage == "train" and one.owner is not None)
        os.kill(held.owner.pid, signal.SIGKILL)
        await_execution(alone, execution_id, lambda one: one.ended)
    site.require_one_clean_success(execution_id)


def _wait_until(holds: Callable[[], bool], seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.02)
