"""What a synchronous run answers of a journal."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from contracts.base import validate
from contracts.limits import MAX_RUN_ENTRIES
from runtime.execution.journal import Journal
from services.api.transcript import Transcript

if TYPE_CHECKING:
    from pathlib import Path

ID = "7c2e91d0-0000-4000-8000-000000000000"


@pytest.fixture
def journal(tmp_path: Path) -> Journal:
    with Journal(tmp_path / "journal.jsonl") as opened:
        yield opened


def begin(journal: Journal) -> None:
    journal.append("log", level="info", message="3 items, 12 KiB: 0 cached")
    journal.append("stage", stage="train", state="running")
    journal.listener().started(pid=1, isolation={"network": "isolated"})


def test_events_are_documents_of_the_contract_numbered_from_zero(journal: Journal) -> None:
    begin(journal)
    journal.append("phase", phase="load", message=None)
    journal.append("metric", split="val", epoch=1, step=None, metrics={"accuracy": 0.5})
    journal.append("log", level="warning", message="slow disk")
    journal.append("checkpoint", path="last.pt", message=None)

    events = [validate("event", event) for event in Transcript.read(journal.path, ID).events]

    assert [(event.sequence, event.event_type) for event in events] == [
        (0, "phase"),
        (1, "metric"),
        (2, "log"),
        (3, "checkpoint"),
    ]


def test_what_the_runtime_says_is_no_event_of_the_package(journal: Journal) -> None:
    begin(journal)
    journal.append("stage", stage="train", state="completed")
    journal.append("log", level="info", message="kept 2 artifacts")

    assert list(Transcript.read(journal.path, ID).events) == []


def test_the_events_are_those_of_the_last_training(journal: Journal) -> None:
    for phase in ("lost", "kept"):
        begin(journal)
        journal.append("phase", phase=phase, message=None)

    assert [(event["sequence"], event["phase"]) for event in Transcript.read(journal.path, ID).events] == [(0, "kept")]


def test_logs_are_what_was_logged_and_printed_in_order(journal: Journal) -> None:
    begin(journal)
    journal.append("output", text="epoch 1")
    journal.append("output", text="epoch 9", left_out=7)
    journal.append("log", level="error", message="no gradient")

    said = [(log["level"], log["message"]) for log in Transcript.read(journal.path, ID).logs]

    assert said == [
        ("info", "3 items, 12 KiB: 0 cached"),
        ("info", "training started"),
        ("info", "epoch 1"),
        ("warning", "7 lines before the next one are left out here"),
        ("info", "epoch 9"),
        ("error", "no gradient"),
    ]


def test_a_long_training_has_its_last_events_with_their_numbers(journal: Journal) -> None:
    begin(journal)
    for epoch in range(MAX_RUN_ENTRIES + 5):
        journal.append("metric", split="val", epoch=epoch, metrics={"a": 1})

    events = Transcript.read(journal.path, ID).events

    assert (len(events), events[0]["sequence"], events[-1]["epoch"]) == (MAX_RUN_ENTRIES, 5, MAX_RUN_ENTRIES + 4)


def test_a_journal_that_is_not_here_says_nothing(tmp_path: Path) -> None:
    assert Transcript.read(tmp_path / "none", ID) == Transcript()
