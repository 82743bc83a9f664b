"""Accepting submissions: the first write wins, and the answer to a second one is the truth."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import update

from contracts.errors import ConflictError, NotFoundError
from runtime.ledger import Owner
from runtime.ledger.ledger import first_difference
from runtime.ledger.schema import executions
from tests.assets import ledger_processes
from tests.assets.submissions import submission, submission_document


def test_a_new_submission_is_queued_and_kept_whole(ledger) -> None:
    asked = submission()

    accepted = ledger.accept(asked, label="digits 0.1.0 on digits-png", model_name="mine", retry_of=None)

    assert accepted.created
    assert accepted.execution.state == "queued"
    assert accepted.execution.submission == asked.to_document()
    assert (accepted.execution.label, accepted.execution.model_name) == ("digits 0.1.0 on digits-png", "mine")


def test_the_same_submission_in_another_message_is_answered_again(ledger) -> None:
    document = submission_document()
    ledger.accept(submission(**document), label="first")

    again = ledger.accept(submission(**document | {"message_id": str(uuid.uuid4())}), label="second")

    assert not again.created
    assert again.execution.label == "first"


def test_what_a_document_leaves_out_is_the_same_as_its_default(ledger) -> None:
    document = submission_document()
    ledger.accept(submission(**document), label="x")

    assert not ledger.accept(submission(**document | {"parameters": {}, "model_input": None}), label="x").created


def test_another_submission_of_the_same_id_is_a_conflict_that_names_the_first_difference(ledger) -> None:
    document = submission_document()
    ledger.accept(submission(**document), label="x")

    with pytest.raises(ConflictError, match=r"differs at resources\.memory_bytes"):
        ledger.accept(submission(**document | {"resources": {"memory_bytes": 2048}}), label="x")

    assert ledger.get(document["execution_id"]).submission["resources"]["memory_bytes"] == 1024


@pytest.mark.slow
def test_of_processes_that_race_with_different_submissions_one_wins_and_the_others_are_told(url, ledger) -> None:
    execution_id = str(uuid.uuid4())
    processes = [ledger_processes.start("accept_together", url, execution_id, memory) for memory in "123"]

    assert sorted(ledger_processes.race(processes)) == ["conflict"] * 2 + ["created"]


@pytest.mark.slow
def test_of_processes_that_race_with_the_same_submission_one_creates_it(url, ledger) -> None:
    execution_id = str(uuid.uuid4())
    processes = [ledger_processes.start("accept_together", url, execution_id, "1") for _ in range(3)]

    assert sorted(ledger_processes.race(processes)) == ["again"] * 2 + ["created"]


@pytest.mark.parametrize(
    ("earlier", "later", "path"),
    [
        ({"a": 1}, {"a": 1}, ""),
        ({"a": 1, "b": 2}, {"a": 1, "b": 3}, "b"),
        ({"a": {"b": [1, {"c": 2}]}}, {"a": {"b": [1, {"c": 3}]}}, "a.b[1].c"),
        ({"a": [1]}, {"a": [1, 2]}, "a[1]"),
        ({"a": 1}, {"a": True}, "a"),
        ({"a": None}, {}, "a"),
        ({}, {"a": None}, "a"),
        ([1], {"a": 1}, "(document)"),
    ],
)
def test_the_first_difference_is_named_by_its_path(earlier, later, path) -> None:
    assert first_difference(earlier, later) == path


def test_a_short_id_finds_its_execution(ledger) -> None:
    execution_id = ledger.accept(submission(), label="x").execution.execution_id

    assert ledger.find(execution_id[:8].upper()).execution_id == execution_id
    assert ledger.find(execution_id).execution_id == execution_id


def test_a_short_id_of_several_executions_lists_them(ledger) -> None:
    for end in range(3):
        ledger.accept(submission(execution_id=f"7c000000-0000-4000-8000-00000000000{end}"), label=f"run {end}")

    with pytest.raises(NotFoundError, match="3 executions match 7c: ") as ambiguous:
        ledger.find("7c")

    assert ambiguous.value.context["count"] == 3


@pytest.mark.parametrize("prefix", ["ffffffff", "%", "_", "", "no id", "\0", "\udcff"])
def test_an_id_that_no_execution_has_is_not_found(ledger, prefix) -> None:
    ledger.accept(submission(execution_id="7c000000-0000-4000-8000-000000000000"), label="x")

    with pytest.raises(NotFoundError):
        ledger.find(prefix)
    with pytest.raises(NotFoundError):
        ledger.get(prefix)


def test_a_list_can_be_narrowed_and_is_newest_first(ledger) -> None:
    first, second, third = (
        ledger.accept(asked, label="x").execution
        for asked in (
            submission(),
            submission(package={"key": "other", "version": "1.0.0", "sha256": "a" * 64}),
            submission(
                task={"task_id": 4711, "task_kind": "classification"},
                package={"key": "other", "version": "2.0.0", "sha256": "a" * 64},
            ),
        )
    )
    ledger.claim(first.execution_id, Owner.here())

    def ids(**narrowed) -> list[str]:
        return [found.execution_id for found in ledger.list(**narrowed)]

    assert ids() == [third.execution_id, second.execution_id, first.execution_id]
    assert ids(limit=1) == [third.execution_id]
    assert ids(state="running") == [first.execution_id]
    assert ids(package="other") == [third.execution_id, second.execution_id]
    assert ids(package="other@1.0.0") == [second.execution_id]
    assert ids(task_id=4711) == [third.execution_id]
    assert ids(since=second.created_at) == [third.execution_id, second.execution_id]


def test_moments_keep_their_zone(ledger) -> None:
    execution_id = ledger.accept(submission(), label="x").execution.execution_id
    long_ago = datetime(2020, 1, 1, tzinfo=UTC)
    with ledger.database.writing() as connection:
        connection.execute(update(executions).values(created_at=long_ago))

    assert ledger.get(execution_id).created_at == long_ago
    assert ledger.list(since=long_ago + timedelta(hours=1)) == ()


@pytest.mark.slow
def test_task_ids_are_never_given_twice(url, ledger) -> None:
    processes = [ledger_processes.start("count_tasks", url, "20") for _ in range(3)]
    numbers = [int(number) for said in ledger_processes.race(processes) for number in said.split()]

    assert sorted(numbers) == list(range(1, 61))
