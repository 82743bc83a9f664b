"""The first process of a pod, as a real process: it ends with all that is below it, and says how."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from runtime.handover import PodRecord, find_pod_record
from runtime.pod import init
from runtime.pod.memory import MemoryCounters
from runtime.store.objects import ObjectStore
from tests.assets import documents

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ROOT = Path(__file__).resolve().parents[3]
LOOK_SECONDS = 20.0
GRACE_SECONDS = 0.5


@dataclass
class Pod:
    """What stands in for a pod: a folder, and the first process in it.

    Attributes:
        folder: where the command runs.
        process: the first process.
    """

    folder: Path
    process: subprocess.Popen[bytes]

    def end(self) -> tuple[int, dict[str, Any]]:
        """Exit status, and what the termination log says."""
        status = self.process.wait(timeout=LOOK_SECONDS)
        return status, json.loads((self.folder / "termination.log").read_text())

    def await_file(self, name: str) -> str:
        """What the command wrote there."""
        deadline = time.monotonic() + LOOK_SECONDS
        while not (found := self.folder / name).exists() or not (text := found.read_text()).endswith("\n"):
            assert time.monotonic() < deadline, f"{name} was not written"
            time.sleep(0.01)
        return text.strip()


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Pod]]:
    """Starts a pod that runs `command`; one that lives on is ended with the test."""
    started: list[Pod] = []

    def run(*command: str, grace_seconds: float = LOOK_SECONDS, **environment: str) -> Pod:
        options = ["--grace-seconds", str(grace_seconds), "--termination-log", str(tmp_path / "termination.log")]
        process = subprocess.Popen(
            [sys.executable, "-m", "runtime.pod.init", *options, "--", *command],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
        )
        started.append(Pod(tmp_path, process))
        return started[-1]

    yield run
    for pod in started:
        if pod.process.poll() is None:
            pod.process.kill()
            pod.process.wait()


def shell(text: str) -> tuple[str, ...]:
    return ("sh", "-c", text)


def is_gone(pid: str) -> bool:
    return not Path(f"/proc/{pid}").exists()


@pytest.mark.parametrize("status", [0, 1, 3])
def test_the_command_s_status_is_the_pod_s(start: Callable[..., Pod], status: int) -> None:
    code, record = start(*shell(f"exit {status}")).end()
    assert (code, record["exit_code"], record["signal"]) == (status, status, None)


def test_a_command_that_was_killed_ends_as_shells_say_it(start: Callable[..., Pod]) -> None:
    code, record = start(*shell("kill -SEGV $$")).end()
    assert (code, record["exit_code"], record["signal"]) == (139, 139, signal.SIGSEGV)


def test_a_command_that_is_not_there_is_named(start: Callable[..., Pod]) -> None:
    code, record = start("no-such-program").end()
    assert (code, record["message"]) == (127, "no-such-program cannot be run: No such file or directory")


def test_a_command_that_may_not_run_is_named(start: Callable[..., Pod], tmp_path: Path) -> None:
    (tmp_path / "text").write_text("no program")
    code, record = start(str(tmp_path / "text")).end()
    assert (code, record["message"]) == (126, f"{tmp_path}/text cannot be run: Permission denied")


def test_a_checkpoint_is_written_in_the_grace(start: Callable[..., Pod], tmp_path: Path) -> None:
    pod = start(*shell("trap 'echo saved > checkpoint; exit 5' TERM; echo > ready; while :; do sleep 0.01; done"))
    pod.await_file("ready")
    pod.process.send_signal(signal.SIGTERM)

    code, record = pod.end()

    assert (code, record["asked_to_end_by"], record["killed_after_grace"]) == (5, "SIGTERM", False)
    assert 0 < record["asked_to_end_after_seconds"] <= record["seconds"]
    assert (tmp_path / "checkpoint").read_text() == "saved\n"


def test_a_command_that_ignores_the_signal_is_killed_after_the_grace(start: Callable[..., Pod]) -> None:
    pod = start(*shell("trap '' TERM; echo > ready; while :; do sleep 0.01; done"), grace_seconds=GRACE_SECONDS)
    pod.await_file("ready")
    pod.process.send_signal(signal.SIGTERM)

    code, record = pod.end()

    assert (code, record["signal"], record["killed_after_grace"]) == (137, signal.SIGKILL, True)
    assert record["seconds"] - record["asked_to_end_after_seconds"] >= GRACE_SECONDS


def test_a_second_signal_does_not_prolong_the_grace(start: Callable[..., Pod]) -> None:
    pod = start(*shell("trap '' TERM INT; echo > ready; while :; do sleep 0.01; done"), grace_seconds=GRACE_SECONDS)
    pod.await_file("ready")
    pod.process.send_signal(signal.SIGTERM)
    time.sleep(GRACE_SECONDS / 2)
    pod.process.send_signal(signal.SIGINT)

    _, record = pod.end()

    assert record["asked_to_end_by"] == "SIGTERM"
    assert record["killed_after_grace"]


def test_other_signals_reach_the_command_and_end_nothing(start: Callable[..., Pod]) -> None:
    pod = start(*shell("trap 'echo > seen' USR1; trap 'exit 0' TERM; echo > ready; while :; do sleep 0.01; done"))
    pod.await_file("ready")
    pod.process.send_signal(signal.SIGUSR1)
    pod.await_file("seen")
    assert pod.process.poll() is None
    pod.process.send_signal(signal.SIGTERM)
    assert pod.end()[0] == 0


def test_a_grandchild_in_a_session_of_its_own_that_ignores_signals_goes_too(start: Callable[..., Pod]) -> None:
    left = """trap "" TERM HUP INT; echo $$ > left; while :; do sleep 0.01; done"""
    pod = start(*shell(f"setsid sh -c '{left}' & while [ ! -s left ]; do sleep 0.01; done"))

    code, record = pod.end()

    assert code == 0
    assert is_gone(pod.await_file("left"))
    assert (pod.await_file("left"), "sh") in {(str(one["pid"]), one["name"]) for one in record["ended_survivors"]}
    assert record["left"] == []


def test_orphans_are_asked_after_while_the_command_runs(start: Callable[..., Pod]) -> None:
    """An orphan that nobody asks after stays in the table of processes for as long as the pod lives."""
    orphan = "echo $$ > orphan; sleep 0.2"
    command = (
        f"sh -c \"sh -c '{orphan.replace('$', chr(92) + '$')}' &\"; trap 'exit 0' TERM; while :; do sleep 0.01; done"
    )
    pod = start(*shell(command))
    pid = pod.await_file("orphan")
    deadline = time.monotonic() + LOOK_SECONDS
    while not is_gone(pid):
        assert time.monotonic() < deadline, Path(f"/proc/{pid}/stat").read_text()
        time.sleep(0.01)
    pod.process.send_signal(signal.SIGTERM)
    assert pod.end()[0] == 0


def attempt_at(home: Path) -> dict[str, str]:
    """The environment of a pod that runs attempt 2 of an execution, its store being that of `home`."""
    return {
        "MTR_HOME": str(home),
        init.EXECUTION_NAME: documents.EXECUTION_ID,
        init.ATTEMPT_NAME: "2",
    }


def test_the_record_outlives_the_pod_in_the_store(start: Callable[..., Pod], tmp_path: Path) -> None:
    code, record = start(*shell("exit 3"), **attempt_at(tmp_path / "home")).end()

    stored = find_pod_record(ObjectStore.local(tmp_path / "home" / "store"), documents.EXECUTION_ID, 2)

    assert code == 3
    assert stored == PodRecord(execution_id=documents.EXECUTION_ID, attempt=2, **record)


def test_a_store_that_refuses_does_not_change_the_end(start: Callable[..., Pod], tmp_path: Path) -> None:
    (tmp_path / "home").write_text("no folder")
    code, record = start(*shell("exit 3"), **attempt_at(tmp_path / "home")).end()
    assert (code, record["exit_code"]) == (3, 3)


class Counted(MemoryCounters):
    """Counters of a cgroup in which the kernel killed once since they were first asked."""

    def __init__(self) -> None:
        self._asked = 0

    def oom_kills(self) -> int:
        self._asked += 1
        return 7 if self._asked == 1 else 8

    def peak_bytes(self) -> int | None:
        return None

    def limit_bytes(self) -> int | None:
        return None


@pytest.mark.parametrize(("command", "code"), [("exit 1", 137), ("exit 0", 0)])
def test_a_failure_beside_a_kill_for_memory_is_one_for_memory(command: str, code: int) -> None:
    """In a process of its own: the first process asks after every child of its process."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            record = init.Init(list(shell(command)), 1.0, Counted()).run()
            os.write(writing, json.dumps([record["exit_code"], record["oom_kills"]]).encode())
        finally:
            os._exit(0)
    os.waitpid(pid, 0)
    assert json.loads(os.read(reading, 1000)) == [code, 1]
    os.close(reading)
    os.close(writing)


def test_a_termination_log_is_cut_to_what_the_kubelet_keeps(tmp_path: Path) -> None:
    survivors = [{"pid": 100_000 + number, "name": "a" * 200} for number in range(50)]
    init.write_termination_log(str(tmp_path / "log"), {"exit_code": 3, "ended_survivors": survivors})
    content = (tmp_path / "log").read_bytes()
    assert len(content) <= init.TERMINATION_LOG_BYTES
    kept = json.loads(content)
    assert kept["exit_code"] == 3
    assert kept["ended_survivors"] == survivors[: len(kept["ended_survivors"])]
    assert len(kept["ended_survivors"]) > 10
