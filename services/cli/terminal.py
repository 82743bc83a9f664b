"""What a command prints: one answer on stdout, everything that is said on the way on stderr."""

from __future__ import annotations

import contextlib
import sys
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Self, TextIO

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from services.cli.documents import write_document

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from rich.console import RenderableType

PLAIN_WIDTH: Final = 200
"""Columns where stdout is no terminal: a table in a log keeps its digests whole."""

PROGRESS_AFTER_SECONDS: Final = 1.0
"""What is over sooner needs no bar."""

PLAIN_PROGRESS_SECONDS: Final = 5.0
"""Between two lines of progress where stderr is no terminal."""


@dataclass(frozen=True, slots=True)
class Terminal:
    """Where one command speaks. `as_json`: stdout is exactly one JSON document."""

    as_json: bool
    answers: TextIO
    notes: Console

    @classmethod
    @contextlib.contextmanager
    def open(cls, *, as_json: bool) -> Iterator[Terminal]:
        """A terminal; with `as_json`, whatever else prints to `sys.stdout` meanwhile lands on stderr."""
        answers = sys.stdout
        notes = Console(stderr=True, highlight=False, soft_wrap=True)
        with contextlib.redirect_stdout(sys.stderr) if as_json else contextlib.nullcontext():
            yield cls(as_json, answers, notes)

    def answer(self, document: Any, *renderables: RenderableType) -> None:
        """Print the command's answer: `document` with `--json`, else the renderables."""
        if self.as_json:
            write_document(self.answers, document)
            return
        console = Console(file=self.answers, highlight=False)
        if not console.is_terminal:
            console = Console(file=self.answers, highlight=False, width=PLAIN_WIDTH)
        for renderable in renderables:
            console.print(renderable)

    def note(self, message: str, *, style: str = "") -> None:
        """Say something on the way; never part of the answer, never read as markup."""
        self.notes.print(Text(message, style=style))

    @contextlib.contextmanager
    def progress(self, what: str) -> Iterator[Callable[[int, int], None]]:
        """A callback `(done, total)` that shows a bar on a terminal, and a line now and then where there is none."""
        if self.notes.is_terminal:
            with _Bar(self.notes, what) as bar:
                yield bar.advance
        else:
            yield _PlainProgress(self, what).advance


class _Bar:
    def __init__(self, console: Console, what: str) -> None:
        self._what = what
        self._started = time.monotonic()
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TaskProgressColumn(),
            TimeRemainingColumn(),
            console=console,
            transient=True,
        )
        self._task: Any = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._task is not None:
            self._progress.stop()

    def advance(self, done: int, total: int) -> None:
        if self._task is None:
            if time.monotonic() - self._started < PROGRESS_AFTER_SECONDS:
                return
            self._progress.start()
            self._task = self._progress.add_task(self._what, total=total)
        self._progress.update(self._task, completed=done, total=total)


class _PlainProgress:
    def __init__(self, terminal: Terminal, what: str) -> None:
        self._terminal, self._what = terminal, what
        self._said = time.monotonic()

    def advance(self, done: int, total: int) -> None:
        now = time.monotonic()
        if now - self._said >= PLAIN_PROGRESS_SECONDS:
            self._said = now
            self._terminal.note(f"{self._what}: {done} of {total}")


def table(title: str, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> Table:
    """A table whose cells are shown as they are: folded, never cut, never read as markup."""
    made = Table(title=Text(title, style="bold"), title_justify="left", header_style="bold")
    for column in columns:
        made.add_column(column, overflow="fold")
    for row in rows:
        made.add_row(*(Text("" if cell is None else str(cell)) for cell in row))
    return made


def facts(title: str, rows: Iterable[tuple[str, object]]) -> Table:
    """Names and values, one a line; what is None is left out."""
    made = Table(
        title=Text(title, style="bold"), title_justify="left", show_header=False, box=None, padding=(0, 2, 0, 0)
    )
    made.add_column(style="dim")
    made.add_column(overflow="fold")
    for name, value in rows:
        if value is not None:
            made.add_row(name, Text(str(value)))
    return made


def human_seconds(seconds: float) -> str:
    """`1.4 s`, `2 min 5 s`, `3 h 4 min`."""
    if seconds < 60:
        return f"{seconds:.1f} s"
    if seconds < 3600:
        return f"{int(seconds // 60)} min {int(seconds % 60)} s"
    return f"{int(seconds // 3600)} h {int(seconds % 3600 // 60)} min"
