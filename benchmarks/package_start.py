"""Starting a package: from the launch to its first line, against a bare `python -c pass` plus its own imports.

Run with `python -m benchmarks package_start`. The goal is a ratio of at most 2, for a package with numpy's imports.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.assets.training_runs import Heard, prepare, run

ROUNDS = 15
GOAL_RATIO = 2.0
IMPORTS = "import numpy"
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
"""A package of one core starts one thread of mathematics; its rival must not start more."""
PACKAGE = (
    f"{IMPORTS}\n\ndef train(context, report):\n    report(event_type='phase', phase='imported')\n    return {{}}\n"
)


class Clock(Heard):
    """Takes the times at which the package starts and has imported."""

    def __init__(self) -> None:
        super().__init__()
        self.started_at = self.imported_at = 0.0

    def started(self, **fields) -> None:
        """Its first line is next."""
        self.started_at = time.perf_counter()
        super().started(**fields)

    def event(self, event) -> None:  # noqa: ARG002 - there is only one
        """It has imported."""
        self.imported_at = time.perf_counter()


def _bare(code: str) -> float:
    started = time.perf_counter()
    subprocess.run([sys.executable, "-c", code], check=True, env=ENVIRONMENT)
    return time.perf_counter() - started


def _launch(folder: Path, isolation: str) -> tuple[float, float, float]:
    launch = prepare(folder, PACKAGE, isolation=isolation)
    clock = Clock()
    started = time.perf_counter()
    run(launch, heard=clock)
    ended = time.perf_counter()
    launch.workspace.remove()
    return clock.started_at - started, clock.imported_at - started, ended - started


def measure() -> dict[str, float]:
    """Median milliseconds of interleaved rounds, and their ratios in the same run."""
    taken: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(ROUNDS):
            taken.setdefault("bare_pass_ms", []).append(_bare("pass"))
            taken.setdefault("bare_imports_ms", []).append(_bare(IMPORTS))
            for isolation in ("auto", "none"):
                first_line, imported, ended = _launch(Path(folder), isolation)
                taken.setdefault(f"{isolation}_to_first_line_ms", []).append(first_line)
                taken.setdefault(f"{isolation}_to_imported_ms", []).append(imported)
                taken.setdefault(f"{isolation}_whole_ms", []).append(ended)
    median = {name: statistics.median(values) * 1000 for name, values in taken.items()}
    return {
        **median,
        "ratio_isolated": median["auto_to_imported_ms"] / median["bare_imports_ms"],
        "ratio_not_isolated": median["none_to_imported_ms"] / median["bare_imports_ms"],
        "goal_ratio": GOAL_RATIO,
    }
