"""What the platform is told of an execution: from its acceptance on, in order, once."""

from __future__ import annotations

import pytest

from contracts.errors import ConflictError
from contracts.limits import MAX_TOLD_LOGS
from contracts.messages import log, refused
from runtime.ledger import OutboxMessage, Owner, Told
from tests.assets import ledger_processes
from tests.assets.submissions import submission

MOMENT = "2030-01-31T12:00:00Z"
SUCCESS = {"state": "succeeded", "result": {"status": "succeeded"}, "error": None, "artifacts": [], "model": None}


def announced(ledger, *, task_id: int = 1) -> str:
    asked = submission(task={"task_id": task_id, "task_kind": "classification"})
    return ledger.accept(asked, label="x", announced=True).execution.execution_id


def told(ledger, **wanted) -> list[tuple[str, int]]:
    return [(message.kind, message.number) for message in ledger.messages(**wanted)]


def lines(*contents: str) -> list:
    return [log(task_id=1, timestamp=MOMENT, level="info", content=content) for content in contents]


def test_an_announced_execution_is_queued_then_running(ledger) -> None:
    execution_id = announced(ledger)
    ledger.claim(execution_id, Owner.here())
    ledger.release(execution_id, Owner.here())
    ledger.claim(execution_id, Owner.here())

    assert [message.body["status"] for message in ledger.messages(execution_id=execution_id)] == [0, 1]


def test_an_execution_that_is_not_announced_is_told_to_nobody(ledger) -> None:
    execution_id = ledger.accept(submission(), label="x").execution.execution_id
    ledger.claim(execution_id, Owner.here())

    assert not ledger.get(execution_id).announced
    assert ledger.messages() == ()


def test_a_submission_that_comes_again_is_told_once(ledger) -> None:
    asked = submission()
    for _ in range(3):
        ledger.accept(asked, label="x", announced=True)

    assert told(ledger) == [("task.status.update", 0)]


def test_who_accepted_first_decides_whether_it_is_announced(ledger) -> None:
    asked = submission()
    ledger.accept(asked, label="x")

    assert not ledger.accept(asked, label="x", announced=True).execution.announced
    assert ledger.messages() == ()


def test_an_execution_whose_end_was_asked_for_before_it_began_never_ran(ledger) -> None:
    execution_id = announced(ledger)
    ledger.request_cancel(execution_id)
    ledger.claim(execution_id, Owner.here())

    assert told(ledger) == [("task.status.update", 0)]


def test_lines_of_a_journal_are_told_once_and_the_place_is_remembered(ledger) -> None:
    execution_id = announced(ledger)

    assert ledger.tell(execution_id, "j", after=0, upto=10, logs=lines("a", "b"))
    assert not ledger.tell(execution_id, "j", after=0, upto=10, logs=lines("a", "b"))
    assert ledger.tell(execution_id, "j", after=10, upto=15, logs=lines("c"))

    assert ledger.told(execution_id, "j") == Told(15, 3)
    assert [message.body["log_content"] for message in ledger.messages()[1:]] == ["a", "b", "c"]


def test_each_journal_has_its_own_place(ledger) -> None:
    execution_id = announced(ledger)
    ledger.tell(execution_id, "here", after=0, upto=1000, logs=lines("a"))
    ledger.tell(execution_id, "elsewhere", after=0, upto=10, logs=lines("b"))

    assert ledger.tell(execution_id, "here", after=1000, upto=1010, logs=lines("c"))
    assert told(ledger)[1:] == [("task.log", 1), ("task.log", 2), ("task.log", 3)]


def test_nothing_follows_the_end(ledger) -> None:
    execution_id = announced(ledger)
    ledger.finish(execution_id, **SUCCESS, messages=[OutboxMessage("task.status.update", 3, {})])

    assert not ledger.tell(execution_id, "j", after=0, upto=10, logs=lines("late"))
    assert told(ledger)[-1] == ("task.status.update", 3)


@pytest.mark.slow
def test_after_the_most_log_messages_one_says_where_the_rest_is(ledger) -> None:
    execution_id = announced(ledger)
    ledger.tell(execution_id, "j", after=0, upto=1, logs=lines("line") * (MAX_TOLD_LOGS - 1))
    ledger.tell(execution_id, "j", after=1, upto=2, logs=lines("the last", "one too many"))
    ledger.tell(execution_id, "j", after=2, upto=3, logs=lines("another"))

    last, limit = (message.body["log_content"] for message in ledger.messages()[-2:])
    assert last == "the last"
    assert f"mtr executions logs {execution_id}" in limit
    assert ledger.told(execution_id, "j").logs == MAX_TOLD_LOGS + 1


def test_exactly_the_most_log_messages_are_all_told(ledger) -> None:
    execution_id = announced(ledger)
    ledger.tell(execution_id, "j", after=0, upto=1, logs=lines("line") * MAX_TOLD_LOGS)

    assert ledger.told(execution_id, "j").logs == MAX_TOLD_LOGS


@pytest.mark.slow
def test_messages_of_an_execution_are_in_the_order_in_which_processes_wrote_them(url, ledger) -> None:
    execution_id = announced(ledger)
    processes = [ledger_processes.start("tell_together", url, execution_id, name) for name in "abc"]

    counts = [int(said) for said in ledger_processes.race(processes)]

    numbers = [message.number for message in ledger.messages(execution_id=execution_id)][1:]
    assert numbers == list(range(1, sum(counts) + 1))


def test_a_replay_sends_the_same_messages_in_the_same_order_again(ledger) -> None:
    one, other = announced(ledger, task_id=1), announced(ledger, task_id=2)
    for execution_id in (one, other):
        ledger.claim(execution_id, Owner.here())
    before = ledger.messages(task_id=1)
    ledger.mark_sent(*(message.message_id for message in ledger.pending_messages()))

    assert ledger.replay(task_id=1) == 2

    assert ledger.messages(task_id=1) == before
    assert [message.message_id for message in ledger.pending_messages()] == [one.message_id for one in before]


def test_a_sent_message_says_when(ledger) -> None:
    announced(ledger)
    (pending,) = ledger.messages()
    ledger.mark_sent(pending.message_id)

    (sent,) = ledger.messages()
    assert (pending.sent_at, sent.message_id) == (None, pending.message_id)
    assert sent.sent_at >= sent.created_at


def test_a_refusal_is_told_once_however_often_it_comes(ledger) -> None:
    message = refused(task_id=7, timestamp=MOMENT, code="invalid_document", message="m", hint="h")
    for _ in range(3):
        assert ledger.refuse("digest", message)

    (kept,) = ledger.messages(task_id=7)
    assert (kept.execution_id, kept.body["status"]) == (None, 4)


def test_a_refusal_says_nothing_of_an_execution_that_is_known(ledger) -> None:
    execution_id = announced(ledger)
    message = refused(task_id=1, timestamp=MOMENT, code="conflict", message="m", hint="h", execution_id=execution_id)

    assert not ledger.refuse("digest", message, execution_id)
    assert told(ledger) == [("task.status.update", 0)]


def test_what_was_refused_once_never_becomes_an_execution(ledger) -> None:
    wanted = submission()
    message = refused(
        task_id=1, timestamp=MOMENT, code="policy_refused", message="m", hint="h", execution_id=wanted.execution_id
    )
    assert ledger.refuse("digest", message, wanted.execution_id)

    with pytest.raises(ConflictError, match="was refused before"):
        ledger.accept(wanted, label="x", announced=True)
    assert told(ledger) == [("task.status.update", 4)]
    assert ledger.list() == ()
