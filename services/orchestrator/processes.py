"""Processes that end with whoever started them, SIGKILL included, and leave what they said in a file."""

from __future__ import annotations

import fcntl
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final

from contracts.errors import OrchestratorUnavailableError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

START_SECONDS: Final = 120.0
"""For a server to answer: it imports for eight seconds on an idle machine and may have a database to bring forward."""
STOP_SECONDS: Final = 10.0
_TAIL_BYTES: Final = 2_000

_GUARD: Final = """
import ctypes, os, signal, sys
ctypes.CDLL(None, use_errno=True).prctl(1, signal.SIGKILL, 0, 0, 0)
if os.getppid() != int(sys.argv[1]):
    sys.exit(1)
signal.signal(signal.SIGINT, signal.SIG_DFL)
os.execv(sys.argv[2], sys.argv[2:])
"""
"""Asks the kernel to end this process with its parent, then becomes the program. The signal survives `execv`."""


@dataclass(slots=True)
class Guarded:
    """A running program.

    Attributes:
        name: for people.
        process: in a session of its own, so that a terminal's Ctrl-C reaches only its owner.
        log: what it said.
    """

    name: str
    process: subprocess.Popen[bytes]
    log: Path

    @classmethod
    def start(
        cls, name: str, command: Sequence[str], *, environment: Mapping[str, str], log: Path, cwd: Path
    ) -> Guarded:
        """The program, started. Call it from a thread that lives as long as the program should: the kernel counts threads."""
        log.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with log.open("ab") as output:
            process = subprocess.Popen(
                [sys.executable, "-I", "-c", _GUARD, str(os.getpid()), *command],
                env=dict(environment),
                cwd=cwd,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        return cls(name, process, log)

    def ask_to_end(self) -> None:
        """Afterwards it knows that it should end."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)

    def stop(self, *, seconds: float = STOP_SECONDS) -> None:
        """Afterwards it has ended: asked to first, made to after `seconds`."""
        self.ask_to_end()
        self.await_end(seconds)

    def await_end(self, seconds: float) -> None:
        """Afterwards it has ended, by force after `seconds`. A second SIGTERM makes a worker drop its runs at once, so none is sent."""
        try:
            self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def require_alive(self) -> None:
        """Nothing, or an error with the last that it said.

        Raises:
            OrchestratorUnavailableError: it has ended.
        """
        code = self.process.poll()
        if code is not None:
            raise OrchestratorUnavailableError(
                f"the {self.name} ended at once with status {code}: {self.tail()}",
                hint=f"Its whole log is {self.log}; `mtr doctor` checks what it needs.",
                context={"log": str(self.log), "exit_code": code},
            )

    def tail(self) -> str:
        """The last that it said, on one line."""
        with self.log.open("rb") as source:
            source.seek(max(0, source.seek(0, os.SEEK_END) - _TAIL_BYTES))
            return " ".join(source.read().decode(errors="replace").split())[-500:]


def free_port() -> int:
    """A port of 127.0.0.1 that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def answers(api_url: str, *, seconds: float = 2.0) -> bool:
    """Whether a Prefect server says at `api_url` that it is well."""
    return _is_well(f"{api_url}/health", seconds)


def _is_well(url: str, seconds: float) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=seconds) as answer:  # noqa: S310 - a URL of ours or the operator's
            return bool(answer.status == 200)
    except (urllib.error.URLError, OSError, ValueError):
        return False


def await_answer(process: Guarded, url: str, *, seconds: float = START_SECONDS) -> None:
    """Afterwards the program answers at `url`.

    Raises:
        OrchestratorUnavailableError: it ended, or does not answer in time.
    """
    deadline = time.monotonic() + seconds
    while not _is_well(url, 2.0):
        process.require_alive()
        if time.monotonic() > deadline:
            raise OrchestratorUnavailableError(
                f"the {process.name} did not answer within {seconds:.0f} s",
                hint=f"The machine may be overloaded: repeat. Its log is {process.log}.",
                context={"log": str(process.log)},
            )
        time.sleep(0.05)


class _Turn:
    """The right to start a server on a database that this version of Prefect has not opened yet.

    Two servers that meet a new database both make its tables, and one of them fails. So the first one starts alone, and
    writes down the version that the database then has; with that version nobody waits for a turn.
    """

    def __init__(self, home: Path) -> None:
        """Afterwards nobody else starts a server on a database that has to be brought forward."""
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._mark: IO[str] = (home / "database-version").open("a+")
        self._version = version("prefect")
        if not self._is_current():
            fcntl.flock(self._mark, fcntl.LOCK_EX)
        if self._is_current():
            self.end()

    def succeed(self) -> None:
        """Afterwards the database counts as brought forward, and whoever waits goes on."""
        if not self._mark.closed:
            self._mark.truncate(0)
            self._mark.write(self._version)
        self.end()

    def end(self) -> None:
        """Afterwards whoever waits goes on."""
        self._mark.close()

    def _is_current(self) -> bool:
        self._mark.seek(0)
        return self._mark.read() == self._version


class PrefectServer:
    """A Prefect server of this machine, its database under `PREFECT_HOME`.

    Args:
        process: the server.
        port: where it listens, on 127.0.0.1 only.
        turn: ends when the server answers, or ends.
    """

    def __init__(self, process: Guarded, port: int, turn: _Turn) -> None:
        self.process, self.port, self._turn = process, port, turn

    @property
    def address(self) -> str:
        """Its web address."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def api_url(self) -> str:
        """What `PREFECT_API_URL` is for its clients."""
        return f"{self.address}/api"

    @classmethod
    def launch(
        cls, environment: Mapping[str, str], *, log: Path, cwd: Path, port: int | None, ui: bool
    ) -> PrefectServer:
        """A server that is starting; `wait` says when it answers, and `stop` must follow in any case.

        On a new database it waits for another one that starts there.

        Args:
            environment: of its process, as `child_environment` makes it.
            log: what it says.
            cwd: where it runs.
            port: where it listens; `None` is any free one.
            ui: whether it shows the UI and runs all services, or is there for the flows of one process only.
        """
        turn = _Turn(Path(environment["PREFECT_HOME"]))
        chosen = free_port() if port is None else port
        embedded = {} if ui else {"PREFECT__SERVER_EPHEMERAL": "1", "PREFECT_UI_ENABLED": "0"}
        own = {"PREFECT__SERVER_FINAL": "1", "PREFECT_UI_API_URL": "/api", **embedded}
        command = [sys.executable, "-m", "uvicorn", "--factory", "prefect.server.api.server:create_app"]
        command += ["--host", "127.0.0.1", "--port", str(chosen), "--log-level", "error", "--lifespan", "on"]
        try:
            started = Guarded.start("Prefect server", command, environment={**environment, **own}, log=log, cwd=cwd)
        except BaseException:
            turn.end()
            raise
        return cls(started, chosen, turn)

    def wait(self, *, seconds: float = START_SECONDS) -> None:
        """Afterwards the server answers.

        Raises:
            OrchestratorUnavailableError: it ended, or does not answer in time.
        """
        await_answer(self.process, f"{self.api_url}/health", seconds=seconds)
        self._turn.succeed()

    def stop(self) -> None:
        """Afterwards it has ended."""
        self.process.stop()
        self._turn.end()
