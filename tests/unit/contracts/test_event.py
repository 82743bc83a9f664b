"""What a package reports."""

from __future__ import annotations

import pytest

from contracts.base import validate
from contracts.errors import InvalidDocumentError
from tests.assets import documents


def violations(document) -> dict[str, str]:
    with pytest.raises(InvalidDocumentError) as refused:
        validate("event", document)
    return {found["path"]: found["message"] for found in refused.value.context["violations"]}


@pytest.mark.parametrize(
    ("kind", "changes", "expected"),
    [
        ("phase", {"phase": ""}, {"phase": "is empty"}),
        ("phase", {"phase": "x" * 129}, {"phase": "has 129 characters, may have 128"}),
        ("phase", {"message": "x" * 4001}, {"message": "has 4001 characters, may have 4000"}),
        ("log", {"level": "fatal"}, {"level": "is 'fatal', must be one of 'debug', 'info', 'warning' or 'error'"}),
        ("log", {"message": ""}, {"message": "is empty"}),
        ("log", {"message": "x" * 16_001}, {"message": "has 16001 characters, may have 16000"}),
        ("metric", {"metrics": {}}, {"metrics": "has 0 entries, must have at least 1"}),
        ("metric", {"metrics": {"a": float("nan")}}, {"metrics.a": "is not a finite number"}),
        ("metric", {"metrics": {"a": "1"}}, {"metrics.a": "is text, must be a number"}),
        ("metric", {"metrics": {"§": "1"}}, {'metrics["§"]': "is text, must be a number"}),
        ("metric", {"metrics": {"[key]": "1"}}, {'metrics["[key]"]': "is text, must be a number"}),
        ("metric", {"split": "unspecified"},
         {"split": "is 'unspecified', must be one of 'train', 'val', 'test' or 'other'"}),
        ("metric", {"epoch": -1}, {"epoch": "is -1, must be at least 0"}),
        ("metric", {"step": True}, {"step": "is true, must be an integer"}),
        ("metric", {"level": "info"}, {"level": "unknown field; known here: protocol_version, execution_id, sequence, "
                                                "occurred_at, event_type, split, epoch, step, metrics"}),
        ("checkpoint", {"path": "/abs.pt"}, {"path": "is '/abs.pt', must be a relative path: it is absolute"}),
        ("metric", {"sequence": -1}, {"sequence": "is -1, must be at least 0"}),
        ("metric", {"event_type": "progress"},
         {"event_type": "is 'progress', must be one of 'phase', 'log', 'metric', 'checkpoint'"}),
        ("metric", {"occurred_at": "2030-01-31T12:00:00"},
         {"occurred_at": "is '2030-01-31T12:00:00', must be UTC: it names no time zone"}),
        ("metric", {"occurred_at": "today"}, {"occurred_at": "is 'today', must be a time such as 2030-01-31T12:00:00Z"}),
        ("metric", {"occurred_at": "0001-01-01T00:00:00+10:00"},
         {"occurred_at": "is '0001-01-01T00:00:00+10:00', must be a time such as 2030-01-31T12:00:00Z"}),
        ("metric", {"occurred_at": "2030-01-31T12:00:00Z\n"},
         {"occurred_at": "is '2030-01-31T12:00:00Z\\n', must be a time such as 2030-01-31T12:00:00Z"}),
        ("metric", {"occurred_at": 1893456000}, {"occurred_at": "is a number, must be a time as text"}),
    ],
)  # fmt: skip
def test_what_the_contract_forbids_is_refused_with_its_path(kind, changes, expected) -> None:
    assert violations(documents.event(kind) | changes) == expected


def test_the_event_type_is_required() -> None:
    document = documents.event()
    del document["event_type"]
    assert violations(document) == {"event_type": "required here"}


def test_a_time_elsewhere_is_written_in_utc() -> None:
    found = validate("event", documents.event() | {"occurred_at": "2030-01-31T14:30:00.25+02:30"}).to_document()
    assert found["occurred_at"] == "2030-01-31T12:00:00.250000Z"
