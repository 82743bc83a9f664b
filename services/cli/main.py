"""The program `mtr`: which commands there are, and the one place where an error becomes an exit code.

Nothing heavy is imported here: `mtr --help` lists the commands from the table below, and a command's module is
imported when it is called.
"""

from __future__ import annotations

import importlib
import io
import sys
from typing import TYPE_CHECKING, Annotated, Any, Final, cast

import typer
import typer.core
import typer.main

from contracts.errors import CancelledError, RuntimeFault, UsageError
from services.cli.failures import Failure, unexpected

if TYPE_CHECKING:
    from collections.abc import Sequence

COMMANDS: Final[dict[str, tuple[str, str]]] = {
    "run": ("services.cli.running", "Run a package on data, follow it live, register its model."),
    "submit": ("services.cli.submitting", "Execute one training-code-submit/v1 document."),
    "validate": ("services.cli.validating", "Check documents and ZIPs against the contracts."),
    "package": ("services.cli.packages", "Build, inspect, register and list training packages."),
    "dataset": ("services.cli.datasets", "Import, pin, verify and list data sets."),
    "model": ("services.cli.models", "Model packages in, registered models out."),
    "executions": ("services.cli.executions", "List, show, follow, cancel and retry executions."),
    "up": ("services.cli.operating", "Start everything on this machine: server, UI, worker and HTTP API."),
    "serve": ("services.cli.serving", "Serve the HTTP API to a platform."),
    "bridge": ("services.cli.serving", "Carry submissions in from RabbitMQ, and what the platform is told out."),
    "apply": ("services.cli.operating", "Bring a Prefect server to the state that this version needs."),
    "doctor": ("services.cli.operating", "Check every dependency and permission, each with its remedy."),
}
"""Name -> (module, line in `mtr --help`). A module's `app` is a group, or holds a command of that name."""


class _Unloaded(typer.core.TyperCommand):
    """A command known by its name and help line only."""

    def load(self) -> Any:
        """The real command. A module with one command of this name holds it directly, else `app` is the group."""
        name = cast("str", self.name)
        module = importlib.import_module(COMMANDS[name][0])
        group: Any = typer.main.get_group(module.app)
        found = group.commands.get(name, group)
        found.name = name
        return found


class CommandTable(typer.core.TyperGroup):
    """The commands of `COMMANDS`, loaded on use; every error leaves as a `Failure`."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        for name, (_, line) in COMMANDS.items():
            self.commands[name] = _Unloaded(name, help=line)

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        """As the base class, with the real command in place of its stand-in."""
        name, command, rest = super().resolve_command(ctx, args)
        return name, command.load() if isinstance(command, _Unloaded) else command, rest

    def invoke(self, ctx: Any) -> Any:
        """As the base class, which would turn an interrupt into a number and lose that it was one."""
        try:
            return super().invoke(ctx)
        except (KeyboardInterrupt, typer.Abort) as interrupt:
            raise _interrupted() from interrupt

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        windows_expand_args: bool = True,
        **extra: Any,
    ) -> Any:
        """Run one command line and end with its exit code; see `failures` for what each number means.

        With `standalone_mode` off the code is returned, for whoever calls a command from Python.
        """
        given = list(sys.argv[1:] if args is None else args)
        code = self._answer(given, prog_name or "mtr", complete_var, windows_expand_args, extra)
        if standalone_mode:
            sys.exit(code)
        return code

    def _answer(
        self, given: list[str], prog_name: str, complete_var: str | None, expand: bool, extra: dict[str, Any]
    ) -> int:
        as_json = "--json" in given[: given.index("--") if "--" in given else None]
        try:
            returned = super().main(given, prog_name, complete_var, False, expand, **extra)
        except RuntimeFault as fault:
            failure = Failure.of(fault)
        except typer.TyperException as refused:
            failure = Failure.of(
                UsageError(refused.format_message(), hint=f"`{_command_path(refused, prog_name)} --help` shows how.")
            )
        except Exception as defect:  # noqa: BLE001 - the last door: whatever it is, it leaves as a typed error
            failure = unexpected(defect)
        else:
            return returned if isinstance(returned, int) else 0
        failure.show(as_json=as_json)
        return failure.exit_code


def _command_path(refused: typer.TyperException, prog_name: str) -> str:
    context = getattr(refused, "ctx", None)
    return prog_name if context is None else str(context.command_path)


def _interrupted() -> CancelledError:
    return CancelledError("interrupted", hint="Run the same command again; what was finished is kept.")


def _say_version(wanted: bool) -> None:
    if wanted:
        from runtime.provenance import product_version  # noqa: PLC0415 - a third of this program's start, for one option

        typer.echo(f"mtr {product_version()}")
        raise typer.Exit


app = typer.Typer(
    name="mtr",
    cls=CommandTable,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Runs versioned training packages: a package in, a registered ONNX model out.",
    epilog="Example: mtr run examples/digits --data ./digits-png\n\nEvery command takes --json; exit codes: 0 done, 1 failed, 2 refused, 3 policy, 4 conflict, 5 unavailable, 130 cancelled.",
)


@app.callback(invoke_without_command=True)
def _without_command(
    ctx: typer.Context,
    show_version: Annotated[  # noqa: ARG001 - its callback does the work
        bool, typer.Option("--version", help="Print the version.", callback=_say_version, is_eager=True)
    ] = False,
) -> None:
    if ctx.invoked_subcommand is None:
        typer.echo(ctx.get_help())
        raise typer.Exit(2)


def main() -> int:
    """The console script's entry: run `sys.argv`, answer the exit code."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # a file name that is no Unicode must not end a table
    code = typer.main.get_command(app).main(prog_name="mtr", standalone_mode=False)
    return code if isinstance(code, int) else 0
