"""A real RabbitMQ on this machine, for tests: it can be stopped, killed and started again over the same data."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import time
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from types import TracebackType

START_SECONDS = 120.0  # eight seconds on an idle machine
STOP_SECONDS = 30.0
HOST, USER, PASSWORD = "127.0.0.1", "tests", "tests-password"


class RabbitMqServer:
    """One broker on free ports of 127.0.0.1, over `folder`, which survives `kill` and `start`.

    Everything that Erlang would share with others on this machine is its own: node name, cookie, port mapper (epmd),
    plugins. It runs as whoever runs the tests.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port, self._distribution, self._mapper_port = _free_ports(3)
        self._node = f"mtr-{uuid.uuid4().hex[:12]}@localhost"
        self._broker: subprocess.Popen[bytes] | None = None
        self._mapper: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"amqp://{USER}:{PASSWORD}@{HOST}:{self.port}/"

    @property
    def pid(self) -> int:
        assert self._broker is not None, "not started"
        return self._broker.pid

    @property
    def environment(self) -> dict[str, str]:
        """The environment names under which `mtr` uses this broker."""
        return {
            "RABBITMQ_HOST": HOST,
            "RABBITMQ_PORT": str(self.port),
            "RABBITMQ_USER": USER,
            "RABBITMQ_PASSWORD": PASSWORD,
        }

    def start(self) -> None:
        """Returns when the broker takes clients, over whatever the folder holds."""
        self.begin()
        self.wait()

    def begin(self) -> None:
        """Returns at once, while it starts."""
        assert self._broker is None, "started twice"
        self.folder.mkdir(parents=True, exist_ok=True)
        configuration = self.folder / "rabbitmq.conf"
        configuration.write_text(
            f"listeners.tcp.1 = {HOST}:{self.port}\n"
            f"default_user = {USER}\n"
            f"default_pass = {PASSWORD}\n"
            f"log.file = {self.folder / 'broker.log'}\n"
            "log.console = false\n"
            "disk_free_limit.absolute = 50MB\n"
            "vm_memory_high_watermark.absolute = 1GB\n"
        )
        plugins = self.folder / "enabled_plugins"
        plugins.write_text("[].\n")
        nothing = self.folder / "rabbitmq-env.conf"
        nothing.touch()
        environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.folder),  # where the cookie is made
            "LANG": "C.UTF-8",
            "ERL_EPMD_ADDRESS": HOST,
            "ERL_EPMD_PORT": str(self._mapper_port),
            "RABBITMQ_NODENAME": self._node,
            "RABBITMQ_CONF_ENV_FILE": str(nothing),
            "RABBITMQ_CONFIG_FILE": str(configuration),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(plugins),
            "RABBITMQ_MNESIA_BASE": str(self.folder / "data"),
            "RABBITMQ_LOG_BASE": str(self.folder),
            "RABBITMQ_PID_FILE": str(self.folder / "broker.pid"),
            "RABBITMQ_DIST_PORT": str(self._distribution),
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "-kernel inet_dist_use_interface {127,0,0,1} +S 2:2 +A 16",
            "detached": "yes",  # the script then becomes the Erlang machine: one process, whose pid we know
        }
        with (self.folder / "output.log").open("ab") as output:
            # Started by us, and not by Erlang, which would leave it running for ever.
            self._mapper = _start(
                [_program("epmd"), "-address", HOST, "-port", str(self._mapper_port)], output, environment
            )
            self._await_port(self._mapper, self._mapper_port)
            self._broker = _start([_server_script()], output, environment)

    def wait(self) -> None:
        """Returns when it takes clients."""
        assert self._broker is not None
        self._await_port(self._broker, self.port)

    def _await_port(self, process: subprocess.Popen[bytes], port: int) -> None:
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline:
            if process.poll() is not None:
                said = (self.folder / "output.log").read_text(errors="replace")[-4000:]
                raise RuntimeError(f"the broker ended with {process.returncode}:\n{said}")
            with socket.socket() as probe:
                probe.settimeout(1)
                if probe.connect_ex((HOST, port)) == 0:
                    return
            time.sleep(0.05)
        self.kill()
        raise TimeoutError(f"the broker was not ready within {START_SECONDS:.0f} s")

    def kill(self) -> None:
        """SIGKILL, as a crash would; the folder keeps what was confirmed."""
        for process in (self._broker, self._mapper):
            if process is not None:
                process.kill()
                process.wait(STOP_SECONDS)
        self._broker = self._mapper = None

    def stop(self) -> None:
        """An orderly end: clients are told."""
        if self._broker is not None:
            self._broker.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._broker.wait(STOP_SECONDS)
        self.kill()

    def restart(self) -> None:
        """A crash and a new start, on the same port, over the same folder."""
        self.kill()
        self.start()

    def freeze(self) -> None:
        """Afterwards it takes connections and answers nothing, like a hanging broker."""
        os.kill(self.pid, signal.SIGSTOP)

    def thaw(self) -> None:
        """Undoes `freeze`."""
        os.kill(self.pid, signal.SIGCONT)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()  # nothing of it is needed any more
        shutil.rmtree(self.folder / "data", ignore_errors=True)


def _start(command: list[str], output, environment: dict[str, str]) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        command,
        env=environment,
        cwd=environment["HOME"],
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )


def _server_script() -> str:
    """The program itself: the wrapper on the PATH of Debian insists on a user and a folder of its own."""
    found = sorted(Path("/usr/lib/rabbitmq/lib").glob("rabbitmq_server-*/sbin/rabbitmq-server"))
    return str(found[-1]) if found else _program("rabbitmq-server")


def _program(name: str) -> str:
    found = shutil.which(name)
    assert found, f"{name} is not installed: `make services` installs it"
    return found


def _free_ports(count: int) -> list[int]:
    """Ports that are free now, each another one."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for one in sockets:
            one.bind((HOST, 0))
        return [int(one.getsockname()[1]) for one in sockets]
    finally:
        for one in sockets:
            one.close()
