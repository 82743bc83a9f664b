"""Options that several commands share, spelled once, and how a group of commands is made."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Json = Annotated[
    bool, typer.Option("--json", help="Print exactly one JSON document on stdout; the rest goes to stderr.")
]
Detach = Annotated[bool, typer.Option("--detach", help="Return once it is accepted; do not wait for the end.")]
Name = Annotated[str | None, typer.Option("--name", help="Let this name point at the snapshot.", metavar="N")]
Output = Annotated[Path | None, typer.Option("--output", "-o", help="Where to write.", metavar="PATH")]
ExecutionId = Annotated[str, typer.Argument(metavar="ID", help="An execution id, or its first 8 or more characters.")]
Memory = Annotated[str | None, typer.Option("--memory", help="Memory of the process tree, as 8GiB.", metavar="SIZE")]
Timeout = Annotated[
    str | None, typer.Option("--timeout", help="Longest training time, as 90s, 30m or 1h.", metavar="TIME")
]
Cpus = Annotated[float | None, typer.Option("--cpus", help="CPU cores.", metavar="N")]
Gpus = Annotated[int | None, typer.Option("--gpus", help="GPUs; more than 0 means --device cuda.", metavar="N")]


def command_group(line: str) -> typer.Typer:
    """An empty group of commands, with the help style of the program."""
    return typer.Typer(
        help=line,
        rich_markup_mode="rich",
        pretty_exceptions_enable=False,
        add_completion=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )


def example(command: str) -> str:
    """The line under a command's help that can be pasted."""
    return f"Example: {command}"
