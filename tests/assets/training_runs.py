"""Launches of real training processes, for tests: a folder of code in, an end or an error out."""

from __future__ import annotations

import os
import sys
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any

from contracts.base import validate
from contracts.execution import ExecutionRequest
from runtime.execution.environment import inspect_python
from runtime.execution.launch import Launch, ProcessLimits
from runtime.execution.process import train
from runtime.execution.workspace import Workspace

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from runtime.execution.protocol import Event
    from runtime.execution.record import TrainingEnd

ITEMS = 3


class Heard:
    """A listener that keeps what it is told."""

    def __init__(self, on_start: Callable[[int], None] | None = None) -> None:
        self.events: list[Event] = []
        self.lines: list[str] = []
        self.isolation: dict[str, str] = {}
        self.pid = 0
        self._on_start = on_start

    def started(self, *, pid: int, isolation: Mapping[str, str]) -> None:
        self.pid, self.isolation = pid, dict(isolation)
        if self._on_start is not None:
            self._on_start(pid)

    def event(self, event: Event) -> None:
        self.events.append(event)

    def output(self, line: str, left_out: int) -> None:
        self.lines.append(line)


class Looks:
    """Evidence of a plain folder of inputs."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def fingerprint(self) -> dict[str, tuple[int, int]]:
        return {path.name: (path.stat().st_size, path.stat().st_ctime_ns) for path in self.folder.iterdir()}

    def changed_files(self, before: dict[str, tuple[int, int]]) -> list[str]:
        now = self.fingerprint()
        return sorted(name for name in before.keys() | now.keys() if before.get(name) != now.get(name))


def request_for(execution_id: str, **changes: Any) -> ExecutionRequest:
    """A small, valid execution request."""
    document = {
        "protocol_version": "training-execution/v1",
        "execution_id": execution_id,
        "task": {"task_id": 1, "task_kind": "classification"},
        "package": {"key": "sample", "version": "1.0.0", "sha256": "0" * 64},
        "runtime": {"id": "base"},
        "workspace": {
            "root_dir": "/workspace",
            "code_dir": "/workspace/code",
            "input_dir": "/workspace/input",
            "output_dir": "/workspace/output",
            "dataset_manifest_path": "/workspace/input/dataset-manifest.json",
        },
        "dataset": {
            "protocol_version": "training-dataset-manifest/v1",
            "task_kind": "classification",
            "data_modalities": ["image"],
            "class_names": ["cat", "dog"],
            "items": [{"item_id": f"i{n}", "media_path": f"dataset/{n}.txt"} for n in range(ITEMS)],
        },
        "parameters": {"epochs": 2},
        "resources": {},
        **changes,
    }
    return validate(ExecutionRequest, document)


def prepare(tmp_path: Path, code: str | Mapping[str, str], **changes: Any) -> Launch:
    """A launch of `code` (its train.py, or files by name) in a fresh workspace with a small data set."""
    execution_id = str(uuid.uuid4())
    tree = tmp_path / "materialized"
    tree.mkdir(exist_ok=True)
    for number in range(ITEMS):
        (tree / f"{number}.txt").write_text(f"item {number}")
    workspace = Workspace.create(tmp_path / "workspaces", execution_id, 1)
    for name, source in ({"train.py": code} if isinstance(code, str) else code).items():
        (workspace.code / name).parent.mkdir(parents=True, exist_ok=True)
        (workspace.code / name).write_text(source)
    workspace.dataset_manifest.write_text("{}")
    fields: dict[str, Any] = {
        "workspace": workspace,
        "request": request_for(execution_id),
        "entrypoint": "train.py",
        "python": inspect_python(Path(sys.executable), "base"),
        "output_log": tmp_path / "output.log",
        "inputs": {"dataset": tree},
        "evidence": Looks(tree),
        **changes,
    }
    return Launch(**fields)


def limits(**changes: Any) -> ProcessLimits:
    """Limits that no well-behaved test reaches."""
    usual = {"timeout_seconds": 60.0, "memory_bytes": 2**31, "idle_timeout_seconds": 60.0, "grace_seconds": 1.0}
    return ProcessLimits(**{**usual, **changes})


def run(
    launch: Launch, *, heard: Heard | None = None, cancelled: Callable[[], bool] = lambda: False, **changes: Any
) -> TrainingEnd:
    """Trains, with `changes` to the usual limits."""
    return train(launch, limits(**changes), heard or Heard(), cancelled)


def processes_below(directory: Path, execution_id: str) -> list[str]:
    """Command lines of all processes that have anything to do with `directory` or `execution_id`, ourselves left out.

    Looks at more than the runtime does: environment, command line, working directory and open files.
    """
    found = []
    for process in Path("/proc").iterdir():
        if not process.name.isdecimal() or int(process.name) == os.getpid():
            continue
        try:
            command = (process / "cmdline").read_bytes()
            traces = [command, (process / "environ").read_bytes(), os.fsencode((process / "cwd").readlink())]
            traces += [os.fsencode(link.readlink()) for link in (process / "fd").iterdir()]
        except OSError:
            continue
        if any(os.fsencode(directory) in trace or execution_id.encode() in trace for trace in traces):
            found.append(f"{process.name}: {command.decode(errors='replace')}")
    return found
