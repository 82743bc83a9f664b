"""`mtr executions`: what was run, how it ended, and what to do about it."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from contracts.admission import admit_policy
from contracts.errors import ConflictError, UsageError
from contracts.limits import MAX_COUNT
from contracts.references import Pinned
from runtime.execution.journal import Journal
from runtime.installation import Installation
from runtime.requests import read_duration, repeat_submission
from services import orchestrator
from services.cli.execution_views import (
    abandonment,
    artifact_table,
    execution_list,
    execution_views,
    exit_code,
)
from services.cli.following import carry_out, entry_text
from services.cli.options import (
    Cpus,
    Detach,
    ExecutionId,
    Gpus,
    Json,
    Memory,
    Output,
    Timeout,
    command_group,
    example,
)
from services.cli.terminal import Terminal

if TYPE_CHECKING:
    from runtime.ledger.records import Execution

app = command_group("List, show, follow, cancel and retry executions.")


class State(StrEnum):
    """The states of an execution."""

    QUEUED = "queued"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"


@app.command("list", epilog=example("mtr executions list --state failed --since 6h"))
def list_executions(
    state: Annotated[State | None, typer.Option(help="Only those in this state.")] = None,
    package: Annotated[str | None, typer.Option(metavar="KEY[@VERSION]", help="Only those of this package.")] = None,
    task: Annotated[
        int | None, typer.Option(metavar="ID", max=MAX_COUNT, help="Only those of this task of the platform.")
    ] = None,
    since: Annotated[
        str | None, typer.Option(metavar="TIME", help="Only those accepted since 6h ago, or since a date and time.")
    ] = None,
    limit: Annotated[int, typer.Option(min=1, max=MAX_COUNT, metavar="N", help="At most so many.")] = 100,
    as_json: Json = False,
) -> None:
    """List executions, the newest first."""
    with Terminal.open(as_json=as_json) as terminal, Installation.open() as here:
        found = here.ledger.list(
            state=state.value if state else None,
            package=package,
            task_id=task,
            since=None if since is None else read_moment(since),
            limit=limit,
        )
        terminal.answer({"executions": [one.to_summary_document() for one in found]}, execution_list(found))


def read_moment(text: str) -> datetime:
    """The moment that `6h` (ago) or `2026-11-30 12:00` (local time unless it names a zone) stands for.

    Raises:
        UsageError: it is neither.
    """
    if re.fullmatch(r"\s*\d+(\.\d+)?\s*[a-z]+\s*", text):
        ago_seconds = read_duration(text, "--since")
        try:
            return datetime.now(UTC) - timedelta(seconds=ago_seconds)
        except OverflowError:
            return datetime.min.replace(tzinfo=UTC)  # longer ago than there were years
    try:
        return datetime.fromisoformat(text).astimezone(UTC)
    except (ValueError, OverflowError) as error:
        raise UsageError(
            f"--since {text!r} is no time", hint="Write it as --since 6h or --since 2026-11-30T12:00."
        ) from error


@app.command(epilog=example("mtr executions show 7c2e91d0"))
def show(execution: ExecutionId, as_json: Json = False) -> None:
    """Show an execution: state, stage, error with its next action, timings, attempts, artifacts, link to the UI."""
    with Terminal.open(as_json=as_json) as terminal, Installation.open() as here:
        found = here.ledger.find(execution)
        if as_json and (said := abandonment(found)):
            terminal.note(f"worked on by {said}")
        terminal.answer(found.to_document(), *execution_views(found, here.ledger.attempts(found.execution_id)))


@app.command(epilog=example("mtr executions logs 7c2e91d0 --tail 50"))
def logs(
    execution: ExecutionId,
    tail: Annotated[
        int | None, typer.Option(min=1, max=MAX_COUNT, metavar="N", help="Only the last N entries.")
    ] = None,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on until the execution has ended.")] = False,
    as_json: Json = False,
) -> None:
    """Show what an execution said: stages, phases, metrics, logs, and some of its plain output."""
    with Terminal.open(as_json=as_json) as terminal, Installation.open() as here:
        found = here.ledger.find(execution)
        journal = Journal.of(here.settings.executions_root, found.execution_id)
        if follow and not as_json:
            _follow(here, found, journal, terminal, tail)
            return
        if follow:
            for _ in journal.follow(lambda: here.ledger.get(found.execution_id).ended):
                pass
        entries = journal.read(tail)
        lines = [line for entry in entries if (line := entry_text(entry)) is not None]
        terminal.answer({"execution_id": found.execution_id, "entries": entries}, *lines)
        outputs = sorted(journal.path.parent.glob("output-*.log"))
        terminal.note(
            "all plain output: " + ", ".join(map(str, outputs)) if outputs else "no plain output is kept here"
        )


def _follow(here: Installation, found: Execution, journal: Journal, terminal: Terminal, tail: int | None) -> None:
    skipped = 0 if tail is None else max(0, len(journal.read()) - tail)
    for index, entry in enumerate(journal.follow(lambda: here.ledger.get(found.execution_id).ended)):
        if index >= skipped and (line := entry_text(entry)) is not None:
            terminal.answer(None, line)


@app.command(epilog=example("mtr executions artifacts 7c2e91d0 -o ./out"))
def artifacts(execution: ExecutionId, output: Output = None, as_json: Json = False) -> None:
    """List an execution's artifacts; with --output, write each of them there, verified."""
    with Terminal.open(as_json=as_json) as terminal, Installation.open() as here:
        found = here.ledger.find(execution)
        if output is not None:
            for entry in found.artifacts:
                stored, path = entry["object"], output / entry["artifact"]["path"]
                _make_folder(path.parent)
                here.store.fetch_verified(
                    Pinned(stored["bucket"], stored["object_key"], stored["sha256"], stored["size_bytes"]), path
                )
                terminal.note(f"wrote {path}")
        terminal.answer(
            {"execution_id": found.execution_id, "artifacts": found.artifacts},
            artifact_table(found.artifacts)
            if found.artifacts
            else Text(f"{found.label} has no artifacts: {found.state}"),
        )


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"{folder} cannot be made: {error.strerror}", hint="Choose another place.") from error


@app.command(epilog=example("mtr executions cancel 7c2e91d0"))
def cancel(execution: ExecutionId, as_json: Json = False) -> None:
    """Ask for an execution's end. Whoever carries it out ends the training and everything that it started."""
    with Terminal.open(as_json=as_json) as terminal, Installation.open() as here:
        found = here.ledger.find(execution)
        if found.ended:
            terminal.note(f"nothing to cancel: it {found.state} at {found.ended_at:%Y-%m-%d %H:%M:%S %Z}")
        else:
            found = orchestrator.cancel(here, found.execution_id)
            terminal.note(f"cancelled: {found.label}" if found.ended else f"asked for the end of {found.label}")
        terminal.answer(found.to_document(), *execution_views(found))


@app.command(epilog=example("mtr executions retry 7c2e91d0 --memory 32GiB"))
def retry(
    execution: ExecutionId,
    memory: Memory = None,
    timeout: Timeout = None,
    cpus: Cpus = None,
    gpus: Gpus = None,
    detached: Detach = False,
    as_json: Json = False,
) -> int:
    """Run an ended execution's submission again as a new execution, with other resources where they are given."""
    with Terminal.open(as_json=as_json) as terminal, Installation.open() as here:
        earlier = here.ledger.find(execution)
        if not earlier.ended:
            raise ConflictError(
                f"{earlier.label} is {earlier.state}, so there is nothing to retry",
                hint=f"`mtr executions cancel {earlier.execution_id[:8]}` ends it, "
                f"`mtr executions resume {earlier.execution_id[:8]}` goes on where a process that is gone left it.",
                context={"execution_id": earlier.execution_id, "state": earlier.state},
            )
        submission = repeat_submission(earlier.submission, memory=memory, timeout=timeout, cpus=cpus, gpus=gpus)
        admit_policy(submission, here.settings.policy())
        accepted = here.ledger.accept(
            submission,
            label=earlier.label,
            model_name=earlier.model_name,
            retry_of=earlier.execution_id,
            announced=earlier.announced,
        )
        new = accepted.execution.execution_id
        terminal.note(f"execution {new} tries {earlier.execution_id} again")
        ended = orchestrator.detach(here, new) if detached else carry_out(here, new, terminal)
        attempts = here.ledger.attempts(new)
        terminal.answer(ended.to_document(), *execution_views(ended, attempts))
        return exit_code(ended, attempts)


@app.command(epilog=example("mtr executions resume 7c2e91d0"))
def resume(execution: ExecutionId, as_json: Json = False) -> int:
    """Take an accepted execution to its end in this process, from where it stopped. One that has ended is shown."""
    with Terminal.open(as_json=as_json) as terminal, Installation.open() as here:
        found = here.ledger.find(execution)
        if not found.ended:
            found = carry_out(here, found.execution_id, terminal)
        attempts = here.ledger.attempts(found.execution_id)
        terminal.answer(found.to_document(), *execution_views(found, attempts))
        return exit_code(found, attempts)
