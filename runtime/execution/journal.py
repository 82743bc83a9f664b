"""What happened in an execution, line by line, for whoever follows it now or reads it later.

One file an execution, `journal.jsonl`: each line an object with `at` (UTC), `kind` and that kind's fields.

| kind | fields |
|---|---|
| `attempt` | `attempt`, and what is known of it |
| `stage` | `stage`, `state` |
| `state` | `state`, `message` |
| `phase` | `phase`, `message` |
| `metric` | `split`, `epoch`, `step`, `metrics` |
| `checkpoint` | `path`, `message` |
| `log` | `level`, `message` |
| `output` | `text`, and `left_out`, how many lines before it are only in `output-<attempt>.log` beside the journal |
"""

from __future__ import annotations

import os
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Self

import orjson

from contracts.limits import CHUNK_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from runtime.execution.protocol import Event

JOURNAL_NAME = "journal.jsonl"
POLL_SECONDS = 0.1

_BASE_FIELDS = frozenset({"protocol_version", "event_type", "execution_id", "sequence", "occurred_at"})
_CONTROL = dict.fromkeys((*range(9), *range(11, 32), *range(127, 160)), "�")
"""A package must not move the cursor, or worse, in the terminal of whoever reads its output."""


def plain_text(text: str) -> str:
    """`text` without control characters but tab and line feed."""
    return text.translate(_CONTROL)


class Journal:
    """The journal of one execution. Several processes may append; each line is written whole.

    Attributes:
        path: the file; its folder is made with the first line.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._descriptor: int | None = None

    @classmethod
    def of(cls, executions_root: Path, execution_id: str) -> Journal:
        """The journal of `execution_id` under the installation's `executions_root`."""
        return cls(executions_root / execution_id / JOURNAL_NAME)

    def output_path(self, attempt: int) -> Path:
        """Where all plain output of an attempt goes."""
        return self.path.with_name(f"output-{attempt}.log")

    def append(self, kind: str, **fields: Any) -> None:
        """Afterwards the file ends with a line of `kind`. A process killed meanwhile leaves earlier lines readable.

        Raises:
            OSError: the disk is full, or the folder cannot be made.
        """
        entry = {"at": datetime.now(UTC).isoformat().replace("+00:00", "Z"), "kind": kind, **fields}
        line = orjson.dumps(entry, default=str, option=orjson.OPT_APPEND_NEWLINE)
        os.write(self._open(), line)  # O_APPEND and one write: lines of two processes do not mix

    def read(self, tail: int | None = None) -> list[dict[str, Any]]:
        """Its entries, the last `tail` of them."""
        return read(self.path, tail)

    def follow(self, stop: Callable[[], bool]) -> Iterator[dict[str, Any]]:
        """As the function `follow`."""
        return follow(self.path, stop)

    def listener(self) -> JournalListener:
        """What writes a training's events into this journal."""
        return JournalListener(self)

    def close(self) -> None:
        """Afterwards no file is held open; `append` opens it again."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _open(self) -> int:
        if self._descriptor is None:
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
            self._descriptor = os.open(self.path, flags, 0o600)
            size = os.fstat(self._descriptor).st_size
            if size and os.pread(self._descriptor, 1, size - 1) != b"\n":
                os.write(self._descriptor, b"\n")  # a writer was killed within its line: the next must not join it
        return self._descriptor


def read(path: Path, tail: int | None = None) -> list[dict[str, Any]]:
    """The entries of a journal, the last `tail` of them; none when there is no file. Unreadable lines are left out."""
    try:
        with path.open("rb") as source:
            content = source.read() if tail is None else _last_lines(source.fileno(), tail)
    except FileNotFoundError:
        return []
    entries = [entry for line in content.split(b"\n") if (entry := _entry(line)) is not None]
    return entries if tail is None else entries[-tail:] if tail > 0 else []


def follow(path: Path, stop: Callable[[], bool]) -> Iterator[dict[str, Any]]:
    """Every entry of a journal, from its first, as it is written; ends once `stop()` is true and nothing is left.

    Args:
        path: the journal; it may not exist yet.
        stop: asked before each look at the file, so that what was written before it became true is still given.
    """
    rest = b""
    descriptor: int | None = None
    try:
        while True:
            last_look = stop()
            if descriptor is None:
                try:
                    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
                except FileNotFoundError:
                    descriptor = None
            while descriptor is not None and (chunk := os.read(descriptor, CHUNK_BYTES)):
                *lines, rest = (rest + chunk).split(b"\n")
                yield from (entry for line in lines if (entry := _entry(line)) is not None)
            if last_look:
                return
            time.sleep(POLL_SECONDS)
    finally:
        if descriptor is not None:
            os.close(descriptor)


def _entry(line: bytes) -> dict[str, Any] | None:
    if not line:
        return None
    try:
        entry = orjson.loads(line)
    except orjson.JSONDecodeError:
        return None  # the line of a writer that was killed
    return entry if isinstance(entry, dict) else None


def _last_lines(descriptor: int, count: int) -> bytes:
    """The end of a file that holds at least `count` lines, read backwards: journals grow long."""
    at = os.fstat(descriptor).st_size
    content = b""
    while at > 0 and content.count(b"\n") <= count:
        step = min(at, CHUNK_BYTES)
        at -= step
        content = os.pread(descriptor, step, at) + content
    return content if at == 0 else content.partition(b"\n")[2]


class JournalListener:
    """Writes what a training says into its journal."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal

    def started(self, *, pid: int, isolation: Mapping[str, str]) -> None:
        """The package's first line is about to run."""
        self._journal.append("log", level="info", message="training started", pid=pid, isolation=dict(isolation))

    def event(self, event: Event) -> None:
        """One typed event, without what every event has."""
        fields = {name: value for name, value in event.to_document().items() if name not in _BASE_FIELDS}
        for name in ("phase", "message", "path"):
            if isinstance(fields.get(name), str):
                fields[name] = plain_text(fields[name])
        self._journal.append(event.event_type, **fields)

    def output(self, line: str, left_out: int) -> None:
        """One plain line."""
        self._journal.append("output", text=plain_text(line), **({"left_out": left_out} if left_out else {}))
