"""Servers and workers end with whoever started them."""

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from contracts.errors import OrchestratorUnavailableError
from services.orchestrator.processes import Guarded, answers, free_port

STARTER = """
import os, sys, time
from pathlib import Path
from services.orchestrator.processes import Guarded
folder = Path(sys.argv[1])
started = Guarded.start("sleeper", [sys.executable, "-c", "import time; print('up', flush=True); time.sleep(600)"],
                        environment=dict(os.environ), log=folder / "log", cwd=folder)
print(started.process.pid, flush=True)
time.sleep(600)
"""


def start(tmp_path: Path, code: str) -> Guarded:
    command = [sys.executable, "-c", code]
    return Guarded.start("program", command, environment=dict(os.environ), log=tmp_path / "log", cwd=tmp_path)


def wait_until(holds, seconds: float = 20) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def is_gone(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "ZX"
    except FileNotFoundError:
        return True


def test_a_program_dies_with_a_starter_that_is_killed(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", STARTER, tmp_path], stdout=subprocess.PIPE, text=True) as starter:
        pid = int(starter.stdout.readline())
        wait_until(lambda: "up" in (tmp_path / "log").read_text())
        starter.kill()
    wait_until(lambda: is_gone(pid))


def test_a_program_that_does_not_listen_is_ended_all_the_same(tmp_path: Path) -> None:
    deaf = (
        "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True); time.sleep(600)"
    )
    program = start(tmp_path, deaf)
    wait_until(lambda: "up" in (tmp_path / "log").read_text())
    program.stop(seconds=0.1)
    assert program.process.returncode == -signal.SIGKILL


def test_a_program_is_asked_first(tmp_path: Path) -> None:
    program = start(tmp_path, "import time; print('up', flush=True); time.sleep(600)")
    wait_until(lambda: "up" in (tmp_path / "log").read_text())
    program.stop()
    assert program.process.returncode == -signal.SIGTERM


def test_an_early_end_is_told_with_its_last_words(tmp_path: Path) -> None:
    program = start(tmp_path, "import sys; sys.exit('the port is taken')")
    program.process.wait()
    with pytest.raises(OrchestratorUnavailableError, match="program ended at once with status 1: the port is taken"):
        program.require_alive()


def test_a_program_stays_out_of_the_terminal_s_session(tmp_path: Path) -> None:
    program = start(tmp_path, "import time; time.sleep(600)")
    assert os.getsid(program.process.pid) != os.getsid(0)
    program.stop()


def test_a_free_port_is_free() -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", free_port()))


def test_nobody_answers_where_nobody_listens() -> None:
    assert answers(f"http://127.0.0.1:{free_port()}/api") is False
