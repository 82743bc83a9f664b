"""What a package reports while it trains."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, PlainSerializer, StringConstraints, WithJsonSchema

from contracts.base import Count, Document, MetricMap, RelativePath, Text, UuidText
from contracts.violations import kind_of, quoted


def _moment(value: Any) -> datetime:
    if not isinstance(value, (str, datetime)):
        raise ValueError(f"is {kind_of(value)}, must be a time as text")  # noqa: TRY004 - pydantic collects these
    try:
        moment = value if isinstance(value, datetime) else datetime.fromisoformat(value)
        in_utc = moment.astimezone(UTC)
    except (ValueError, OverflowError):  # year 1 has no time in UTC east of Greenwich
        raise ValueError(f"is {quoted(value)}, must be a time such as 2030-01-31T12:00:00Z") from None
    if moment.tzinfo is None:
        raise ValueError(f"is {quoted(value)}, must be UTC: it names no time zone")
    return in_utc


def _written(moment: datetime) -> str:
    return moment.isoformat().replace("+00:00", "Z")


Moment = Annotated[
    datetime,
    BeforeValidator(_moment),
    PlainSerializer(_written, return_type=str, when_used="json"),
    WithJsonSchema({"type": "string", "format": "date-time"}),
]
"""A time in UTC; written with `Z`."""

Note = Annotated[Text, StringConstraints(max_length=4000)]


class EventBase(Document):
    """What every event says: whose it is, its place in the order, and when."""

    protocol_version: Literal["training-event/v1"] = "training-event/v1"
    execution_id: UuidText
    sequence: Count
    occurred_at: Moment


class PhaseEvent(EventBase):
    """Training entered a phase."""

    event_type: Literal["phase"] = "phase"
    phase: Annotated[Text, StringConstraints(min_length=1, max_length=128)]
    message: Note | None = None


class LogEvent(EventBase):
    """One line for people."""

    event_type: Literal["log"] = "log"
    level: Literal["debug", "info", "warning", "error"] = "info"
    message: Annotated[Text, StringConstraints(min_length=1, max_length=16_000)]


class MetricEvent(EventBase):
    """Numbers of one moment of training."""

    event_type: Literal["metric"] = "metric"
    split: Literal["train", "val", "test", "other"] = "train"
    epoch: Count | None = None
    step: Count | None = None
    metrics: Annotated[MetricMap, Field(min_length=1)]


class CheckpointEvent(EventBase):
    """A checkpoint lies at `path`, relative to `output_dir`."""

    event_type: Literal["checkpoint"] = "checkpoint"
    path: RelativePath
    message: Note | None = None


Event = Annotated[PhaseEvent | LogEvent | MetricEvent | CheckpointEvent, Field(discriminator="event_type")]
"""Any event; `event_type` says which."""
