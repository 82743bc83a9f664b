"""Runs every benchmark and prints one table: `python -m benchmarks [NAME ...] [--json]`.

A benchmark is a module of this folder with `measure() -> dict[str, float]`. A figure `goal_NAME` is what figures whose names
begin with NAME should be at most, `floor_NAME` what they should be at least; a missed goal is said, and fails nothing: figures
of a busy machine are worth reading, not believing.
"""

from __future__ import annotations

import argparse
import importlib
import json
import sys
import time
import traceback
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

GOAL, FLOOR = "goal_", "floor_"
PLAIN_WIDTH = 120


@dataclass(frozen=True)
class Figure:
    """One measured number, with the bounds that are meant for it."""

    name: str
    value: float
    at_most: float | None = None
    at_least: float | None = None

    @property
    def bound(self) -> str:
        """The goal as people read it."""
        said = []
        if self.at_most is not None:
            said.append(f"≤ {self.at_most:g}")
        if self.at_least is not None:
            said.append(f"≥ {self.at_least:g}")
        return ", ".join(said)

    @property
    def verdict(self) -> str:
        """`met`, `missed`, or nothing where there is no goal."""
        if not self.bound:
            return ""
        met = (self.at_most is None or self.value <= self.at_most) and (
            self.at_least is None or self.value >= self.at_least
        )
        return "met" if met else "missed"


def figures(measured: dict[str, float]) -> list[Figure]:
    """The figures of one benchmark, each with the longest-named goal and floor that fit it."""
    return [
        Figure(name, value, _bound_of(name, measured, GOAL), _bound_of(name, measured, FLOOR))
        for name, value in measured.items()
        if not name.startswith((GOAL, FLOOR))
    ]


def _bound_of(name: str, measured: dict[str, float], prefix: str) -> float | None:
    fitting = [key for key in measured if key.startswith(prefix) and name.startswith(key.removeprefix(prefix))]
    return measured[max(fitting, key=len)] if fitting else None


def names() -> list[str]:
    """Every benchmark of this folder."""
    return sorted(path.stem for path in Path(__file__).parent.glob("*.py") if not path.stem.startswith("_"))


def main() -> int:
    """Run what was named, or all; 1 where a benchmark broke."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Speed, as ratios to peers and floors.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"any of: {', '.join(names())}")
    parser.add_argument("--json", action="store_true", help="one JSON document instead of the table")
    arguments = parser.parse_args()
    unknown = sorted(set(arguments.names) - set(names()))
    if unknown:
        parser.error(f"no benchmark {', '.join(unknown)}; there are {', '.join(names())}")

    measured, broken = {}, []
    for name in arguments.names or names():
        print(f"{name} ...", end=" ", flush=True, file=sys.stderr)
        started = time.monotonic()
        try:
            measured[name] = importlib.import_module(f"benchmarks.{name}").measure()
        except Exception:
            broken.append(name)
            print("broken", file=sys.stderr)
            traceback.print_exc()
        else:
            print(f"{time.monotonic() - started:.0f} s", file=sys.stderr)
    print(json.dumps(measured, indent=1)) if arguments.json else _show(measured)
    return 1 if broken else 0


def _show(measured: dict[str, dict[str, float]]) -> None:
    table = Table("benchmark", "figure", "value", "goal", "", box=None, header_style="bold")
    table.columns[2].justify = "right"
    for benchmark, results in measured.items():
        for index, figure in enumerate(figures(results)):
            style = {"met": "green", "missed": "bold red"}.get(figure.verdict, "")
            shown = f"{figure.value:,.3g}" if abs(figure.value) < 1000 else f"{figure.value:,.0f}"
            table.add_row("" if index else benchmark, figure.name, shown, figure.bound, figure.verdict, style=style)
    Console(width=None if sys.stdout.isatty() else PLAIN_WIDTH).print(table)


if __name__ == "__main__":
    sys.exit(main())
