"""The fast reading of event lines accepts what the contract accepts, and nothing else."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from contracts.base import validate
from contracts.errors import InvalidDocumentError, ProtocolViolationError
from runtime.execution.protocol import EVENT, ProtocolReader

EXECUTION = "5b9e3c1e-0000-4000-8000-000000000001"

values = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 2**70),
    st.floats(),
    st.integers(2**52, 2**64).map(float),  # integers in a float's spelling, up to and beyond what a float tells apart
    st.text(max_size=20),
    st.sampled_from(["train", "val", "debug", "info", "a/b", "../a", " ", '":', EXECUTION, "2030-01-31T12:00:00Z"]),
    st.dictionaries(st.text(max_size=8), st.one_of(st.floats(), st.integers(), st.text(max_size=3)), max_size=3),
)
SOUND = {
    "phase": {"phase": "load", "message": None},
    "log": {"level": "info", "message": "text"},
    "metric": {"split": "train", "epoch": 1, "step": None, "metrics": {"loss": 0.5}},
    "checkpoint": {"path": "a.pt", "message": None},
}


@st.composite
def events(draw) -> dict:
    """Sound events, most with something changed, added or left out."""
    kind = draw(st.sampled_from(sorted(SOUND)))
    event = {
        "protocol_version": "training-event/v1",
        "execution_id": EXECUTION,
        "sequence": 0,
        "occurred_at": "2030-01-31T12:00:00.5Z",
        "event_type": kind,
        **SOUND[kind],
    }
    for name in draw(st.lists(st.sampled_from(sorted(event)), max_size=2, unique=True)):
        if draw(st.booleans()):
            event[name] = draw(values)
        else:
            del event[name]
    if draw(st.integers(0, 9)) == 0:
        event[draw(st.text(max_size=5))] = draw(values)
    return event


@given(
    event=events(),
    separators=st.sampled_from([(",", ":"), (", ", ": "), (",", " : "), (",", "\r:")]),
    ascii_only=st.sampled_from([True, False]),
)
def test_a_line_is_read_exactly_when_the_contract_accepts_it(event, separators, ascii_only) -> None:
    content = json.dumps(event, separators=separators, ensure_ascii=ascii_only).encode("utf-8", "surrogatepass")
    try:
        expected = validate("event", content).to_document()
        if expected["execution_id"] != EXECUTION or expected["sequence"] != 0:
            expected = None
    except InvalidDocumentError:
        expected = None

    try:
        (read,) = ProtocolReader(EXECUTION, max_events=10).feed(EVENT + content + b"\n")
    except ProtocolViolationError:
        read = None

    assert (read is None) == (expected is None)
    if read is not None:
        document = read.to_document()
        assert document.pop("occurred_at").rstrip("Z")[:21] == expected.pop("occurred_at").rstrip("Z")[:21]
        assert document == expected
