"""A training that runs, as the Prefect UI shows it: phases, metrics, a curve and the last lines, at most every two seconds."""

from __future__ import annotations

import base64
import contextlib
import time
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from runtime.execution.journal import plain_text
from runtime.execution.protocol import Checkpoint, Log, Metric, Phase
from runtime.sizes import readable_size
from tasks.curve import draw_curves
from tasks.showing import PROGRESS_SECONDS, escape, show_markdown, update

if TYPE_CHECKING:
    from collections.abc import Mapping
    from uuid import UUID

    from contracts.submission import Resources
    from runtime.execution.launch import TrainingListener
    from runtime.execution.protocol import Event
    from tasks.run import Run

TAIL_LINES: Final = 20
MAX_POINTS: Final = 400
"""Of one curve; a longer one is thinned, which no eye sees on 640 pixels."""
MAX_CURVES: Final = 6
LOG_LINES_PER_SECOND: Final = 2.0
LOG_BURST: Final = 30.0
"""Prefect's log is a sample: 100 000 lines locked its database for minutes. All of them are in `output.log`."""

_LEVELS: Final = {"debug": 10, "info": 20, "warning": 30, "error": 40}


def announce_training(run: Run, resources: Resources) -> TrainingView:
    """The view of a training that is about to start, shown already."""
    allowed = f"{resources.device}, {resources.cpu_cores:g} cores, {readable_size(resources.memory_bytes)}"
    view = TrainingView(run, allowed)
    view.artifact = show_markdown("training", view.text(), "The training, live")
    return view


@dataclass(slots=True)
class TrainingView:
    """What has been said so far, in the form in which it is shown.

    Attributes:
        run: the execution.
        allowed: what training may use, for people.
        artifact: where it is shown; `None` where it cannot be.
    """

    run: Run
    allowed: str
    artifact: UUID | None = None
    started: str = ""
    phases: list[str] = field(default_factory=list)
    curves: dict[str, list[tuple[float, float]]] = field(default_factory=dict)
    latest: dict[str, tuple[str, float]] = field(default_factory=dict)
    tail: deque[str] = field(default_factory=lambda: deque(maxlen=TAIL_LINES))
    shown_at: float = 0.0
    allowance: float = LOG_BURST
    refilled_at: float = field(default_factory=time.monotonic)

    def show(self, *, now: bool = False) -> None:
        """Afterwards the UI shows what is known, if it was not shown just before or `now` is set."""
        if now or time.monotonic() - self.shown_at >= PROGRESS_SECONDS:
            self.shown_at = time.monotonic()
            update(self.artifact, self.text())

    def close(self) -> None:
        """Afterwards the UI shows the last state."""
        self.show(now=True)

    def say(self, level: int, message: str) -> None:
        """A line for Prefect's log, unless there were too many."""
        now = time.monotonic()
        self.allowance = min(LOG_BURST, self.allowance + (now - self.refilled_at) * LOG_LINES_PER_SECOND)
        self.refilled_at = now
        if self.allowance >= 1 or level >= _LEVELS["warning"]:
            self.allowance -= 1
            self.run.log.log(level, "%s", message[:2000])

    def point(self, event: Metric) -> None:
        """Afterwards the curves have the event's values."""
        at, where = event.step, "" if event.step is None else f"step {event.step}"
        if event.epoch is not None:
            at, where = event.epoch, f"epoch {event.epoch}"
        for name, value in event.metrics.items():
            title = f"{event.split} {name}"
            self.latest[title] = (where, value)
            curve = self.curves.setdefault(title, [])
            curve.append((float(at if at is not None else len(curve)), value))
            if len(curve) > 2 * MAX_POINTS:
                del curve[1:-1:2]

    def text(self) -> str:
        """All of it as Markdown."""
        parts = [f"**{escape(self.phases[-1]) if self.phases else 'starting'}** · {self.allowed}{self.started}", ""]
        drawn = {title: points for title, points in self.curves.items() if len(points) > 1}
        if drawn:
            picture = base64.b64encode(draw_curves(dict(list(drawn.items())[:MAX_CURVES]))).decode()
            parts += [f"![curves](data:image/png;base64,{picture})", ""]
        if self.latest:
            rows = [f"| {escape(title)} | {value:.6g} | {at} |" for title, (at, value) in self.latest.items()]
            parts += ["| metric | latest | at |", "|---|---|---|", *rows[:128], ""]
        if self.phases:
            parts += ["Phases: " + " → ".join(escape(phase) for phase in self.phases[-20:]), ""]
        if self.tail:
            fenced = "\n".join(line.replace("```", "'''") for line in self.tail)
            parts += ["```text", fenced, "```", ""]
        return "\n".join(parts)


class LiveView:
    """Passes what a training says to the journal first, then to the UI."""

    def __init__(self, journal: TrainingListener, view: TrainingView) -> None:
        self._journal = journal
        self._view = view

    def started(self, *, pid: int, isolation: Mapping[str, str]) -> None:
        """The package's first line is about to run."""
        with contextlib.suppress(OSError):  # a full disk loses the line; the limits of the workspace end the training
            self._journal.started(pid=pid, isolation=isolation)
        self._view.started = " · " + ", ".join(f"{what} {state}" for what, state in sorted(isolation.items()))
        self._view.say(_LEVELS["info"], f"training started in process {pid}{self._view.started}")

    def event(self, event: Event) -> None:
        """One typed event."""
        with contextlib.suppress(OSError):
            self._journal.event(event)
        if isinstance(event, Metric):
            self._view.point(event)
            values = ", ".join(f"{name} {value:.6g}" for name, value in list(event.metrics.items())[:8])
            where = "" if event.epoch is None else f"epoch {event.epoch} "
            self._view.say(_LEVELS["info"], f"{where}{event.split}: {values}")
        elif isinstance(event, Phase):
            phase = plain_text(event.phase)
            self._view.phases.append(phase)
            self._view.say(
                _LEVELS["info"], f"phase {phase}" + (f": {plain_text(event.message)}" if event.message else "")
            )
        elif isinstance(event, Log):
            message = plain_text(event.message)
            self._view.tail.append(f"{event.level}: {message}"[:500])
            self._view.say(_LEVELS[event.level], message)
        elif isinstance(event, Checkpoint):
            self._view.say(_LEVELS["info"], f"checkpoint {plain_text(event.path)}")
        self._view.show()

    def output(self, line: str, left_out: int) -> None:
        """One plain line, after `left_out` that are only in the log file."""
        with contextlib.suppress(OSError):
            self._journal.output(line, left_out)
        if left_out:
            self._view.tail.append(f"… {left_out} lines")
        self._view.tail.append(plain_text(line)[:500])
        self._view.say(_LEVELS["info"], plain_text(line))
        self._view.show()
