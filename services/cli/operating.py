"""`mtr up`, `apply` and `doctor`: this machine, a Prefect server, and what they need."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Annotated, Final

import typer
from rich.text import Text

from runtime.installation import Installation
from services import orchestrator
from services.cli.checks import run_checks
from services.cli.interrupts import ended_by_sigterm
from services.cli.options import Json, command_group, example
from services.cli.terminal import Terminal, facts
from services.orchestrator.stack import API_PORT

if TYPE_CHECKING:
    from runtime.settings import Settings
    from services.cli.checks import Check
    from services.orchestrator import Difference

app = command_group("Start, apply and check what runs executions.")

CHECK_MARKS: Final = {"ok": ("✓", "green"), "warning": ("!", "yellow"), "failed": ("✗", "bold red")}
DIFFERENCE_MARKS: Final = {"create": ("+", "green"), "change": ("~", "yellow"), "keep": ("=", "dim")}


@app.command(epilog=example("mtr up"))
def up(
    port: Annotated[
        int, typer.Option(min=0, max=65_535, metavar="PORT", help="Of the server; 0 is any free one.")
    ] = 4200,
    api_port: Annotated[
        int, typer.Option(min=0, max=65_535, metavar="PORT", help="Of the HTTP API; 0 is any free one.")
    ] = API_PORT,
    as_json: Json = False,
) -> None:
    """Start everything on this machine: Prefect server, UI, workers, HTTP API, and the bridge where a broker is configured.

    Prints the links; Ctrl-C stops all.
    """
    with Terminal.open(as_json=as_json) as terminal, Installation.open() as here:
        terminal.note("starting the Prefect server, the workers and the HTTP API …")
        with (
            ended_by_sigterm(),
            orchestrator.Stack.start(here.settings, port=port or None, api_port=api_port) as stack,
        ):
            links = stack.links
            with contextlib.suppress(KeyboardInterrupt):  # the way that it is meant to end, also while it answers
                terminal.answer(
                    links,
                    facts(
                        "everything runs on this machine",
                        [
                            ("UI", links["ui"]),
                            ("run a package from a form", links["form"]),
                            ("from another terminal", f"PREFECT_API_URL={links['api']} mtr run PACKAGE --data DATA"),
                            ("workers of", ", ".join(stack.pools())),
                            ("HTTP API", f"{links['runtime_api']}/docs"),
                            ("bridge", _broker(here.settings)),
                            ("to stop", "Ctrl-C"),
                        ],
                    ),
                )
                stack.wait()
            terminal.note("stopping …")


def _broker(settings: Settings) -> str | None:
    return f"{settings.rabbitmq_host}:{settings.rabbitmq_port}" if settings.rabbitmq_host else None


@app.command(epilog=example("mtr apply --dry-run"))
def apply(
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would be done.")] = False,
    as_json: Json = False,
) -> None:
    """Bring the Prefect server at PREFECT_API_URL to the state that this version needs. Applying twice changes nothing.

    Prints the plan of differences: blocks, work pools, deployments and automations.
    """
    with Terminal.open(as_json=as_json) as terminal, Installation.open() as here:
        differences = orchestrator.apply(here.settings, dry_run=dry_run)
        changed = sum(one.action != "keep" for one in differences)
        done = "to do" if dry_run else "done"
        terminal.answer(
            {"dry_run": dry_run, "differences": [one.to_document() for one in differences]},
            *map(_difference_line, differences),
            Text(f"{changed} of {len(differences)} {done}" if changed else "nothing differs", style="bold"),
        )


def _difference_line(one: Difference) -> Text:
    mark, style = DIFFERENCE_MARKS[one.action]
    fields = f" ({', '.join(one.fields)})" if one.fields else ""
    return Text(f"{mark} {one.kind} {one.name}{fields}", style=style)


@app.command(epilog=example("mtr doctor"))
def doctor(as_json: Json = False) -> int:
    """Check every dependency and permission, one line each, with what to do where one fails."""
    with Terminal.open(as_json=as_json) as terminal, Installation.open() as here:
        checks = []
        for check in run_checks(here):
            checks.append(check)
            if not as_json:
                terminal.answer(None, _check_line(check))
        failed = [check for check in checks if check.status == "failed"]
        if as_json:
            terminal.answer({"ok": not failed, "checks": [check.to_document() for check in checks]})
        return failed[0].exit_code if failed else 0


def _check_line(check: Check) -> Text:
    mark, style = CHECK_MARKS[check.status]
    line = Text.assemble((f"{mark} ", style), (check.name, "bold"), f": {check.message}")
    return line.append(f"\n    → {check.remedy}") if check.remedy else line
