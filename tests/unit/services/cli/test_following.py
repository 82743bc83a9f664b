"""Carrying an execution out while its journal is told, and what a Ctrl-C does to it."""

from __future__ import annotations

import io
import os
import signal
import time

import pytest
from rich.console import Console

from contracts.errors import CancelledError, PackageRaisedError, StorageUnavailableError
from runtime.execution.journal import Journal
from runtime.installation import Installation
from runtime.settings import Settings
from services import orchestrator
from services.cli.following import carry_out, entry_text
from services.cli.terminal import Terminal
from tests.assets.submissions import submission


@pytest.fixture
def here(tmp_path):
    with Installation.open(Settings(home=tmp_path / "home", execution_enabled=True)) as installation:
        yield installation


@pytest.fixture
def execution_id(here) -> str:
    return here.ledger.accept(submission(), label="digits 0.1.0").execution.execution_id


@pytest.fixture
def terminal():
    notes = Console(file=io.StringIO(), width=200)
    return Terminal(as_json=True, answers=io.StringIO(), notes=notes)


def said(terminal: Terminal) -> str:
    return terminal.notes.file.getvalue()


def end(here, execution_id: str, state: str, error=None) -> None:
    document = error.to_document() if error else None
    result = {"protocol_version": "training-result/v1", "execution_id": execution_id, "status": state}
    here.ledger.finish(execution_id, state=state, result=result, error=document, artifacts=[], model=None)


def carried_out_by(monkeypatch, work) -> None:
    monkeypatch.setattr(orchestrator, "run_embedded", lambda _here, execution_id, **_: work(execution_id))


def test_the_end_is_what_the_ledger_says(here, execution_id, terminal, monkeypatch) -> None:
    carried_out_by(monkeypatch, lambda one: end(here, one, "succeeded"))
    assert carry_out(here, execution_id, terminal).state == "succeeded"


def test_a_failed_execution_is_an_end_whatever_was_raised(here, execution_id, terminal, monkeypatch) -> None:
    fault = PackageRaisedError("ValueError", hint="fix it")

    def work(one: str) -> None:
        end(here, one, "failed", fault)
        raise fault

    carried_out_by(monkeypatch, work)
    assert carry_out(here, execution_id, terminal).error == fault.to_document()


def test_an_execution_without_an_end_says_how_to_go_on(here, execution_id, terminal, monkeypatch) -> None:
    def work(_: str) -> None:
        raise StorageUnavailableError("the store is away", hint="Start it.")

    carried_out_by(monkeypatch, work)
    with pytest.raises(StorageUnavailableError) as caught:
        carry_out(here, execution_id, terminal)
    assert caught.value.hint == f"Start it. `mtr executions resume {execution_id}` then goes on where it stopped."


def test_the_journal_is_told_to_its_last_line(here, execution_id, terminal, monkeypatch) -> None:
    def work(one: str) -> None:
        with Journal.of(here.settings.executions_root, one) as journal:
            for number in range(100):
                journal.append("log", level="info", message=f"line {number}.")
        end(here, one, "succeeded")

    carried_out_by(monkeypatch, work)
    carry_out(here, execution_id, terminal)
    assert [f"line {number}." in said(terminal) for number in range(100)] == [True] * 100


def test_what_was_told_by_an_earlier_process_is_not_told_again(here, execution_id, terminal, monkeypatch) -> None:
    with Journal.of(here.settings.executions_root, execution_id) as journal:
        journal.append("log", level="info", message="earlier")
    carried_out_by(monkeypatch, lambda one: end(here, one, "succeeded"))
    carry_out(here, execution_id, terminal)
    assert "earlier" not in said(terminal)


def test_one_interrupt_asks_for_the_cancellation_and_waits_for_the_end(
    here, execution_id, terminal, monkeypatch
) -> None:
    def work(one: str) -> None:
        os.kill(os.getpid(), signal.SIGINT)
        deadline = time.monotonic() + 30
        while not here.ledger.cancel_requested(one):
            assert time.monotonic() < deadline
            time.sleep(0.01)
        end(here, one, "cancelled", CancelledError("asked for", hint="Run it again."))

    carried_out_by(monkeypatch, work)
    assert carry_out(here, execution_id, terminal).state == "cancelled"
    assert "cancelling" in said(terminal)


def test_a_second_interrupt_interrupts_at_once(here, execution_id, terminal, monkeypatch) -> None:
    def work(_: str) -> None:
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(30)

    carried_out_by(monkeypatch, work)
    with pytest.raises(KeyboardInterrupt):
        carry_out(here, execution_id, terminal)


def test_afterwards_an_interrupt_is_again_what_it_was(here, execution_id, terminal, monkeypatch) -> None:
    before = signal.getsignal(signal.SIGINT)
    carried_out_by(monkeypatch, lambda one: end(here, one, "succeeded"))
    carry_out(here, execution_id, terminal)
    assert signal.getsignal(signal.SIGINT) is before


@pytest.mark.parametrize(
    ("entry", "line"),
    [
        ({"kind": "stage", "stage": "train", "state": "running"}, "▸ train"),
        (
            {"kind": "stage", "stage": "train", "state": "completed", "seconds": 61.0},
            "  train completed after 1 min 1 s",
        ),
        (
            {"kind": "stage", "stage": "train", "state": "failed", "seconds": 2.0, "message": "why"},
            "  train failed after 2.0 s: why",
        ),
        ({"kind": "phase", "phase": "fit", "message": None}, "  fit"),
        ({"kind": "phase", "phase": "fit", "message": "all"}, "  fit: all"),
        ({"kind": "metric", "split": "val", "epoch": 2, "step": None, "metrics": {"a": 0.5}}, "  epoch 2  val  a 0.5"),
        ({"kind": "log", "level": "warning", "message": "[b]x"}, "  warning: [b]x"),
        ({"kind": "checkpoint", "path": "c.npz", "message": None}, "  c.npz"),
        ({"kind": "output", "text": "hello"}, "  | hello"),
        ({"kind": "output", "text": "hello", "left_out": 3}, "  … 3 lines not shown\n  | hello"),
        ({"kind": "attempt", "attempt": 2}, "  attempt 2"),
        ({"kind": "state", "state": "failed", "message": "why"}, "failed: why"),
    ],
)
def test_an_entry_is_a_line(entry: dict, line: str) -> None:
    assert entry_text(entry).plain == line


def test_lines_that_the_journal_left_out_are_counted(tmp_path) -> None:
    journal = Journal(tmp_path / "journal.jsonl")
    journal.listener().output("hello", 3)

    (entry,) = journal.read()

    assert entry_text(entry).plain == "  … 3 lines not shown\n  | hello"


@pytest.mark.parametrize(
    "entry",
    [
        {"kind": "attempt", "attempt": 1},
        {"kind": "stage", "stage": "train", "state": "completed", "seconds": 0.2},
        {"kind": "of a later version"},
        {},
    ],
)
def test_an_entry_that_says_nothing_to_people_is_left_out(entry: dict) -> None:
    assert entry_text(entry) is None
