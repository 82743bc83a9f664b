"""Which attempt decides, and whether another one follows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from prefect.logging import disable_run_logger
from prefect.states import Completed, Crashed, Failed

from contracts.dataset import DatasetManifest
from contracts.errors import (
    CancelledError,
    KilledError,
    OutOfMemoryError,
    PackageRaisedError,
    RuntimeFault,
    StorageUnavailableError,
)
from contracts.package import PackageManifest
from flows import attempts
from flows.attempts import train_in_attempts
from runtime.handover import AttemptEnd, Plan
from runtime.installation import Installation
from runtime.ledger import Owner
from runtime.settings import Settings
from tasks.admit_execution import AdmittedPlan
from tasks.run import Host, Run
from tasks.states import failed_state
from tests.assets import documents
from tests.assets.submissions import submission

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


class Bench:
    """One held execution whose attempts end as a test says."""

    def __init__(self, folder: Path, **settings: object) -> None:
        self.installation = Installation.open(Settings(home=folder, **settings))
        asked = submission()
        self.execution_id = asked.execution_id
        self.installation.ledger.accept(asked, label="digits 0.1.0")
        self.installation.ledger.claim(asked.execution_id, Owner.here())
        self.run = Run.of(Host(self.installation), asked.execution_id)
        plan = Plan(
            label="digits 0.1.0",
            submission=asked,
            manifest=PackageManifest.model_validate(documents.package()),
            dataset=DatasetManifest(task_kind="classification", data_modalities=("image",)),
        )
        self.admitted = AdmittedPlan(plan, plan.publish(self.installation.store))
        self.memory: list[int | None] = []

    def end(self, number: int, fault: RuntimeFault | None = None) -> AttemptEnd:
        """An end record in the store, as an attempt leaves it."""
        return AttemptEnd(
            execution_id=self.execution_id,
            attempt=number,
            outcome=fault.code if fault else "succeeded",
            stage="train" if fault else None,
            error=fault.to_document() if fault else None,
            training_finished=fault is None,
        ).publish(self.installation.store)

    def train(self, watch: Callable[[], bool] = lambda: False) -> AttemptEnd:
        return train_in_attempts(self.run, self.admitted, watch)

    def outcomes(self) -> list[str | None]:
        return [one.outcome for one in self.installation.ledger.attempts(self.execution_id)]


@pytest.fixture
def ending(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Callable[..., Bench]]:
    """A bench whose attempts end one after the other as given: an error, None for a success, or a bare Prefect state."""
    benches: list[Bench] = []

    def make(*ends: object, **settings: object) -> Bench:
        bench = Bench(tmp_path, **settings)
        benches.append(bench)
        left = list(ends)

        def attempt(_run, plan, attempt, _watch):
            bench.memory.append(plan.get("memory_bytes"))
            how = left.pop(0)
            if how is None or isinstance(how, RuntimeFault):
                bench.end(attempt.number, how)
                return Completed() if how is None else failed_state(how)
            return how

        monkeypatch.setattr(attempts, "_in_process", attempt)
        return bench

    with disable_run_logger():
        yield make
    for bench in benches:
        bench.installation.close()


KILLED = KilledError("killed", hint="Look at what kills.")
OUT_OF_MEMORY = OutOfMemoryError("1 GiB reached", hint="Use --memory 8GiB.")
RAISED = PackageRaisedError("ValueError", hint="Correct it.")
STORE_AWAY = StorageUnavailableError("no answer", hint="Repeat.")


def test_a_success_is_one_attempt(ending) -> None:
    bench = ending(None)
    assert bench.train().fault() is None
    assert bench.outcomes() == ["succeeded"]


def test_a_killed_attempt_is_followed_by_another(ending) -> None:
    bench = ending(KILLED, None)
    assert bench.train().attempt == 2
    assert bench.outcomes() == ["killed", "succeeded"]


def test_an_attempt_whose_process_is_gone_is_followed_by_another(ending) -> None:
    bench = ending(Crashed(), None)
    assert bench.train().attempt == 2
    assert bench.outcomes() == ["attempt_lost", "succeeded"]


def test_attempts_are_bounded(ending) -> None:
    bench = ending(KILLED, KILLED, KILLED, max_attempts=3)
    assert bench.train().outcome == "killed"
    assert bench.outcomes() == ["killed"] * 3


def test_what_a_package_did_is_never_tried_again(ending) -> None:
    bench = ending(RAISED)
    assert bench.train().outcome == "package_raised"


def test_an_unknown_failure_is_never_tried_again(ending) -> None:
    bench = ending(Failed(message="no module named flows"))
    assert bench.train().outcome == "internal"


def test_memory_is_not_tried_again_unless_the_operator_allows_more(ending) -> None:
    bench = ending(OUT_OF_MEMORY)
    assert bench.train().outcome == "out_of_memory"


def test_memory_is_tried_once_more_with_more(ending) -> None:
    bench = ending(OUT_OF_MEMORY, OUT_OF_MEMORY, oom_memory_factor=2.0)
    assert bench.train().outcome == "out_of_memory"
    assert bench.memory == [None, 2048]


def test_a_cancellation_before_training_starts_nothing(ending) -> None:
    bench = ending()
    with pytest.raises(CancelledError):
        bench.train(watch=lambda: True)
    assert bench.outcomes() == []


def test_a_cancelled_attempt_is_not_followed_by_another(ending) -> None:
    bench = ending(CancelledError("cancelled", hint="Start it anew."))
    assert bench.train().outcome == "cancelled"
    assert bench.outcomes() == ["cancelled"]


def test_a_store_that_is_away_ends_nothing_but_the_attempt(ending) -> None:
    bench = ending(failed_state(STORE_AWAY), None)
    with pytest.raises(StorageUnavailableError):
        bench.train()
    assert bench.outcomes() == ["storage_unavailable"]
    assert bench.train().attempt == 2


def test_an_end_that_an_earlier_process_left_decides(ending) -> None:
    bench = ending()
    bench.installation.ledger.begin_attempt(bench.execution_id)
    bench.end(1)
    assert bench.train().fault() is None
    assert bench.outcomes() == ["succeeded"]


def test_evidence_replaces_a_lost_attempt(ending) -> None:
    bench = ending()
    ledger = bench.installation.ledger
    ledger.begin_attempt(bench.execution_id)
    ledger.begin_attempt(bench.execution_id)
    assert bench.outcomes() == ["attempt_lost", None]
    bench.end(1)
    assert bench.train().attempt == 1
    assert bench.outcomes()[0] == "succeeded"


def test_a_killed_end_of_an_earlier_process_is_followed_by_another_attempt(ending) -> None:
    bench = ending(None)
    bench.installation.ledger.begin_attempt(bench.execution_id)
    bench.end(1, KILLED)
    assert bench.train().attempt == 2
    assert bench.outcomes() == ["killed", "succeeded"]


def test_an_attempt_that_left_nothing_is_lost(ending) -> None:
    bench = ending(None)
    bench.installation.ledger.begin_attempt(bench.execution_id)
    assert bench.train().attempt == 2
    assert bench.outcomes() == ["attempt_lost", "succeeded"]


def test_an_attempt_that_was_given_up_has_its_end_for_good(ending) -> None:
    bench = ending(Crashed(), None)
    bench.train()
    assert bench.end(1).outcome == "attempt_lost"


def test_an_attempt_of_an_earlier_process_has_its_end_before_another_begins(ending) -> None:
    bench = ending(None)
    bench.installation.ledger.begin_attempt(bench.execution_id)
    bench.train()
    assert bench.end(1).outcome == "attempt_lost"


def test_an_end_that_comes_just_before_its_attempt_is_given_up_decides(ending, monkeypatch: pytest.MonkeyPatch) -> None:
    bench = ending()
    bench.installation.ledger.begin_attempt(bench.execution_id)
    monkeypatch.setattr(attempts, "_take_up", lambda _run: None)  # it looked a moment too early
    bench.end(1)
    assert bench.train().attempt == 1
    assert bench.outcomes() == ["succeeded"]


def test_a_store_that_was_away_leaves_its_attempt_open_for_late_evidence(ending) -> None:
    bench = ending(failed_state(STORE_AWAY))
    with pytest.raises(StorageUnavailableError):
        bench.train()
    assert bench.end(1).outcome == "succeeded"
