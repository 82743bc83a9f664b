"""What an execution costs beside the training itself: `mtr run` against the bare child process that does the same work.

Run with `python -m benchmarks execution_overhead`. The package is `examples/script_managed` with one epoch: it imports numpy
and onnx, trains for milliseconds and writes a model, so nearly all of an execution is ours. Three ways, in turns:

- bare: `python -P -c` that imports the package's entry module and calls `train`;
- embedded: `mtr run` on one machine with nothing configured, which starts Prefect's own server for the run;
- deployed: `mtr run` against a running Prefect server, the training as a deployment's run on a process worker.

`stages` is the sum of the ten stages, `command` all that a person waits for, Python's start included.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from runtime.settings import load_settings
from services.orchestrator import Stack

PACKAGE = Path(__file__).parents[1] / "examples" / "script_managed"
CLASS_NAMES = ["red", "green", "blue"]
ROUNDS = 3
POOL = "mtr-cpu"

BARE = """
import json, sys
sys.path.insert(0, sys.argv[1])
import train
train.train(json.loads(sys.argv[2]), lambda **event: None)
"""


def measure() -> dict[str, float]:
    """Median seconds of interleaved rounds, the first of each way thrown away, and what is on top of the bare process."""
    with tempfile.TemporaryDirectory(prefix="mtr-bench-") as scratch:
        # A home each: two Prefect servers on one SQLite file would wait for each other.
        embedded = _environment(Path(scratch) / "embedded")
        deployed = {**_environment(Path(scratch) / "deployed"), "MTR_CPU_POOL": POOL}
        with Stack.start(load_settings(directory=Path(scratch), environ=deployed), port=None) as stack:
            deployed["PREFECT_API_URL"] = stack.server.api_url
            ways: dict[str, list[dict[str, float]]] = {"bare": [], "embedded": [], "deployed": []}
            for _ in range(ROUNDS + 1):
                ways["bare"].append(_bare(Path(scratch)))
                ways["embedded"].append(_mtr_run(embedded))
                ways["deployed"].append(_mtr_run(deployed))
    measured = {
        f"{way}_{part}_seconds": statistics.median(one[part] for one in rounds[1:])
        for way, rounds in ways.items()
        for part in rounds[0]
    }
    bare = measured["bare_command_seconds"]
    for way in ("embedded", "deployed"):
        for part in ("stages", "command"):
            measured[f"{way}_{part}_overhead_seconds"] = measured[f"{way}_{part}_seconds"] - bare
    return measured


def _environment(home: Path) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("MTR_", "S3_", "PREFECT_"))}
    return {**kept, "MTR_HOME": str(home), "MTR_ALLOW_SCRIPT_MANAGED_DATA": "true"}


def _bare(scratch: Path) -> dict[str, float]:
    output = Path(tempfile.mkdtemp(dir=scratch))
    context = {
        "parameters": {"epochs": 1},
        "dataset": {"class_names": CLASS_NAMES, "items": []},
        "task": {"task_kind": "classification"},
        "workspace": {"output_dir": str(output)},
    }
    started = time.perf_counter()
    subprocess.run([sys.executable, "-P", "-c", BARE, str(PACKAGE), json.dumps(context)], check=True)
    return {"command": time.perf_counter() - started}


def _mtr_run(environment: dict[str, str]) -> dict[str, float]:
    command = [sys.executable, "-m", "services.cli", "run", str(PACKAGE), "--param", "epochs=1", "--json"]
    started = time.perf_counter()
    ended = subprocess.run(
        [*command, "--class-names", ",".join(CLASS_NAMES)], env=environment, capture_output=True, check=False
    )
    seconds = time.perf_counter() - started
    document: dict[str, Any] = json.loads(ended.stdout)
    if document.get("state") != "succeeded":
        raise RuntimeError(f"mtr run did not succeed: {ended.stdout.decode()} {ended.stderr.decode()}")
    return {"command": seconds, "stages": sum(document["timings"].values())}
