"""Leases: of several that ask, one at a time has it, and a dead holder stands in nobody's way."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from runtime.ledger import Owner
from tests.assets import ledger_processes


def test_one_of_two_has_the_lease(ledger) -> None:
    assert ledger.lease("publisher", "a", 60)
    assert not ledger.lease("publisher", "b", 60)


def test_leases_of_other_names_are_others(ledger) -> None:
    assert ledger.lease("publisher", "a", 60)
    assert ledger.lease("reaper", "b", 60)


def test_its_holder_renews_it(ledger) -> None:
    ledger.lease("publisher", "a", 0)
    assert ledger.lease("publisher", "a", 60)
    assert not ledger.lease("publisher", "b", 60)


def test_one_that_was_not_renewed_is_free(ledger) -> None:
    ledger.lease("publisher", "a", 0)
    assert ledger.lease("publisher", "b", 60)
    assert not ledger.lease("publisher", "a", 60)


def test_one_that_was_given_back_is_free(ledger) -> None:
    ledger.lease("publisher", "a", 60)
    ledger.release_lease("publisher", "a")
    assert ledger.lease("publisher", "b", 60)


def test_giving_back_what_another_has_changes_nothing(ledger) -> None:
    ledger.lease("publisher", "a", 60)
    ledger.release_lease("publisher", "b")
    assert not ledger.lease("publisher", "b", 60)


def test_one_whose_holder_was_killed_is_free_at_once(ledger) -> None:
    with subprocess.Popen(["sleep", "60"]) as process:
        here = Owner.here()
        started = int(Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[19])
        holder = replace(here, pid=process.pid, process_started=started).new_holder()
        ledger.lease("publisher", holder, 60)
        assert not ledger.lease("publisher", "b", 60)
        process.kill()
    assert ledger.lease("publisher", "b", 60)


def test_two_parts_of_one_process_are_two_holders(ledger) -> None:
    assert ledger.lease("publisher", Owner.here().new_holder(), 60)
    assert not ledger.lease("publisher", Owner.here().new_holder(), 60)


@pytest.mark.parametrize(
    "holder", ["a", "{}", "[]", '{"owner": 1}', '{"owner": {"host": "x"}}', "\N{LATIN SMALL LETTER E WITH ACUTE}"]
)
def test_a_holder_of_another_kind_is_waited_for(ledger, holder) -> None:
    ledger.lease("publisher", holder, 60)
    assert not ledger.lease("publisher", "b", 60)


@pytest.mark.slow
def test_of_processes_that_ask_at_once_one_gets_it(url, ledger) -> None:
    processes = [ledger_processes.start("lease_together", url) for _ in range(3)]

    assert sorted(ledger_processes.race(processes)) == ["False", "False", "True"]
