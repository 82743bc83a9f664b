"""Claims: one live process at a time works on an execution, and a dead one never stands in the way."""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys
from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import update

from contracts.errors import ExecutionBusyError, NotFoundError
from contracts.limits import CLAIM_EXPIRY_SECONDS
from runtime.ledger import Owner
from runtime.ledger.owners import _process_started
from runtime.ledger.schema import executions
from tests.assets import ledger_processes
from tests.assets.submissions import submission


@pytest.fixture
def execution_id(ledger) -> str:
    return ledger.accept(submission(), label="digits 0.1.0").execution.execution_id


def elsewhere() -> Owner:
    return dataclasses.replace(Owner.here(), host="another-machine")


def seen(ledger, ago_seconds: float) -> None:
    with ledger.database.writing() as connection:
        connection.execute(update(executions).values(owner_seen_at=datetime.now(UTC) - timedelta(seconds=ago_seconds)))


def test_a_claimed_execution_runs_and_says_who_holds_it(ledger, execution_id) -> None:
    claimed = ledger.claim(execution_id, Owner.here())

    assert (claimed.state, claimed.owner) == ("running", Owner.here())
    assert claimed.started_at is not None


def test_the_same_process_may_claim_again_and_the_start_stays(ledger, execution_id) -> None:
    first = ledger.claim(execution_id, Owner.here())

    assert ledger.claim(execution_id, Owner.here()).started_at == first.started_at


@pytest.mark.slow
def test_a_live_process_keeps_its_execution_and_loses_it_at_once_when_killed(url, ledger, execution_id) -> None:
    holder = ledger_processes.start("claim", url, execution_id)
    assert holder.stdout.readline() == "claimed\n"

    with pytest.raises(ExecutionBusyError, match=f"digits 0.1.0 is being worked on by process {holder.pid} on "):
        ledger.claim(execution_id, Owner.here())

    holder.kill()
    holder.communicate()
    assert ledger.claim(execution_id, Owner.here()).owner == Owner.here()


@pytest.mark.slow
def test_a_live_process_keeps_its_execution_however_long_it_is_silent(url, ledger, execution_id) -> None:
    holder = ledger_processes.start("claim", url, execution_id)
    assert holder.stdout.readline() == "claimed\n"
    seen(ledger, ago_seconds=10 * CLAIM_EXPIRY_SECONDS)

    with pytest.raises(ExecutionBusyError):
        ledger.claim(execution_id, Owner.here())

    holder.communicate("")


def test_a_process_that_only_its_parent_has_not_noticed_to_be_gone_is_gone() -> None:
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    owner = dataclasses.replace(Owner.here(), pid=child.pid, process_started=_process_started(child.pid))
    assert owner.is_gone() is False

    child.kill()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)  # it has ended, and remains as a zombie
    assert owner.is_gone() is True
    child.communicate()


def test_a_later_process_with_the_same_number_is_another() -> None:
    assert dataclasses.replace(Owner.here(), process_started=1).is_gone() is True


def test_a_process_before_the_machine_was_started_again_is_gone() -> None:
    assert dataclasses.replace(Owner.here(), boot_id="earlier").is_gone() is True


def test_a_process_of_another_machine_or_container_cannot_be_seen() -> None:
    assert elsewhere().is_gone() is None
    assert dataclasses.replace(Owner.here(), pid_namespace="pid:[1]").is_gone() is None


def test_an_owner_elsewhere_keeps_its_execution_while_it_reports(ledger, execution_id) -> None:
    ledger.claim(execution_id, elsewhere())
    seen(ledger, ago_seconds=CLAIM_EXPIRY_SECONDS + 1)
    assert ledger.heartbeat(execution_id, elsewhere())

    with pytest.raises(ExecutionBusyError, match="on another-machine"):
        ledger.claim(execution_id, Owner.here())


def test_an_owner_elsewhere_that_fell_silent_has_lost_its_execution(ledger, execution_id) -> None:
    ledger.claim(execution_id, elsewhere())
    seen(ledger, ago_seconds=CLAIM_EXPIRY_SECONDS + 1)

    ledger.claim(execution_id, Owner.here())

    assert not ledger.heartbeat(execution_id, elsewhere())
    assert ledger.heartbeat(execution_id, Owner.here())


def test_a_released_execution_can_be_claimed_by_anyone(ledger, execution_id) -> None:
    ledger.claim(execution_id, elsewhere())
    ledger.release(execution_id, elsewhere())

    assert ledger.claim(execution_id, Owner.here()).owner == Owner.here()


def test_releasing_what_another_holds_changes_nothing(ledger, execution_id) -> None:
    ledger.claim(execution_id, elsewhere())
    ledger.release(execution_id, Owner.here())

    assert ledger.get(execution_id).owner == elsewhere()


def test_an_ended_execution_is_answered_and_not_held(ledger, execution_id) -> None:
    ledger.finish(execution_id, state="failed", result={}, error={"code": "internal"}, artifacts=[], model=None)

    answered = ledger.claim(execution_id, Owner.here())

    assert (answered.state, answered.owner) == ("failed", None)


def test_time_in_stages_adds_up_in_the_order_of_first_entry(ledger, execution_id) -> None:
    ledger.claim(execution_id, Owner.here())
    for stage in ("validate_submission", "train", "validate_submission"):
        ledger.enter_stage(execution_id, stage)
    ledger.add_stage_seconds(execution_id, {"train": 40.0, "materialize_inputs": 2.5})

    found = ledger.get(execution_id)

    assert found.stage == "validate_submission"
    assert list(found.timings) == ["validate_submission", "train", "materialize_inputs"]
    assert 40.0 <= found.timings["train"] < 45.0
    assert found.timings["materialize_inputs"] == 2.5


def test_a_stage_that_a_dead_process_was_in_counts_until_it_was_last_seen(ledger, execution_id) -> None:
    ledger.claim(execution_id, elsewhere())
    ledger.enter_stage(execution_id, "train")
    with ledger.database.writing() as connection:
        now = datetime.now(UTC)
        connection.execute(
            update(executions).values(
                stage_entered_at=now - timedelta(hours=2), owner_seen_at=now - timedelta(hours=2) + timedelta(seconds=7)
            )
        )

    ledger.claim(execution_id, Owner.here())

    assert ledger.get(execution_id).timings == {"train": 7.0}


def test_a_clock_that_was_set_back_takes_no_time_away(ledger, execution_id) -> None:
    ledger.enter_stage(execution_id, "train")
    with ledger.database.writing() as connection:
        connection.execute(update(executions).values(stage_entered_at=datetime.now(UTC) + timedelta(hours=1)))

    ledger.enter_stage(execution_id, "verify_artifacts")

    assert ledger.get(execution_id).timings == {"train": 0.0, "verify_artifacts": 0.0}


def test_a_request_to_cancel_is_seen_by_whoever_works_on_it(ledger, execution_id) -> None:
    assert not ledger.cancel_requested(execution_id)

    assert ledger.request_cancel(execution_id).cancel_requested

    assert ledger.cancel_requested(execution_id)


def test_an_ended_execution_cannot_be_cancelled(ledger, execution_id) -> None:
    ledger.finish(execution_id, state="succeeded", result={}, error=None, artifacts=[], model=None)

    answered = ledger.request_cancel(execution_id)

    assert (answered.state, answered.cancel_requested) == ("succeeded", False)


def test_an_unknown_execution_is_not_found_by_any_call(ledger) -> None:
    for call in (
        lambda: ledger.claim("x", Owner.here()),
        lambda: ledger.release("x", Owner.here()),
        lambda: ledger.enter_stage("x", "train"),
        lambda: ledger.request_cancel("x"),
        lambda: ledger.cancel_requested("x"),
        lambda: ledger.begin_attempt("x"),
        lambda: ledger.set_flow_run("x", "y", None),
        lambda: ledger.set_workspace_cleaned("x", True),
    ):
        with pytest.raises(NotFoundError, match="no execution x"):
            call()
