"""Carrying an execution out in this process while its journal is told as it is written."""

from __future__ import annotations

import contextlib
import signal
import threading
from typing import TYPE_CHECKING, Any, Final

from rich.text import Text

from contracts.errors import RuntimeFault
from runtime.execution.journal import Journal
from services import orchestrator
from services.cli.terminal import human_seconds

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import FrameType

    from runtime.installation import Installation
    from runtime.ledger.records import Execution
    from services.cli.terminal import Terminal

LOG_STYLES: Final = {"debug": "dim", "info": "", "warning": "yellow", "error": "red"}

TOLD_STAGE_SECONDS: Final = 1.0
"""The end of a shorter stage is told by the beginning of the next."""


def carry_out(here: Installation, execution_id: str, terminal: Terminal) -> Execution:
    """The execution at its end, after this process took it there, its journal told on stderr meanwhile.

    The first Ctrl-C asks for its cancellation and waits for the end; a second one interrupts at once.

    Raises:
        RuntimeFault: it could not be taken to its end now, because something outside is unavailable for instance; the
            hint says how to go on.
    """
    with _followed(here, execution_id, terminal) as interrupted:
        try:
            orchestrator.run_embedded(here, execution_id, cancelled=interrupted.is_set)
        except RuntimeFault as fault:
            execution = here.ledger.get(execution_id)
            if not execution.ended:
                fault.hint += f" `mtr executions resume {execution_id}` then goes on where it stopped."
                fault.context.setdefault("execution_id", execution_id)
                raise
    return here.ledger.get(execution_id)


@contextlib.contextmanager
def _followed(here: Installation, execution_id: str, terminal: Terminal) -> Iterator[threading.Event]:
    """While the context lasts, a thread tells what the journal gets, and a Ctrl-C becomes a wish to cancel.

    The answered event is set by it.
    """
    journal = Journal.of(here.settings.executions_root, execution_id)
    told_before = len(journal.read())
    ended, interrupted = threading.Event(), threading.Event()

    def ask_to_cancel() -> None:
        # In a thread: a signal handler may find the main thread within a transaction of the very same database.
        interrupted.wait()
        if ended.is_set():
            return
        terminal.note("cancelling; Ctrl-C again interrupts at once", style="yellow")
        with contextlib.suppress(RuntimeFault):
            here.ledger.request_cancel(execution_id)

    def tell() -> None:
        for index, entry in enumerate(journal.follow(ended.is_set)):
            if index >= told_before and (line := entry_text(entry)) is not None:
                terminal.notes.print(line)

    threads = [threading.Thread(target=work, daemon=True) for work in (ask_to_cancel, tell)]
    for thread in threads:
        thread.start()
    try:
        with _interrupts(interrupted):
            yield interrupted
    finally:
        ended.set()
        interrupted.set()
        for thread in threads:
            thread.join()


@contextlib.contextmanager
def _interrupts(first: threading.Event) -> Iterator[None]:
    """While the context lasts, the first SIGINT sets `first` and the next ones raise KeyboardInterrupt."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        if first.is_set():
            raise KeyboardInterrupt
        first.set()

    before = signal.signal(signal.SIGINT, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def entry_text(entry: dict[str, Any]) -> Text | None:
    """One journal entry as a line for people; None for what says nothing to them."""
    shown: Callable[[dict[str, Any]], Text | None] | None = _ENTRIES.get(str(entry.get("kind")))
    return None if shown is None else shown(entry)


def _stage(entry: dict[str, Any]) -> Text | None:
    state, seconds = entry.get("state"), entry.get("seconds")
    if state == "running":
        return Text(f"▸ {entry.get('stage')}", style="bold")
    took = f" after {human_seconds(seconds)}" if isinstance(seconds, int | float) else ""
    if state == "failed":
        return Text(f"  {entry.get('stage')} failed{took}: {entry.get('message')}", style="red")
    worth_telling = isinstance(seconds, int | float) and seconds >= TOLD_STAGE_SECONDS
    return Text(f"  {entry.get('stage')} {state}{took}", style="dim") if worth_telling else None


def _metric(entry: dict[str, Any]) -> Text:
    values = "  ".join(f"{name} {_number(value)}" for name, value in (entry.get("metrics") or {}).items())
    where = [f"epoch {entry['epoch']}"] if entry.get("epoch") is not None else []
    where += [f"step {entry['step']}"] if entry.get("step") is not None else []
    return Text("  " + "  ".join([*where, str(entry.get("split")), values]), style="cyan")


def _number(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, int | float) else str(value)


def _described(what: str) -> Callable[[dict[str, Any]], Text]:
    def show(entry: dict[str, Any]) -> Text:
        message = f": {entry['message']}" if entry.get("message") else ""
        return Text(f"  {entry.get(what)}{message}")

    return show


def _log(entry: dict[str, Any]) -> Text:
    level = str(entry.get("level"))
    return Text(f"  {level}: {entry.get('message')}", style=LOG_STYLES.get(level, ""))


def _output(entry: dict[str, Any]) -> Text:
    skipped = entry.get("left_out")
    before = f"  … {skipped} lines not shown\n" if skipped else ""
    return Text(f"{before}  | {entry.get('text')}", style="dim")


def _attempt(entry: dict[str, Any]) -> Text | None:
    number = entry.get("attempt")
    return Text(f"  attempt {number}", style="yellow") if isinstance(number, int) and number > 1 else None


def _state(entry: dict[str, Any]) -> Text:
    message = f": {entry['message']}" if entry.get("message") else ""
    return Text(f"{entry.get('state')}{message}", style="bold")


_ENTRIES: Final[dict[str, Callable[[dict[str, Any]], Text | None]]] = {
    "stage": _stage,
    "attempt": _attempt,
    "state": _state,
    "phase": _described("phase"),
    "checkpoint": _described("path"),
    "metric": _metric,
    "log": _log,
    "output": _output,
}
