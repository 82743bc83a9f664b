"""What a training said, as the answer of a synchronous run carries it: events of the contract, and lines for people."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from contracts.limits import MAX_RUN_ENTRIES
from runtime.execution.journal_pages import read_page

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

_FIELDS: Final = {
    "phase": ("phase", "message"),
    "log": ("level", "message"),
    "metric": ("split", "epoch", "step", "metrics"),
    "checkpoint": ("path", "message"),
}
"""The fields of an event, by its type; a journal names them alike."""


@dataclass(slots=True)
class Transcript:
    """What was said, the last `MAX_RUN_ENTRIES` of each kind.

    Attributes:
        events: `training-event/v1` documents of the last training, numbered from its first on.
        logs: `{"level", "message", "at"}`: what the package logged and printed, and what the runtime said about it.
    """

    events: deque[dict[str, Any]] = field(default_factory=lambda: deque(maxlen=MAX_RUN_ENTRIES))
    logs: deque[dict[str, Any]] = field(default_factory=lambda: deque(maxlen=MAX_RUN_ENTRIES))

    @classmethod
    def read(cls, journal: Path, execution_id: str) -> Transcript:
        """The transcript of an execution; empty where its journal is not on this machine."""
        told, position, reader = cls(), 0, _Reader(execution_id)
        while True:
            page = read_page(journal, position)
            for _, entry in page.entries:
                reader.take(entry, told)
            position = page.position
            if not page.more:
                return told


@dataclass(slots=True)
class _Reader:
    """Tells a package's own events from what the runtime wrote into the same journal: they come while it trains."""

    execution_id: str
    training: bool = False
    number: int = 0

    def take(self, entry: Mapping[str, Any], told: Transcript) -> None:
        kind, at = entry.get("kind"), entry.get("at")
        if kind == "log" and "pid" in entry:  # the supervisor's: the package's first line is about to run
            self.training, self.number = True, 0
            told.events.clear()
        elif kind == "stage" and entry.get("state") != "running":
            self.training = False
        elif self.training and kind in _FIELDS:
            told.events.append(
                {
                    "protocol_version": "training-event/v1",
                    "execution_id": self.execution_id,
                    "sequence": self.number,
                    "occurred_at": at,
                    "event_type": kind,
                    **{name: entry.get(name) for name in _FIELDS[kind]},
                }
            )
            self.number += 1
        if kind == "log":
            told.logs.append({"level": entry.get("level"), "message": entry.get("message"), "at": at})
        elif kind == "output":
            if left_out := entry.get("left_out"):
                message = f"{left_out} lines before the next one are left out here"
                told.logs.append({"level": "warning", "message": message, "at": at})
            told.logs.append({"level": "info", "message": entry.get("text"), "at": at})
