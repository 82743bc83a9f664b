"""Attempts, ends and the outbox: what belongs together is one transaction, and an end never changes."""

from __future__ import annotations

import sqlite3

import pytest
from sqlalchemy.exc import StatementError

from contracts.errors import ConflictError, NotFoundError
from contracts.references import Pinned
from runtime.ledger import Ledger, OutboxMessage, Owner
from tests.assets import ledger_processes
from tests.assets.submissions import submission

SUCCESS = {"state": "succeeded", "result": {"status": "succeeded"}, "error": None, "artifacts": [], "model": None}
FAILURE = {
    "state": "failed",
    "result": {"status": "failed"},
    "error": {"code": "timeout", "message": "too long\0", "hint": "h", "context": {}},
    "artifacts": [],
    "model": None,
}


@pytest.fixture
def execution_id(ledger) -> str:
    return ledger.accept(submission(), label="x").execution.execution_id


def test_an_end_is_written_whole(ledger, execution_id) -> None:
    ledger.claim(execution_id, Owner.here())
    artifact = {"artifact": {"path": "m.onnx"}, "object": {"bucket": "models"}}
    model = {"name": "digits", "version": 1}

    finished = ledger.finish(execution_id, **SUCCESS | {"artifacts": [artifact], "model": model})

    found = ledger.get(execution_id)
    assert finished.created
    assert finished.execution == found
    assert (found.state, found.artifacts, found.model, found.error, found.owner) == (
        "succeeded", [artifact], model, None, None,
    )  # fmt: skip
    assert found.ended
    assert found.ended_at is not None


def test_the_same_end_again_is_answered(ledger, execution_id) -> None:
    first = ledger.finish(execution_id, **FAILURE)

    again = ledger.finish(execution_id, **FAILURE)

    assert (again.created, again.execution) == (False, first.execution)


def test_another_end_is_refused_and_the_first_stays(ledger, execution_id) -> None:
    ledger.finish(execution_id, **SUCCESS)

    with pytest.raises(ConflictError, match=r"has ended \(succeeded\); another end differs at state"):
        ledger.finish(execution_id, **FAILURE, messages=[OutboxMessage("task.status.update", 4, {})])

    assert ledger.get(execution_id).state == "succeeded"
    assert ledger.pending_messages() == ()


def test_an_end_whose_messages_cannot_be_written_is_not_written_either(ledger, execution_id) -> None:
    unwritable = OutboxMessage("task.status.update", 2, {"loss": float("nan")})

    with pytest.raises((StatementError, ValueError)):
        ledger.finish(execution_id, **SUCCESS, messages=[OutboxMessage("task.status.update", 1, {}), unwritable])

    assert ledger.get(execution_id).state == "queued"
    assert ledger.pending_messages() == ()


@pytest.mark.slow
def test_a_process_killed_at_any_moment_leaves_ends_with_their_messages_or_neither(url) -> None:
    for _ in range(3):
        worker = ledger_processes.start("finish_forever", url)
        assert worker.stdout.readline() == "working\n"
        with Ledger.open(url) as ledger:
            before = len(ledger.list(limit=None))
            while len(ledger.list(limit=None)) < before + 5:  # until it is in the middle of its work
                pass
        worker.kill()
        worker.communicate()

    with Ledger.open(url) as ledger:
        ended = {found.execution_id for found in ledger.list(state="succeeded", limit=None)}
        messages = ledger.pending_messages(limit=100_000)
    assert ended
    assert len(messages) == 2 * len(ended)
    assert {message.execution_id for message in messages} == ended


@pytest.mark.slow
def test_a_process_killed_while_it_writes_leaves_a_sound_file(sqlite_url, tmp_path) -> None:
    worker = ledger_processes.start("finish_forever", sqlite_url)
    assert worker.stdout.readline() == "working\n"
    with Ledger.open(sqlite_url) as ledger:
        while len(ledger.list()) < 5:  # until it is in the middle of its work
            pass
    worker.kill()
    worker.communicate()

    with sqlite3.connect(tmp_path / "home" / "ledger.db") as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    connection.close()


def test_a_late_process_moves_no_stage_of_an_ended_execution(ledger, execution_id) -> None:
    ledger.enter_stage(execution_id, "publish_outcome")
    ledger.finish(execution_id, **SUCCESS)

    ledger.enter_stage(execution_id, "train")

    assert ledger.get(execution_id).stage == "publish_outcome"


def test_the_shape_that_scripts_rely_on(ledger, execution_id) -> None:
    ledger.set_flow_run(execution_id, "f", "http://127.0.0.1:4200/runs/f")
    ledger.finish(execution_id, **FAILURE)
    ledger.set_workspace_cleaned(execution_id, True)

    assert ledger.get(execution_id).to_document() == {
        "execution_id": execution_id,
        "state": "failed",
        "stage": None,
        "error": FAILURE["error"],
        "result": FAILURE["result"],
        "artifacts": [],
        "model": None,
        "workspace_cleaned": True,
        "ui_url": "http://127.0.0.1:4200/runs/f",
        "timings": {},
    }


def end(ledger, execution_id, number, outcome, **changes):
    record = {"record": {"exit_code": 0}, "paid_seconds": 3.5, "training_finished": True} | changes
    return ledger.end_attempt(execution_id, number, outcome=outcome, **record)


def test_attempts_count_up_and_keep_what_was_paid(ledger, execution_id) -> None:
    ledger.begin_attempt(execution_id, flow_run_id="f")
    end(ledger, execution_id, 1, "killed", training_finished=False)
    ledger.begin_attempt(execution_id)
    end(ledger, execution_id, 2, "succeeded")

    first, second = ledger.attempts(execution_id)
    assert (first.number, first.outcome, first.flow_run_id, first.training_finished) == (1, "killed", "f", False)
    assert (second.number, second.outcome, second.paid_seconds, second.record) == (
        2, "succeeded", 3.5, {"exit_code": 0},
    )  # fmt: skip


def test_a_new_attempt_closes_one_that_was_left_open_as_lost(ledger, execution_id) -> None:
    ledger.begin_attempt(execution_id)

    assert ledger.begin_attempt(execution_id).number == 2
    assert [attempt.outcome for attempt in ledger.attempts(execution_id)] == ["attempt_lost", None]


def test_evidence_found_later_replaces_a_lost_attempt(ledger, execution_id) -> None:
    ledger.begin_attempt(execution_id)
    ledger.begin_attempt(execution_id)

    end(ledger, execution_id, 1, "succeeded")

    assert ledger.attempts(execution_id)[0].training_finished


def test_the_first_end_of_an_attempt_stays(ledger, execution_id) -> None:
    ledger.begin_attempt(execution_id)
    end(ledger, execution_id, 1, "succeeded")

    assert end(ledger, execution_id, 1, "succeeded", paid_seconds=99.0).paid_seconds == 3.5
    with pytest.raises(ConflictError, match="ended with succeeded, not killed"):
        end(ledger, execution_id, 1, "killed")


def test_an_attempt_that_nobody_began_is_not_found(ledger, execution_id) -> None:
    with pytest.raises(NotFoundError, match="has no attempt 1"):
        end(ledger, execution_id, 1, "succeeded")


def test_an_ended_execution_gets_no_further_attempt(ledger, execution_id) -> None:
    ledger.finish(execution_id, **SUCCESS)

    with pytest.raises(ConflictError, match="has ended"):
        ledger.begin_attempt(execution_id)


def test_messages_are_pending_in_their_order_until_they_are_confirmed(ledger, execution_id) -> None:
    ledger.enqueue(execution_id, [OutboxMessage("task.status.update", number, {"n": number}) for number in (0, 1)])
    ledger.finish(execution_id, **SUCCESS, messages=[OutboxMessage("model.registered", 0, {})])

    first = ledger.pending_messages()[0]
    ledger.mark_sent(first.message_id)

    assert [(message.kind, message.number) for message in ledger.pending_messages()] == [
        ("task.status.update", 1),
        ("model.registered", 0),
    ]


def test_a_message_that_is_enqueued_again_keeps_its_first_body(ledger, execution_id) -> None:
    ledger.enqueue(execution_id, [OutboxMessage("task.log", 0, {"timestamp": "first"})])
    ledger.enqueue(execution_id, [OutboxMessage("task.log", 0, {"timestamp": "second"})])

    (message,) = ledger.pending_messages()
    assert message.body == {"timestamp": "first"}


def test_a_message_id_never_changes() -> None:
    """A platform that saw the message before an upgrade must recognise it after."""
    message = OutboxMessage("task.status.update", 1, {})

    assert message.message_id("7c000000-0000-4000-8000-000000000000") == "b3bed62d-d95f-571a-be03-307cb7ef1aa9"


def test_a_name_points_where_it_was_last_set(ledger) -> None:
    old, new = Pinned("default", "a.json", "a" * 64, 1), Pinned("default", "b.json", "b" * 64, 2)
    ledger.set_dataset_name("vehicles", "a" * 64, old)
    ledger.set_dataset_name("vehicles", "b" * 64, new)
    ledger.set_dataset_name("apples", "a" * 64, old)

    assert ledger.dataset_name("vehicles").object == new
    assert [found.name for found in ledger.dataset_names()] == ["apples", "vehicles"]
    assert ledger.dataset_name("none") is None
