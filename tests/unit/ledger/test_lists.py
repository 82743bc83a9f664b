"""Lists: narrowed, in pages that nothing moves, and what waits for somebody to take it up."""

from __future__ import annotations

import dataclasses
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import update

from contracts.errors import InvalidDocumentError
from contracts.limits import CLAIM_EXPIRY_SECONDS
from runtime.ledger import Owner
from runtime.ledger.schema import executions
from tests.assets.submissions import submission

FAILURE = {"state": "failed", "result": {}, "artifacts": [], "model": None}


def accept(ledger, count: int = 1) -> list[str]:
    return [ledger.accept(submission(), label="x").execution.execution_id for _ in range(count)]


def test_pages_hold_everything_once_while_new_executions_arrive(ledger) -> None:
    before = accept(ledger, 7)
    found, cursor = [], None
    while page := ledger.list(limit=3, after=cursor):
        found += [one.execution_id for one in page]
        cursor = page[-1].cursor
        accept(ledger)

    assert found == before[::-1]


def test_pages_hold_everything_once_when_all_were_accepted_in_the_same_moment(ledger) -> None:
    before = accept(ledger, 7)
    with ledger.database.writing() as connection:
        connection.execute(update(executions).values(created_at=datetime(2030, 1, 31, tzinfo=UTC)))
    found, cursor = [], None
    while page := ledger.list(limit=3, after=cursor):
        found += [one.execution_id for one in page]
        cursor = page[-1].cursor

    assert sorted(found) == sorted(before)


@pytest.mark.parametrize(
    "cursor", ["", "x", "2030", "20301301T000000.000000_372070b0-9ed2-41d6-b029-51079977d228", "20300131T000000.0_\0"]
)
def test_what_is_no_cursor_is_refused(ledger, cursor) -> None:
    with pytest.raises(InvalidDocumentError, match="after: is no cursor"):
        ledger.list(after=cursor)


def test_several_states_and_an_end_of_the_time_narrow_a_list(ledger) -> None:
    first, second, third = accept(ledger, 3)
    ledger.claim(second, Owner.here())
    ledger.finish(third, **FAILURE, error={"code": "timeout"})

    def ids(**narrowed) -> list[str]:
        return [found.execution_id for found in ledger.list(**narrowed)]

    assert ids(state=["queued", "running"]) == [second, first]
    assert ids(state=[]) == []
    assert ids(until=ledger.get(third).created_at) == [second, first]


@pytest.mark.parametrize("package", ["\0", "digits@\0", "\udcff"])
def test_a_package_that_cannot_be_has_no_executions(ledger, package) -> None:
    accept(ledger)
    assert ledger.list(package=package) == ()


def test_what_nobody_works_on_is_found_oldest_first(ledger) -> None:
    queued, held, abandoned, ended = accept(ledger, 4)
    here = Owner.here()
    ledger.claim(held, here)
    ledger.claim(abandoned, dataclasses.replace(here, process_started=1))
    ledger.finish(ended, **FAILURE, error={"code": "timeout"})

    assert [(one.execution.execution_id, one.attended) for one in ledger.unfinished()] == [
        (queued, False),
        (held, True),
        (abandoned, False),
    ]
    assert [one.execution.execution_id for one in ledger.unfinished(unattended=True)] == [queued, abandoned]
    assert [one.execution.execution_id for one in ledger.unfinished(unattended=True, limit=1)] == [queued]


def test_an_owner_elsewhere_works_on_it_until_it_falls_silent(ledger) -> None:
    accept(ledger)
    (waiting,) = ledger.unfinished()
    elsewhere = dataclasses.replace(Owner.here(), host="another-machine")
    ledger.claim(waiting.execution.execution_id, elsewhere)
    assert [(one.owner, one.attended) for one in ledger.unfinished()] == [(elsewhere, True)]

    silent_since = datetime.now(UTC) - timedelta(seconds=CLAIM_EXPIRY_SECONDS + 1)
    with ledger.database.writing() as connection:
        connection.execute(update(executions).values(owner_seen_at=silent_since))
    assert [(one.owner, one.attended) for one in ledger.unfinished()] == [(elsewhere, False)]


def test_figures_count_by_state_and_code_and_name_what_has_waited_longest(ledger) -> None:
    oldest, running, *failed = accept(ledger, 4)
    ledger.claim(running, Owner.here())
    for execution_id in failed:
        ledger.finish(execution_id, **FAILURE, error={"code": "timeout", "message": "\0"})
    told = ledger.accept(submission(), label="x", announced=True)

    figures = ledger.figures()

    assert figures.executions == {("queued", None): 2, ("running", None): 1, ("failed", "timeout"): 2}
    assert figures.oldest_queued_at == ledger.get(oldest).created_at
    assert (figures.pending_messages, figures.oldest_pending_at) == (1, told.execution.created_at)


def test_figures_of_an_empty_ledger_name_nothing(ledger) -> None:
    figures = ledger.figures()
    assert (figures.executions, figures.oldest_queued_at) == ({}, None)
    assert (figures.pending_messages, figures.oldest_pending_at) == (0, None)


@pytest.mark.slow
def test_two_hundred_submissions_at_once_are_all_accepted_once(ledger) -> None:
    asked = [submission() for _ in range(200)] * 2
    with ThreadPoolExecutor(40) as pool:
        accepted = list(pool.map(lambda one: ledger.accept(one, label="x", announced=True), asked))

    assert sum(one.created for one in accepted) == 200
    assert len(ledger.list(limit=None)) == len(ledger.pending_messages(limit=1000)) == 200
