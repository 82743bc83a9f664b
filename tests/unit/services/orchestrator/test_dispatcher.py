"""Which executions a dispatcher takes care of, when, and what it survives."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from contracts.limits import DISPATCH_FIRST_PAUSE_SECONDS, DISPATCH_LONGEST_PAUSE_SECONDS
from runtime.installation import Installation
from runtime.ledger import Owner
from services.orchestrator import Dispatcher, dispatcher
from tests.assets.executions import settings_at
from tests.assets.submissions import submission

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


class Noticing(Dispatcher):
    """Keeps what it would have carried out."""

    def __init__(self, here: Installation) -> None:
        super().__init__(here)
        self.seen: list[str] = []

    def _carry_out(self, waiting) -> float:
        self.seen += [one.execution_id for one in waiting if self._may_start(one)]
        return 30.0


@pytest.fixture(autouse=True)
def no_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PREFECT_API_URL", raising=False)


@pytest.fixture
def here(tmp_path: Path) -> Iterator[Installation]:
    with Installation.open(settings_at(tmp_path / "home")) as installation:
        yield installation


def accept(here: Installation, *, announced: bool) -> str:
    return here.ledger.accept(submission(), label="x", announced=announced).execution.execution_id


def wait_until(holds, seconds: float = 20) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_what_it_is_told_is_carried_out_at_once(here: Installation) -> None:
    with Noticing(here) as opened:
        execution_id = accept(here, announced=False)
        opened.wake(execution_id)
        wait_until(lambda: execution_id in opened.seen)


def test_what_was_announced_while_nobody_was_there_is_carried_out(
    here: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dispatcher, "DISPATCH_UNTOLD_SECONDS", 0.0)
    earlier, later = accept(here, announced=True), accept(here, announced=True)
    with Noticing(here) as opened:
        wait_until(lambda: len(opened.seen) >= 2)
    assert opened.seen[:2] == [earlier, later]


def test_what_was_announced_a_moment_ago_is_left_to_whoever_accepted_it(here: Installation) -> None:
    accept(here, announced=True)
    assert [opened._may_start(one) for opened in [Noticing(here)] for one in opened._waiting()] == [False]


def test_a_persons_own_run_is_left_alone(here: Installation) -> None:
    accept(here, announced=False)
    assert Noticing(here)._waiting() == []


def test_what_somebody_works_on_is_left_alone(here: Installation) -> None:
    here.ledger.claim(accept(here, announced=True), Owner.here())
    assert Noticing(here)._waiting() == []


def test_what_has_ended_is_forgotten(here: Installation) -> None:
    opened = Noticing(here)
    execution_id = accept(here, announced=False)
    opened.wake(execution_id)
    assert len(opened._waiting()) == 1
    here.ledger.finish(
        execution_id, state="succeeded", result={"execution_id": execution_id}, error=None, artifacts=[], model=None
    )
    assert opened._waiting() == []
    assert opened._told == set()


@pytest.mark.slow
def test_a_ledger_that_is_away_only_delays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dispatcher, "DISPATCH_FIRST_PAUSE_SECONDS", 0.1)
    settings = settings_at(tmp_path / "home")
    with Installation.open(settings) as here:
        in_the_way = settings.home / "ledger.db"
        in_the_way.mkdir()
        with Noticing(here) as opened:
            opened.wake()
            time.sleep(0.5)
            in_the_way.rmdir()
            execution_id = accept(here, announced=False)
            opened.wake(execution_id)
            wait_until(lambda: execution_id in opened.seen)


def test_an_execution_that_comes_to_no_end_is_started_again_after_longer_and_longer_pauses() -> None:
    pauses = [dispatcher.pause_after(failures) for failures in range(1, 20)]
    assert pauses == sorted(pauses)
    assert (pauses[0], pauses[-1]) == (DISPATCH_FIRST_PAUSE_SECONDS, DISPATCH_LONGEST_PAUSE_SECONDS)
