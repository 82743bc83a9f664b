"""The HTTP API as a process of its own, for tests: started on a free port, asked by plain sockets, ended by its pid."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from tests.assets.produced_codes import note_codes

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from types import TracebackType

REPOSITORY = Path(__file__).parents[2]
START_SECONDS = 60.0
ANSWER_SECONDS = 120.0


@dataclass(frozen=True)
class Answer:
    """What the API answered."""

    status: int
    body: bytes

    @property
    def document(self) -> Any:
        return json.loads(self.body)

    @property
    def code(self) -> str:
        """The error's code."""
        return str(self.document["code"])


class ApiServer:
    """One `uvicorn services.api.app:app` over the installation at `home`, which survives `kill` and `start`."""

    def __init__(self, home: Path, **settings: str) -> None:
        self.home = home
        self._settings = settings
        self._process: subprocess.Popen[bytes] | None = None
        self.port = 0

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        assert self._process is not None, "not started"
        return self._process.pid

    @property
    def log(self) -> str:
        return (self.home / "api.log").read_text(errors="replace")

    @property
    def peak_bytes(self) -> int:
        """The most memory that the process ever had resident."""
        status = Path(f"/proc/{self.pid}/status").read_text()
        (line,) = (line for line in status.splitlines() if line.startswith("VmHWM:"))
        return int(line.split()[1]) * 1024

    def start(self) -> None:
        """Returns when it answers."""
        assert self._process is None, "started twice"
        self.home.mkdir(parents=True, exist_ok=True)
        with socket.socket() as listening, (self.home / "api.log").open("ab") as log:
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # uvicorn takes --fd for no TCP
            listening.bind(("127.0.0.1", self.port))
            listening.listen(128)
            self.port = listening.getsockname()[1]
            self._process = subprocess.Popen(
                [sys.executable, "-m", "uvicorn", "services.api.app:app", "--fd", str(listening.fileno())],
                cwd=self.home,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                pass_fds=[listening.fileno()],
                start_new_session=True,
                env={
                    "PATH": os.environ["PATH"],
                    "HOME": str(self.home),
                    "PYTHONPATH": str(REPOSITORY),
                    "MTR_HOME": str(self.home),
                    "USE_NACOS": "false",
                    **self._settings,
                },
            )
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline:
            if self._process.poll() is not None:
                raise RuntimeError(f"the API ended with {self._process.returncode}:\n{self.log[-4000:]}")
            try:
                if self.ask("GET", "/health", timeout=START_SECONDS).status == 200:
                    return
            except OSError:
                time.sleep(0.05)
        self.kill()
        raise TimeoutError(f"the API was not ready within {START_SECONDS:.0f} s:\n{self.log[-4000:]}")

    def ask(
        self,
        method: str,
        path: str,
        body: bytes | Iterable[bytes] | None = None,
        headers: Mapping[str, str] | None = None,
        *,
        timeout: float = ANSWER_SECONDS,
    ) -> Answer:
        """One request; `path` may be a whole address. An iterable body is sent in chunks, its length unannounced."""
        url = path if path.startswith("http") else self.address + path
        asked = urllib.request.Request(url, body, dict(headers or {}), method=method)  # type: ignore[arg-type]
        try:
            with urllib.request.urlopen(asked, timeout=timeout) as answer:
                return Answer(answer.status, answer.read())
        except urllib.error.HTTPError as refused:
            with refused:
                found = Answer(refused.code, refused.read())
            if found.body.startswith(b"{") and "code" in found.document:
                note_codes(found.code)
            return found

    def begin(self, path: str, length: int, headers: Mapping[str, str] | None = None) -> socket.socket:
        """A POST whose head is sent and whose body is the caller's to send."""
        connection = socket.create_connection(("127.0.0.1", self.port), timeout=ANSWER_SECONDS)
        lines = [f"POST {path} HTTP/1.1", "Host: 127.0.0.1", f"Content-Length: {length}", "Connection: close"]
        lines += [f"{name}: {value}" for name, value in (headers or {}).items()]
        connection.sendall(("\r\n".join(lines) + "\r\n\r\n").encode())
        return connection

    def send_file(self, path: str, file: Path, headers: Mapping[str, str] | None = None) -> Answer:
        """A POST of a file's bytes, which do not pass through this process's memory."""
        with self.begin(path, file.stat().st_size, headers) as connection, file.open("rb") as content:
            connection.sendfile(content)
            return finish(connection)

    def kill(self) -> None:
        """SIGKILL, as a crash would."""
        if self._process is not None:
            self._process.kill()
            self._process.wait(30)
            self._process = None

    def stop(self) -> None:
        """An orderly end."""
        if self._process is not None:
            self._process.send_signal(signal.SIGTERM)
            try:
                self._process.wait(30)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait(30)
            self._process = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


def finish(connection: socket.socket) -> Answer:
    """The answer to what was sent, read to the connection's end."""
    received = b""
    while piece := connection.recv(65_536):
        received += piece
    head, _, body = received.partition(b"\r\n\r\n")
    return Answer(int(head.split()[1]), body)
