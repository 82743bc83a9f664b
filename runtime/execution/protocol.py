"""What a training process says to the runtime, line by line, and whether it may say so.

The wire's lines are `__AUTO_ML_TRAINING_EVENT__={...}`, `..._LOG__=` and `..._RESULT__=`; our runner adds `..._START__=`
(the package's first line is next) and `..._FAILURE__=` (what the package did instead of finishing). They come through a
pipe of their own that only the runner writes to, so an unfinished `print` cannot swallow one, and a package that prints
such a line is found out by where it comes from.

Lines of phases, logs and metrics as our runner writes them are decoded to their types all at once. Everything else that
could still be valid takes the contract's own validation, line by line, which is slower and says what is wrong.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final, Literal, NoReturn, cast

import msgspec

from contracts.base import validate
from contracts.completion import Completion
from contracts.errors import InvalidDocumentError, OutputLimitError, ProtocolViolationError
from contracts.limits import MAX_COUNT, MAX_PROTOCOL_LINE_BYTES

if TYPE_CHECKING:
    from collections.abc import Iterator

STAGE: Final = "parse_runner_output"
"""`error.stage` of a result that fails here."""

PREFIX: Final = b"__AUTO_ML_TRAINING_"
EVENT: Final = PREFIX + b"EVENT__="
LOG: Final = PREFIX + b"LOG__="
RESULT: Final = PREFIX + b"RESULT__="
START: Final = PREFIX + b"START__="
FAILURE: Final = PREFIX + b"FAILURE__="

_WIRE_VERSION: Final = "training-event/v1"
_Whole = Annotated[int, msgspec.Meta(ge=0, le=MAX_COUNT)]
_Note = Annotated[str, msgspec.Meta(max_length=4000)]
_Moment = Annotated[datetime, msgspec.Meta(tz=True)]


class _Typed(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="event_type", gc=False):
    """What every event has. No field has a default: a line that leaves one out is valid, but takes the slower way."""

    event_type: ClassVar[str]

    protocol_version: Literal["training-event/v1"]
    execution_id: str
    sequence: _Whole
    occurred_at: _Moment

    def to_document(self) -> dict[str, Any]:
        """The event as `training-event/v1`."""
        document: dict[str, Any] = msgspec.to_builtins(self)
        return document


class Phase(_Typed, frozen=True, tag="phase"):
    """Training entered a phase."""

    event_type: ClassVar[str] = "phase"

    phase: Annotated[str, msgspec.Meta(min_length=1, max_length=128)]
    message: _Note | None


class Log(_Typed, frozen=True, tag="log"):
    """One line for people."""

    event_type: ClassVar[str] = "log"

    level: Literal["debug", "info", "warning", "error"]
    message: Annotated[str, msgspec.Meta(min_length=1, max_length=16_000)]


class Metric(_Typed, frozen=True, tag="metric"):
    """Finite numbers of one moment of training."""

    event_type: ClassVar[str] = "metric"

    split: Literal["train", "val", "test", "other"]
    epoch: _Whole | None
    step: _Whole | None
    metrics: Annotated[dict[str, float], msgspec.Meta(min_length=1, max_length=128)]


class Checkpoint(_Typed, frozen=True, tag="checkpoint"):
    """A checkpoint lies at `path`, relative to `output_dir`."""

    event_type: ClassVar[str] = "checkpoint"

    path: str
    message: _Note | None


Event = Phase | Log | Metric | Checkpoint

_METRIC_FIELDS: Final = 9
_OTHER_FIELDS: Final = 7
"""Keys of a line that leaves nothing out, the tag included; those inside `metrics` come on top."""


class Plain(msgspec.Struct, frozen=True):
    """A line that is not of the protocol, without its end."""

    line: bytes


class Started(msgspec.Struct, frozen=True):
    """The package's first line is next."""


class Completed(msgspec.Struct, frozen=True):
    """What `train` returned, valid by its contract."""

    completion: Completion


class Failure(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What the package did instead of finishing, as the runner saw it.

    Attributes:
        kind: which of the four.
        error_type: the exception's class, or the type of what was returned.
        message: its text.
        traceback: its end, the package's frames included.
        file: of the innermost frame in the package's code, relative to it; empty if none is.
        line: of that frame.
        function: of that frame.
        errno: of an `OSError`.
        path: the file that an `OSError` names.
    """

    kind: Literal["import_failed", "entrypoint_missing", "raised", "wrong_return_value"]
    error_type: str
    message: str
    traceback: str = ""
    file: str = ""
    line: int = 0
    function: str = ""
    errno: int | None = None
    path: str = ""


Message = Event | Plain | Started | Completed | Failure


class _LogLine(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    message: Annotated[str, msgspec.Meta(min_length=1, max_length=16_000)]
    level: Literal["debug", "info", "warning", "error"] = "info"
    execution_id: str | None = None
    occurred_at: _Moment | None = None


_EVENTS: Final = msgspec.json.Decoder(Phase | Log | Metric)
_EVENT_LENGTH: Final = len(EVENT)
_NEXT_EVENT: Final = b"\n" + EVENT
_LOG_LINES: Final = msgspec.json.Decoder(_LogLine)
_FAILURES: Final = msgspec.json.Decoder(Failure)


class ProtocolReader:
    """Reads what one training process says. After it has raised, nothing more of that process is to be believed.

    Attributes:
        events: how many typed events there were.
        started: whether the package's first line has been reached.
        completion: what `train` returned, once it is known.
        failure: what it did instead, once it is known.
    """

    def __init__(self, execution_id: str, *, max_events: int) -> None:
        """Expects events of `execution_id`, from sequence 0, at most `max_events` of them."""
        self.events = 0
        self.started = False
        self.completion: Completion | None = None
        self.failure: Failure | None = None
        self._execution_id = execution_id
        self._max_events = max_events
        self._lines = 0
        self._rest = bytearray()

    def feed(self, chunk: bytes) -> Iterator[Message]:
        """The messages that `chunk` completes, in order.

        Args:
            chunk: the next bytes of the pipe, of any length.

        Raises:
            ProtocolViolationError: a line is unreadable, foreign, out of sequence, repeated, too long, or comes after
                the result.
            OutputLimitError: more events than are allowed.
        """
        whole, newline, rest = chunk.rpartition(b"\n")
        if not newline:
            self._rest += rest
            whole = b""
        else:
            if self._rest:
                whole = bytes(self._rest) + whole
                self._rest.clear()
            self._rest += rest
        if newline:
            events = self._events_at_once(whole)
            if events is None:
                yield from self._line_by_line(whole)
            else:
                yield from events
        if len(self._rest) > MAX_PROTOCOL_LINE_BYTES:
            self._lines += 1
            self._refuse(bytes(self._rest[:80]), f"is longer than {MAX_PROTOCOL_LINE_BYTES} bytes")

    def _events_at_once(self, lines: bytes) -> list[Phase | Log | Metric] | None:
        """The events that `lines` are, if each is one as our runner writes it and nothing is wrong with any; else none.

        No line leaves a field out. If the fields account for all keys, no key is there twice; `"key" :` would hide one.
        """
        if not lines.startswith(EVENT) or lines.count(_NEXT_EVENT) != lines.count(b"\n") or self.completion is not None:
            return None
        content = lines[_EVENT_LENGTH:].replace(_NEXT_EVENT, b"\n")  # no JSON text holds a line feed
        if b'" ' in content or b'"\t' in content or b'"\r' in content:
            return None
        try:
            events = _EVENTS.decode_lines(content)
        except msgspec.MsgspecError:
            return None
        sequence, keys, execution_id = self.events, 0, self._execution_id
        for event in events:
            if event.sequence != sequence or event.execution_id != execution_id or event.occurred_at.tzinfo is not UTC:
                return None
            sequence += 1
            if event.__class__ is Metric:
                keys += _METRIC_FIELDS + len(event.metrics)
                if not all(map(str.strip, event.metrics)):  # a blank name
                    return None
            else:
                keys += _OTHER_FIELDS
        complete = len(events) == content.count(b"\n") + 1  # an empty line is none to the decoder
        if not complete or keys != content.count(b'":') or sequence > self._max_events:
            return None
        self.events = sequence
        self._lines += len(events)
        return events

    def _line_by_line(self, lines: bytes) -> Iterator[Message]:
        for line in lines.split(b"\n"):
            self._lines += 1
            if line.startswith(EVENT):
                yield self._event(line)
            elif line.startswith(PREFIX):
                yield self._other(line)
            elif line:
                yield Plain(line)

    def _event(self, line: bytes) -> Event:
        event = self._by_contract(line, line[_EVENT_LENGTH:])
        if event.sequence != self.events:
            self._refuse(line, f"has sequence {event.sequence}, must have {self.events}")
        if self.completion is not None:
            self._refuse(line, "comes after the result")
        self.events += 1
        if self.events > self._max_events:
            raise OutputLimitError(
                f"the package reported more than {self._max_events} events",
                hint="Report metrics once an epoch, or every so many steps.",
                context={"stage": "train", "max_events": self._max_events},
            )
        return event

    def _by_contract(self, line: bytes, content: bytes) -> Event:
        try:
            document = validate("event", content).to_document()
        except InvalidDocumentError as error:
            self._refuse(line, error.message, error)
        if document["execution_id"] != self._execution_id:
            self._refuse(line, f"is of execution {document['execution_id']}, must be of {self._execution_id}")
        kind = {"phase": Phase, "log": Log, "metric": Metric, "checkpoint": Checkpoint}[document["event_type"]]
        event: Event = msgspec.convert(document, kind)
        return event

    def _other(self, line: bytes) -> Message:
        content = line.partition(b"=")[2]
        if self.completion is not None:
            self._refuse(line, "comes after the result; there may be only one")
        if self.failure is not None:
            self._refuse(line, "comes after the failure")
        try:
            if line.startswith(RESULT):
                return self._completed(line, content)
            if line.startswith(LOG):
                return self._log(line, content)
            if line.startswith(START):
                if self.started:
                    self._refuse(line, "says a second time that training starts")
                self.started = True
                return Started()
            if line.startswith(FAILURE):
                self.failure = _FAILURES.decode(content)
                return self.failure
        except msgspec.MsgspecError as error:
            self._refuse(line, f"is unreadable: {error}", error)
        return self._refuse(line, "is of no known kind")

    def _completed(self, line: bytes, content: bytes) -> Completed | Failure:
        if not self.started:
            self._refuse(line, "comes before training started")
        try:
            self.completion = validate(Completion, content)
        except InvalidDocumentError as error:
            violations = cast("list[dict[str, str]]", error.context["violations"])
            if all(not violation["path"] for violation in violations):  # no JSON at all: not what the runner writes
                self._refuse(line, error.message, error)
            self.failure = Failure("wrong_return_value", "dict", msgspec.json.encode(violations).decode())
            return self.failure
        return Completed(self.completion)

    def _log(self, line: bytes, content: bytes) -> Log:
        said = _LOG_LINES.decode(content)
        if said.execution_id not in {None, self._execution_id}:
            self._refuse(line, f"is of execution {said.execution_id}, must be of {self._execution_id}")
        moment = said.occurred_at or datetime.now(UTC)
        return Log(_WIRE_VERSION, self._execution_id, self.events, moment, said.level, said.message)

    def _refuse(self, line: bytes, reason: str, cause: Exception | None = None) -> NoReturn:
        kind = line.partition(b"=")[0].decode(errors="replace")[:64]
        raise ProtocolViolationError(
            f"protocol line {self._lines} ({kind}) {reason}"[:2000],
            hint="Report with `report(...)` from the main process and return a completion; never print protocol lines.",
            context={"stage": STAGE, "line_number": self._lines, "line": line[:1000].decode(errors="replace")},
        ) from cause


def forged(line: bytes) -> ProtocolViolationError:
    """The error for a protocol line among what the package printed."""
    kind = line.partition(b"=")[0].decode(errors="replace")[:64]
    return ProtocolViolationError(
        f"the package printed a protocol line of its own ({kind})",
        hint="Report with `report(...)` and return a completion; never print protocol lines.",
        context={"stage": STAGE, "line": line[:1000].decode(errors="replace")},
    )
