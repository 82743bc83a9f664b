"""From the lines of an execution's journal to the log messages that the platform gets, none twice and none lost.

The ledger remembers, for each journal file, up to which byte its lines are messages, in the transaction that writes them.
A journal is known by its first line, which no other has: an execution that goes on upon another machine has another
journal there, told from its beginning, and one that comes back finds its place again.
"""

from __future__ import annotations

import hashlib
import os
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, Self, cast

import orjson

from contracts.limits import MAX_TOLD_CHARACTERS, MAX_TOLD_LOGS, MIB, TOLD_LINES_AT_ONCE
from contracts.messages import log
from runtime.execution.journal import Journal, plain_text
from runtime.ledger import Told

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from contracts.messages import LogLevel, TaskLog
    from runtime.installation import Installation
    from runtime.ledger import ExecutionSummary, Ledger

_LOOK_BYTES: Final = 4 * MIB
"""What one transaction takes of a journal: some 40 000 lines."""
_LEVELS: Final = frozenset({"debug", "info", "warning", "error"})

Line = tuple[datetime, "LogLevel", str]
"""When, how serious, and what."""


class Teller:
    """Turns the journal of one execution on this machine into messages.

    It keeps where it stands, so that looking at a journal with nothing new costs one question to the file system.
    """

    def __init__(self, ledger: Ledger, journal: Path, execution: ExecutionSummary) -> None:
        """For `execution`, whose journal is the file `journal`; one that is not announced is never told."""
        self._ledger = ledger
        self._path = journal
        self._execution = execution
        self._name: str | None = None
        self._told: Told | None = None

    @classmethod
    def of(cls, installation: Installation, execution: ExecutionSummary) -> Self:
        """The teller of `execution` as this installation has it."""
        journal = Journal.of(installation.settings.executions_root, execution.execution_id)
        return cls(installation.ledger, journal.path, execution)

    def tell(self) -> None:
        """Afterwards every whole line of the journal is a message, unless the execution has ended.

        Raises:
            LedgerUnavailableError: the ledger does not answer. The next call goes on where this one stopped.
        """
        while self._execution.announced and self._tell_some():
            pass

    def _tell_some(self) -> bool:
        """Whether there may be more."""
        try:
            with self._path.open("rb") as source:
                size = os.fstat(source.fileno()).st_size
                if self._told is not None and size == self._told.bytes:
                    return False
                self._name = self._name or _name_of(source.readline())
                if self._name is None:
                    return False
                told = self._told = self._told or self._ledger.told(self._execution.execution_id, self._name)
                if told.logs > MAX_TOLD_LOGS:
                    return False
                # A disk that lost power may have lost what was told: then its lines are told again rather than lost.
                start = told.bytes if told.bytes <= size else 0
                source.seek(start)
                content = _whole_lines(source.read(_LOOK_BYTES), source.readline)
        except OSError:
            return False  # not there yet, or not readable: no end of an execution waits for its journal
        if not content:
            return False
        logs = messages_of(content.split(b"\n"), self._execution.task_id)
        self._told, upto = None, start + len(content)
        if self._ledger.tell(self._execution.execution_id, self._name, after=told.bytes, upto=upto, logs=logs):
            self._told = Told(upto, told.logs + len(logs))
            return True
        # Somebody else was there before, or the end was: what is known to be told is asked again.
        self._told = self._ledger.told(self._execution.execution_id, self._name)
        return self._told != told


def messages_of(lines: Sequence[bytes], task_id: int) -> list[TaskLog]:
    """Log messages of journal lines, in order. More lines than people read at once are joined, those of one level."""
    told = [line for raw in lines if (line := line_of(raw)) is not None]
    if len(told) > TOLD_LINES_AT_ONCE:
        told = list(_joined(told))
    return [log(task_id=task_id, timestamp=at, level=level, content=content) for at, level, content in told]


def line_of(raw: bytes) -> Line | None:
    """What a journal's line says to the platform; `None` where it says nothing."""
    try:
        entry = orjson.loads(raw)
    except orjson.JSONDecodeError:
        return None  # empty, or the line of a writer that was killed
    if not isinstance(entry, dict):
        return None
    say = _SAID.get(str(entry.get("kind")))
    said = None if say is None else say(entry)
    if said is None or not said[1].strip():
        return None
    return _moment(entry.get("at")), said[0], plain_text(said[1])[:MAX_TOLD_CHARACTERS]


def _joined(lines: Sequence[Line]) -> Iterator[Line]:
    """Neighbours of one level as one, as long as that is not too long; it has the time of its last line."""
    at, level, content = lines[0]
    for next_at, next_level, next_content in lines[1:]:
        if next_level == level and len(content) + 1 + len(next_content) <= MAX_TOLD_CHARACTERS:
            at, content = next_at, f"{content}\n{next_content}"
        else:
            yield at, level, content
            at, level, content = next_at, next_level, next_content
    yield at, level, content


def _name_of(first_line: bytes) -> str | None:
    return hashlib.sha256(first_line).hexdigest() if first_line.endswith(b"\n") else None


def _whole_lines(content: bytes, rest_of_line: Callable[[], bytes]) -> bytes:
    """`content` up to its last line's end; a line longer than all of it is read to its end."""
    end = content.rfind(b"\n") + 1
    if end or len(content) < _LOOK_BYTES:
        return content[:end]
    content += rest_of_line()
    return content if content.endswith(b"\n") else b""


def _moment(said: Any) -> datetime:
    try:
        return datetime.fromisoformat(str(said)).astimezone(UTC)
    except (ValueError, OverflowError):
        return datetime.now(UTC)


Said = tuple["LogLevel", str]


def _stage(entry: Mapping[str, Any]) -> Said | None:
    if entry.get("state") == "running":
        return "info", f"stage {entry.get('stage')}"
    if entry.get("state") == "failed":
        return "error", f"stage {entry.get('stage')} failed: {entry.get('message') or 'an internal error'}"
    return None


def _state(entry: Mapping[str, Any]) -> Said | None:
    """Its ends are no log: the status tells them."""
    return ("warning", f"interrupted: {entry.get('message')}") if entry.get("state") == "interrupted" else None


def _attempt(entry: Mapping[str, Any]) -> Said | None:
    number = entry.get("attempt")
    return ("info", f"attempt {number}") if isinstance(number, int) and number > 1 else None


def _metric(entry: Mapping[str, Any]) -> Said:
    metrics = entry.get("metrics")
    values = [f"{name} {_number(value)}" for name, value in metrics.items()] if isinstance(metrics, dict) else []
    where = [f"{name} {entry[name]}" for name in ("epoch", "step") if entry.get(name) is not None]
    return "info", f"{' '.join([*where, str(entry.get('split'))])}: {', '.join(values)}"


def _number(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, int | float) else str(value)


def _phase(entry: Mapping[str, Any]) -> Said:
    return "info", f"phase {entry.get('phase')}{_note(entry)}"


def _checkpoint(entry: Mapping[str, Any]) -> Said:
    return "info", f"checkpoint {entry.get('path')}{_note(entry)}"


def _note(entry: Mapping[str, Any]) -> str:
    return f": {entry['message']}" if entry.get("message") else ""


def _log(entry: Mapping[str, Any]) -> Said:
    level = entry.get("level")
    return cast("LogLevel", level if level in _LEVELS else "info"), str(entry.get("message"))


def _output(entry: Mapping[str, Any]) -> Said:
    left_out = entry.get("left_out")
    before = f"… {left_out} lines are only in the runtime's log\n" if left_out else ""
    return "info", f"{before}{entry.get('text')}"


_SAID: Final[dict[str, Callable[[Mapping[str, Any]], Said | None]]] = {
    "stage": _stage,
    "state": _state,
    "attempt": _attempt,
    "metric": _metric,
    "phase": _phase,
    "checkpoint": _checkpoint,
    "log": _log,
    "output": _output,
}
