"""Whoever is killed, nothing of the package lives on, and the next attempt finds a clean place."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from runtime.execution.survivors import find_survivors
from runtime.execution.workspace import Workspace
from tests.assets.training_runs import prepare, processes_below, run

pytestmark = pytest.mark.service

PACKAGE = """
import os, signal, subprocess, time

def train(context, report):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    subprocess.Popen(["setsid", "setsid", "sleep", "600"])
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            os.execve("/bin/sleep", ["sleep", "600"], {})
        os._exit(0)
    time.sleep(0.2)
    report(event_type="phase", phase="ready")
    time.sleep(600)
"""

PARENT = """
import sys
from pathlib import Path
from tests.assets.training_runs import Heard, prepare, run

class Telling(Heard):
    def event(self, event):
        print(self.pid, flush=True)

tmp_path = Path(sys.argv[1])
launch = prepare(tmp_path, (tmp_path / "package.py").read_text(), isolation=sys.argv[2])
print(launch.workspace.execution_id, flush=True)
try:
    run(launch, heard=Telling())
except Exception as error:
    print(error.code, flush=True)
"""


class Stage:
    """A parent in a process of its own, whose package is up with all that it starts."""

    def __init__(self, tmp_path: Path, isolation: str) -> None:
        (tmp_path / "package.py").write_text(PACKAGE)
        self.process = subprocess.Popen(
            [sys.executable, "-c", PARENT, str(tmp_path), isolation],
            stdout=subprocess.PIPE,
            text=True,
            cwd=Path(__file__).parents[2],
        )
        assert self.process.stdout is not None
        self.workspace = Workspace(tmp_path / "workspaces", self.process.stdout.readline().strip(), 1)
        self.runner = int(self.process.stdout.readline())
        self.init = _parent_of(self.runner)
        self.supervisor = _parent_of(self.init)

    def kill(self, *pids: int) -> None:
        for pid in pids:
            os.kill(pid, signal.SIGKILL)

    def answer(self) -> str:
        """What the parent says in the end."""
        output, _ = self.process.communicate(timeout=60)
        return output.strip()

    def processes(self) -> list[str]:
        """What is left of it."""
        return processes_below(self.workspace.directory, self.workspace.execution_id)

    def wait_until_gone(self) -> None:
        deadline = time.monotonic() + 20
        while left := self.processes():
            assert time.monotonic() < deadline, left
            time.sleep(0.02)


def _parent_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


@pytest.fixture(params=["auto", "none"])
def stage(request, tmp_path):
    made = Stage(tmp_path, request.param)
    yield made
    made.process.kill()
    made.process.communicate()
    made.workspace.remove()


def test_a_killed_parent_takes_all_with_it(stage) -> None:
    stage.kill(stage.process.pid)
    stage.process.wait()
    stage.wait_until_gone()


def test_every_sign_of_a_dead_parent_at_once_takes_all_with_it(stage) -> None:
    """The end of its stdin and the signals come within microseconds: none may interrupt what another began."""
    os.kill(stage.supervisor, signal.SIGSTOP)
    stage.kill(stage.process.pid)
    stage.process.wait()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        os.kill(stage.supervisor, number)
    os.kill(stage.supervisor, signal.SIGCONT)
    stage.wait_until_gone()


def test_a_killed_supervisor_takes_all_with_it(stage) -> None:
    stage.kill(stage.supervisor)
    assert stage.answer() == "killed"
    assert stage.processes() == []


def test_a_killed_init_takes_all_with_it(stage) -> None:
    stage.kill(stage.init)
    assert stage.answer() == "killed"
    assert stage.processes() == []


def test_a_killed_runner_takes_all_with_it(stage) -> None:
    stage.kill(stage.runner)
    assert stage.answer() == "killed"
    assert stage.processes() == []


def test_a_terminated_supervisor_takes_all_with_it(stage) -> None:
    os.kill(stage.supervisor, signal.SIGTERM)
    assert stage.answer() == "killed"
    assert stage.processes() == []


def test_when_parent_and_supervisor_are_killed_at_once_the_next_attempt_finds_nothing(stage) -> None:
    os.kill(stage.process.pid, signal.SIGSTOP)
    os.kill(stage.supervisor, signal.SIGSTOP)
    stage.kill(stage.process.pid, stage.supervisor)
    stage.process.wait()
    Workspace.create(stage.workspace.root, stage.workspace.execution_id, 1)
    assert stage.processes() == []


def test_a_stopped_package_is_ended_too(stage) -> None:
    os.kill(stage.runner, signal.SIGSTOP)
    stage.kill(stage.process.pid)
    stage.process.wait()
    stage.wait_until_gone()


def test_an_interrupted_parent_ends_the_package_first(stage) -> None:
    stage.process.send_signal(signal.SIGINT)
    stage.process.wait(30)
    assert stage.processes() == []


def test_after_a_kill_the_same_workspace_trains_again(tmp_path) -> None:
    stage = Stage(tmp_path, "auto")
    stage.kill(stage.process.pid)
    stage.process.communicate()
    launch = prepare(tmp_path, "def train(context, report):\n    return {'summary': 'again'}\n")
    (stage.workspace.code / "train.py").write_text((launch.workspace.code / "train.py").read_text())
    object.__setattr__(launch, "workspace", stage.workspace)

    object.__setattr__(
        launch, "request", launch.request.model_copy(update={"execution_id": stage.workspace.execution_id})
    )

    assert run(launch).completion.summary == "again"
    assert find_survivors(stage.workspace.execution_id, 1, stage.workspace.directory) == []
