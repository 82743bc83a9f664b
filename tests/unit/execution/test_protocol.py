from __future__ import annotations

import json

import pytest

from contracts.errors import OutputLimitError, ProtocolViolationError
from contracts.limits import MAX_PROTOCOL_LINE_BYTES
from runtime.execution.protocol import (
    Checkpoint,
    Completed,
    Failure,
    Log,
    Metric,
    Phase,
    Plain,
    ProtocolReader,
    Started,
)

EXECUTION = "5b9e3c1e-0000-4000-8000-000000000001"
BASE = {
    "protocol_version": "training-event/v1",
    "execution_id": EXECUTION,
    "sequence": 0,
    "occurred_at": "2030-01-31T12:00:00Z",
}
METRIC = {**BASE, "event_type": "metric", "split": "val", "epoch": 1, "step": None, "metrics": {"loss": 0.5}}


def line(kind: str, document: object) -> bytes:
    content = document if isinstance(document, str) else json.dumps(document, separators=(",", ":"))
    return f"__AUTO_ML_TRAINING_{kind}__={content}\n".encode()


def reader(max_events: int = 100) -> ProtocolReader:
    return ProtocolReader(EXECUTION, max_events=max_events)


def refused(*lines: bytes, by: ProtocolReader | None = None) -> str:
    with pytest.raises(ProtocolViolationError) as caught:
        list((by or reader()).feed(b"".join(lines)))
    assert caught.value.context["stage"] == "parse_runner_output"
    return caught.value.message


@pytest.mark.parametrize(
    ("fields", "kind"),
    [
        ({"event_type": "phase", "phase": "load", "message": None}, Phase),
        ({"event_type": "log", "level": "warning", "message": "hm"}, Log),
        ({"event_type": "checkpoint", "path": "a/b.pt", "message": None}, Checkpoint),
        ({"event_type": "metric", "split": "val", "epoch": 1, "step": 2, "metrics": {"loss": 1}}, Metric),
    ],
)
def test_an_event_is_read_to_its_type(fields, kind) -> None:
    (event,) = reader().feed(line("EVENT", {**BASE, **fields}))
    assert type(event) is kind
    document = event.to_document()
    assert {name: document[name] for name in fields} == fields


def test_what_an_event_leaves_out_has_its_default() -> None:
    (event,) = reader().feed(line("EVENT", {**BASE, "event_type": "metric", "metrics": {"loss": 1}}))
    assert (event.split, event.epoch, event.step) == ("train", None, None)


def test_events_in_pieces_are_put_together() -> None:
    content = line("EVENT", METRIC) + b"plain\n"
    by = reader()
    messages = [message for at in range(len(content)) for message in by.feed(content[at : at + 1])]
    assert [type(message) for message in messages] == [Metric, Plain]


@pytest.mark.parametrize("number", ["NaN", "Infinity", "1e400", "true", '"1"', "null"])
def test_a_metric_that_is_no_finite_number_is_refused(number) -> None:
    message = refused(line("EVENT", json.dumps({**METRIC, "metrics": {"loss": "X"}}).replace('"X"', number)))
    assert "EVENT" in message


@pytest.mark.parametrize(
    "twice",
    [
        json.dumps(METRIC)[:-1] + ',"epoch":2}',
        json.dumps(METRIC, separators=(",", ":"))[:-1] + ',"epoch":2}',
        json.dumps(METRIC, separators=(",", ":")).replace('"step":null', '"epoch" :2,"step":null'),
        json.dumps(METRIC, separators=(",", ":")).replace('{"loss":0.5}', '{"loss":0.5,"loss":0.6}'),
        json.dumps(METRIC, separators=(",", ":")).replace('"step":null,', '"split":"train",'),
    ],
)
def test_a_key_given_twice_is_refused(twice) -> None:
    assert "twice" in refused(line("EVENT", twice))


def test_a_metric_name_may_look_like_a_key() -> None:
    (event,) = reader().feed(line("EVENT", {**METRIC, "metrics": {'a":b': 1.0}}))
    assert event.metrics == {'a":b': 1.0}


def test_a_foreign_execution_is_refused() -> None:
    foreign = {**METRIC, "execution_id": "00000000-0000-4000-8000-000000000000"}
    assert "is of execution 00000000" in refused(line("EVENT", foreign))


def test_the_same_id_in_capitals_is_the_same_execution() -> None:
    (event,) = reader().feed(line("EVENT", {**METRIC, "execution_id": EXECUTION.upper()}))
    assert event.execution_id == EXECUTION


def test_a_gap_in_the_sequence_is_refused() -> None:
    assert "has sequence 2, must have 1" in refused(line("EVENT", METRIC), line("EVENT", {**METRIC, "sequence": 2}))


def test_a_repeated_event_is_refused() -> None:
    assert "has sequence 0, must have 1" in refused(line("EVENT", METRIC), line("EVENT", METRIC))


def test_an_unknown_field_is_refused_by_name() -> None:
    assert "colour" in refused(line("EVENT", {**METRIC, "colour": 1}))


@pytest.mark.parametrize("content", ["", "{", "[]", "3", "\xff"])
def test_an_unreadable_event_is_refused(content) -> None:
    refused(line("EVENT", content))


def test_a_result_completes_the_training() -> None:
    by = reader()
    _, message = by.feed(line("START", {}) + line("RESULT", {"summary": "fine"}))
    assert isinstance(message, Completed)
    assert by.completion == message.completion


def test_a_result_that_is_no_completion_is_a_wrong_return_value() -> None:
    _, failure = reader().feed(line("START", {}) + line("RESULT", {"accuracy": 1}))
    assert (failure.kind, "accuracy" in failure.message) == ("wrong_return_value", True)


@pytest.mark.parametrize(
    "after", [line("RESULT", {}), line("EVENT", METRIC), line("START", {}), line("LOG", {"message": "x"})]
)
def test_nothing_may_follow_a_result(after) -> None:
    assert "after the result" in refused(line("START", {}), line("RESULT", {}), after)


def test_a_result_before_the_start_is_refused() -> None:
    assert "before training started" in refused(line("RESULT", {}))


def test_training_starts_once() -> None:
    assert "second time" in refused(line("START", {}), line("START", {}))


def test_a_start_is_told() -> None:
    assert isinstance(next(reader().feed(line("START", {}))), Started)


def test_a_failure_is_read() -> None:
    failure = {"kind": "raised", "error_type": "ValueError", "message": "no", "file": "train.py", "line": 3}
    (message,) = reader().feed(line("FAILURE", failure))
    assert isinstance(message, Failure)
    assert (message.file, message.line) == ("train.py", 3)


def test_a_log_line_is_an_event_of_its_own() -> None:
    (log,) = reader().feed(line("LOG", {"level": "error", "message": "hm"}))
    assert (log.event_type, log.level, log.message) == ("log", "error", "hm")


def test_a_log_line_of_a_foreign_execution_is_refused() -> None:
    assert "foreign" not in refused(line("LOG", {"message": "x", "execution_id": "other"}))


def test_a_line_of_an_unknown_kind_is_refused() -> None:
    assert "no known kind" in refused(line("SECRET", {}))


def test_a_line_without_end_is_refused_before_it_fills_memory() -> None:
    by = reader()
    assert "is longer than" in refused(b"x" * (MAX_PROTOCOL_LINE_BYTES + 1), by=by)


def test_more_events_than_allowed_are_refused() -> None:
    by = reader(max_events=1)
    with pytest.raises(OutputLimitError, match="more than 1 events"):
        list(by.feed(line("EVENT", METRIC) + line("EVENT", {**METRIC, "sequence": 1})))


def test_a_time_of_another_zone_is_told_in_utc() -> None:
    (event,) = reader().feed(line("EVENT", {**METRIC, "occurred_at": "2030-01-31T13:00:00+01:00"}))
    assert event.occurred_at.isoformat() == "2030-01-31T12:00:00+00:00"
