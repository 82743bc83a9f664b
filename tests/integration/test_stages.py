"""A stage as a task on a real Prefect server: its retries, its name, and the error that reaches the flow."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from prefect import flow
from prefect.settings import PREFECT_FLOWS_HEARTBEAT_FREQUENCY, temporary_settings

from contracts.errors import DigestMismatchError, InternalError, RuntimeFault, StorageUnavailableError
from tasks import stage as stages
from tasks.stage import step

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from prefect.client.schemas.objects import TaskRun

    from tests.assets.prefect_stack import PrefectStack

pytestmark = pytest.mark.service

AWAY = StorageUnavailableError("no answer", hint="Repeat.")
CHANGED = DigestMismatchError("other bytes", hint="Restore them.")


class Tried:
    """How often a function was called, what reached the flow, and what Prefect shows."""

    def __init__(self, result: object, error: Exception | None, calls: int, shown: TaskRun) -> None:
        self.result, self.error, self.calls, self.shown = result, error, calls, shown


@pytest.fixture
def tried(prefect_stack: PrefectStack, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Tried]]:
    """Runs a step that ends one way after the other."""
    monkeypatch.setattr(stages, "RETRY_DELAY_SECONDS", (0.0, 0.0))

    def run(*ends: Exception | str, retried: bool = True) -> Tried:
        left, seen = list(ends), {}

        @step(retried=retried)
        def work() -> str:
            end = left.pop(0)
            if isinstance(end, Exception):
                raise end
            return end

        @flow(name="test", persist_result=False)
        def whole() -> str:
            try:
                seen["result"] = work()
            except RuntimeFault as error:
                seen["error"] = error
            return "done"

        with temporary_settings({PREFECT_FLOWS_HEARTBEAT_FREQUENCY: None}):
            state = whole(return_state=True)
        shown = prefect_stack.only_task(state.state_details.flow_run_id)
        return Tried(seen.get("result"), seen.get("error"), len(ends) - len(left), shown)

    with prefect_stack.stack.as_client():
        yield run


def test_a_step_returns_what_its_function_returned(tried) -> None:
    done = tried("done")
    assert (done.result, done.shown.state.name, done.shown.name) == ("done", "Completed", "work")


def test_a_store_that_comes_back_costs_nothing_but_time(tried) -> None:
    done = tried(AWAY, AWAY, "done")
    assert (done.result, done.calls, done.shown.run_count) == ("done", 3, 3)


def test_a_store_that_stays_away_is_told_by_name(tried) -> None:
    done = tried(AWAY, AWAY, AWAY, "too late")
    assert done.error is AWAY
    assert (done.calls, done.shown.state.name, done.shown.state.message) == (
        3,
        "StorageUnavailable",
        "no answer. Repeat.",
    )


def test_what_will_not_change_is_not_tried_again(tried) -> None:
    done = tried(CHANGED, "never")
    assert done.error is CHANGED
    assert (done.calls, done.shown.state.name) == (1, "DigestMismatch")


def test_a_step_without_retries_is_called_once(tried) -> None:
    assert tried(AWAY, "never", retried=False).calls == 1


def test_a_defect_is_internal_and_keeps_its_cause(tried) -> None:
    defect = KeyError("x")
    done = tried(defect, "never")
    assert isinstance(done.error, InternalError)
    assert done.error.__cause__ is defect
    assert (done.calls, done.shown.state.name) == (1, "Internal")
