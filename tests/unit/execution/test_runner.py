"""What a package may report, and that the runner runs where packages run."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest

from contracts.base import validate
from contracts.errors import InvalidDocumentError
from runtime.execution import runner, supervisor

RUNNER = Path(runner.__file__)


def test_the_runner_is_python_3_9() -> None:
    ast.parse(RUNNER.read_text(), feature_version=(3, 9))


@pytest.mark.parametrize("module", [runner, supervisor])
def test_it_imports_the_standard_library_alone(module) -> None:
    tree = ast.parse(Path(module.__file__).read_text())
    imported = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    imported |= {str(node.module) for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert {name.partition(".")[0] for name in imported} <= set(sys.stdlib_module_names)


@pytest.mark.parametrize(
    "fields",
    [
        {"event_type": "phase", "phase": "load"},
        {"event_type": "phase", "phase": "load", "message": "half"},
        {"event_type": "log", "message": "x", "level": "debug"},
        {"event_type": "metric", "metrics": {"loss": 1, "accuracy": 0.5}},
        {"event_type": "metric", "metrics": {"loss": 1}, "split": "val", "epoch": 3.0, "step": 7},
        {"event_type": "metric", "metrics": {"loss": 1}, "epoch": None},
        {"event_type": "checkpoint", "path": "a/b.pt"},
        {"event_type": "checkpoint", "path": Path("a/b.pt")},
    ],
)
def test_what_report_accepts_the_contract_accepts(fields) -> None:
    event = runner.check_event(fields)
    base = {
        "protocol_version": "training-event/v1",
        "execution_id": "5b9e3c1e-0000-4000-8000-000000000001",
        "sequence": 0,
        "occurred_at": "2030-01-31T12:00:00Z",
    }
    assert validate("event", {**base, **event}).to_document() == {**base, **event}


@pytest.mark.parametrize(
    ("fields", "error", "says"),
    [
        ({}, ValueError, "event_type is None, must be one of checkpoint, log, metric, phase"),
        ({"event_type": "epoch"}, ValueError, "event_type is 'epoch'"),
        ({"event_type": ["phase"]}, ValueError, "must be one of"),
        ({"event_type": "phase"}, TypeError, "phase is missing: a phase event needs it"),
        ({"event_type": "phase", "phase": ""}, ValueError, "phase has 0 characters, must have 1 to 128"),
        ({"event_type": "phase", "phase": 3}, TypeError, "phase is int, must be text"),
        ({"event_type": "phase", "phase": "x", "epoch": 1}, TypeError, "epoch is no field of a phase event"),
        ({"event_type": "phase", "phase": "x", "sequence": 1}, TypeError, "sequence is set by the runtime"),
        ({"event_type": "log", "message": "x", "level": "fatal"}, ValueError, "level is 'fatal', must be one of"),
        ({"event_type": "metric", "metrics": {}}, ValueError, "metrics has 0 names"),
        ({"event_type": "metric", "metrics": [1]}, TypeError, "metrics is list"),
        ({"event_type": "metric", "metrics": {" ": 1}}, ValueError, "not blank"),
        ({"event_type": "metric", "metrics": {"loss": "1"}}, TypeError, r"metrics\['loss'\] is str, must be a number"),
        ({"event_type": "metric", "metrics": {"loss": True}}, TypeError, "must be a number"),
        ({"event_type": "metric", "metrics": {"loss": float("nan")}}, ValueError, "must be a finite number"),
        ({"event_type": "metric", "metrics": {"loss": 10**400}}, ValueError, "must be a finite number"),
        ({"event_type": "metric", "metrics": {"loss": 1}, "epoch": -1}, ValueError, "epoch is -1"),
        ({"event_type": "metric", "metrics": {"loss": 1}, "epoch": 1.5}, ValueError, "epoch is 1.5"),
        ({"event_type": "metric", "metrics": {"loss": 1}, "split": "dev"}, ValueError, "split is 'dev'"),
        ({"event_type": "checkpoint", "path": "../a"}, ValueError, "relative to output_dir"),
        ({"event_type": "checkpoint", "path": "/a"}, ValueError, "relative to output_dir"),
        ({"event_type": "checkpoint", "path": "."}, ValueError, "relative to output_dir"),
    ],
)
def test_what_report_refuses_it_names(fields, error, says) -> None:
    with pytest.raises(error, match=says):
        runner.check_event(fields)


def test_the_contract_refuses_what_report_refuses() -> None:
    with pytest.raises(InvalidDocumentError):
        validate("event", {"event_type": "checkpoint", "path": "../a"})


def test_half_a_surrogate_pair_becomes_text() -> None:
    assert runner.check_event({"event_type": "log", "message": "a\udc80b"})["message"] == "a?b"
