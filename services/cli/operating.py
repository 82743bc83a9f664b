"""`mtr up`, `apply` and `doctor`: this machine, a Prefect server, and what they need."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING, Annotated, Final

import typer
from rich.text import Text

from runtime.installation import Installation
from services import orchestrator
from services.cli.checks import run_checks
from services.cli.options import Json, command_group, example
from services.cli.terminal import Terminal, facts, table

if TYPE_CHECKING:
    from services.cli.checks import Check

app = command_group("Start, apply and check what runs executions.")

MARKS: Final = {"ok": ("✓", "green"), "warning": ("!", "yellow"), "failed": ("✗", "bold red")}


@app.command(epilog=example("mtr doctor"))
def doctor(as_json: Json = False) -> int:
    """Check every dependency and permission, one line each, with what to do where one fails."""
    with Terminal.open(as_json=as_json) as terminal, Installation.open() as here:
        checks = []
        for check in run_checks(here):
            checks.append(check)
            if not as_json:
                terminal.answer(None, _line(check))
        failed = [check for check in checks if check.status == "failed"]
        if as_json:
            terminal.answer({"ok": not failed, "checks": [check.to_document() for check in checks]})
        return failed[0].exit_code if failed else 0


def _line(check: Check) -> Text:
    mark, style = MARKS[check.status]
    line = Text.assemble((f"{mark} ", style), (check.name, "bold"), f": {check.message}")
    return line.append(f"\n    → {check.remedy}") if check.remedy else line
