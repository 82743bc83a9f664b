"""A real PostgreSQL on this machine, for tests: its own data folder, a free port of 127.0.0.1, ended by its pid."""

from __future__ import annotations

import os
import pwd
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Self

import psycopg

if TYPE_CHECKING:
    from types import TracebackType

START_SECONDS = 60.0  # two seconds on an idle machine, most of it for the new data folder


class PostgresServer:
    """One PostgreSQL, whose data survive `kill` and `start`. As root it runs as another user, which it insists on.

    Sorts and compares text as an English server does, not by bytes: most servers in the field do.
    """

    def __init__(self) -> None:
        # Not in the tests' own folder, which nobody but their user may enter.
        self.folder = Path(tempfile.mkdtemp(prefix="mtr-postgres-"))
        self.port = _free_port()
        self._password = secrets.token_hex(16)
        self._user = _user()
        self._process: subprocess.Popen[bytes] | None = None

    def url(self, name: str = "postgres") -> str:
        """The ledger's URL of the database `name`."""
        return f"postgresql+psycopg://postgres:{self._password}@127.0.0.1:{self.port}/{name}"

    def new_database(self) -> str:
        """The URL of a new, empty database."""
        name = f"t{uuid.uuid4().hex[:12]}"
        with self.connect() as connection:
            connection.execute(f"CREATE DATABASE {name}".encode())
        return self.url(name)

    def connect(self, name: str = "postgres") -> psycopg.Connection:
        """A connection of the superuser, each statement a transaction."""
        return psycopg.connect(
            host="127.0.0.1", port=self.port, user="postgres", password=self._password, dbname=name, autocommit=True
        )

    def start(self) -> None:
        """Returns when the server answers, over whatever its folder holds."""
        assert self._process is None, "started twice"
        data = self.folder / "data"
        if not data.exists():
            self._make(data)
        with (self.folder / "server.log").open("ab") as log:
            self._process = subprocess.Popen(
                [
                    _program("postgres"),
                    "-D", data,
                    "-p", str(self.port),
                    "-c", "listen_addresses=127.0.0.1",
                    "-c", "unix_socket_directories=",
                    "-c", "max_connections=300",
                    "-c", "shared_buffers=32MB",
                    "-c", "fsync=off",  # no power is cut in tests, and every test has a new database
                    "-c", "full_page_writes=off",
                ],
                **self._as_user(),
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )  # fmt: skip
        self._wait()

    def _make(self, data: Path) -> None:
        password = self.folder / "password"
        password.write_text(self._password)
        if self._user is not None:
            for path in (self.folder, password):
                os.chown(path, self._user.pw_uid, self._user.pw_gid)
        subprocess.run(
            [
                _program("initdb"),
                "-D", data,
                "-U", "postgres",
                "-A", "scram-sha-256",
                f"--pwfile={password}",
                "--encoding=UTF8",
                "--locale=C.UTF-8",
                "--locale-provider=icu",
                "--icu-locale=en-US",
                "--no-sync",
            ],
            **self._as_user(),
            stdout=subprocess.DEVNULL,
            check=True,
            timeout=START_SECONDS,
        )  # fmt: skip

    def _as_user(self) -> dict[str, object]:
        given: dict[str, object] = {
            "stdin": subprocess.DEVNULL,
            "cwd": self.folder,
            "env": {"PATH": os.environ["PATH"], "HOME": str(self.folder), "LC_ALL": "C.UTF-8", "TZ": "Asia/Tokyo"},
        }
        if self._user is not None:
            given |= {"user": self._user.pw_uid, "group": self._user.pw_gid, "extra_groups": []}
        return given

    def _wait(self) -> None:
        assert self._process is not None
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline:
            if self._process.poll() is not None:
                log = (self.folder / "server.log").read_text(errors="replace")[-4000:]
                raise RuntimeError(f"PostgreSQL ended with {self._process.returncode}:\n{log}")
            try:
                self.connect().close()
            except psycopg.OperationalError:
                time.sleep(0.05)
            else:
                return
        self.kill()
        raise TimeoutError(f"PostgreSQL was not ready within {START_SECONDS:.0f} s")

    def stop(self) -> None:
        """An orderly end: connections are closed, and nothing is left of its processes."""
        self._end(signal.SIGINT)

    def kill(self) -> None:
        """An end without any order, as a crash; the data are recovered at the next start."""
        self._end(signal.SIGQUIT)  # SIGKILL would leave its shared memory behind

    def _end(self, number: int) -> None:
        if self._process is not None:
            self._process.send_signal(number)
            try:
                self._process.wait(30)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait(30)
            self._process = None

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def close(self) -> None:
        """Afterwards nothing of it is left."""
        self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _user() -> pwd.struct_passwd | None:
    """Whom the server runs as: its package's user, or nobody, where the tests run as root; else whoever runs them."""
    if os.geteuid() != 0:
        return None
    try:
        return pwd.getpwnam("postgres")
    except KeyError:
        return pwd.getpwnam("nobody")


def _program(name: str) -> Path:
    """Debian keeps them off the PATH, one folder a version."""
    found = shutil.which(name)
    versions = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: int(path.parent.name))
    places = [Path(found)] if found else [folder / name for folder in versions[::-1]]
    assert places, "PostgreSQL is not installed: `make services` does it"
    return places[0]


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
