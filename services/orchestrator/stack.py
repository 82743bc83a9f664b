"""`mtr up`: a Prefect server with its UI, the workers, the HTTP API and the bridge, on this machine, ended together."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from typing import TYPE_CHECKING, Final, Self

from contracts.errors import ConflictError
from services.listening import listen
from services.orchestrator.application import apply
from services.orchestrator.environment import child_environment, prepare_environment
from services.orchestrator.processes import Guarded, PrefectServer, answers, await_answer, free_port

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from types import TracebackType

    from runtime.settings import Settings

PORT: Final = 4200
CONTROL_POOL: Final = "mtr-control"
API_PORT: Final = 8012
WORKER_STOP_SECONDS: Final = 40.0
"""A worker ends its runs first, each with Prefect's thirty seconds of grace."""
DOOR_STOP_SECONDS: Final = 20.0
"""The HTTP API finishes the requests that run, the bridge what it is publishing."""


class Stack:
    """A server, its UI, workers, and the doors. Nothing of it outlives the process that started it, however that ends.

    Attributes:
        server: the Prefect server.
        workers: one for each pool that this machine serves.
        doors: the HTTP API and, where a broker is configured, the bridge.
    """

    def __init__(self, settings: Settings, server: PrefectServer, environment: Mapping[str, str]) -> None:
        self.settings, self.server = settings, server
        self.environment = dict(environment)
        self.workers: list[Guarded] = []
        self.doors: list[Guarded] = []
        self._api_port: int | None = None

    @classmethod
    def start(
        cls,
        settings: Settings,
        *,
        port: int | None = PORT,
        api_port: int | None = None,
        worker_environment: Mapping[str, str] | None = None,
    ) -> Self:
        """The server, brought to the state that this version needs, a worker for each pool, and the doors. Call it from the main thread.

        Args:
            settings: what the workers work with. They load these very settings, whatever folder they start in.
            port: the server's, on 127.0.0.1; `None` is any free one.
            api_port: likewise the HTTP API's; 0 is any free one, `None` starts no door.
            worker_environment: what the workers, and the runs that they start, have in their environment besides.

        Raises:
            ConflictError: something else listens on a port.
            OrchestratorUnavailableError: the server, a worker or a door does not start; the message has its last words.
        """
        if port is not None and answers(f"http://127.0.0.1:{port}/api"):
            raise ConflictError(
                f"a Prefect server answers on port {port} already",
                hint=f"Use it: PREFECT_API_URL=http://127.0.0.1:{port}/api; or end it, or choose another --port.",
                context={"port": port},
            )
        if api_port:
            listen("127.0.0.1", api_port).close()  # before minutes of starting, not after them
        prepare_environment(settings)
        environment = child_environment(settings, os.environ, **_WORKER_SETTINGS, **settings.to_environment())
        environment.pop("PREFECT_API_URL", None)
        server_environment = {name: value for name, value in environment.items() if not name.startswith("MTR_")}
        log = settings.prefect_home / "server.log"
        server = PrefectServer.launch(server_environment, log=log, cwd=settings.home, port=port, ui=True)
        stack = cls(settings, server, {**environment, "PREFECT_API_URL": server.api_url, **(worker_environment or {})})
        try:
            server.wait()
            with stack.as_client():
                apply(settings)
            for pool in stack.pools():
                stack.workers.append(stack.start_worker(pool))
            if api_port is not None:
                stack.start_doors(api_port or free_port())
        except BaseException:
            stack.stop()
            raise
        return stack

    def pools(self) -> list[str]:
        """The pools that this machine serves: the control flows', and that of training where one is configured."""
        named = (CONTROL_POOL, self.settings.cpu_pool, self.settings.gpu_pool)
        return list(dict.fromkeys(pool for pool in named if pool is not None))

    def start_worker(self, pool: str) -> Guarded:
        """A worker for `pool`, starting."""
        kind, environment = "process", self.environment
        if pool in self.settings.cluster_pools:
            kubeconfig = self.settings.cluster_kubeconfig or os.environ.get("KUBECONFIG")
            kind, environment = "kubernetes", environment | ({"KUBECONFIG": kubeconfig} if kubeconfig else {})
        command = [sys.executable, "-m", "prefect", "worker", "start", "--pool", pool, "--type", kind]
        return Guarded.start(
            f"worker of {pool}",
            [*command, "--name", f"mtr-up-{pool}"],
            environment=environment,
            log=self.settings.prefect_home / f"worker-{pool}.log",
            cwd=self.settings.home,
        )

    def start_doors(self, api_port: int) -> None:
        """Afterwards the HTTP API answers on `api_port`, and the bridge, where a broker is configured, is starting.

        Raises:
            OrchestratorUnavailableError: the API ended, or does not answer in time.
        """
        api = self._start_door("HTTP API", "serve", "--port", str(api_port))
        if self.settings.rabbitmq_host:
            self._start_door("bridge", "bridge")
        await_answer(api, f"http://127.0.0.1:{api_port}/health")
        self._api_port = api_port

    def _start_door(self, name: str, *command: str) -> Guarded:
        door = Guarded.start(
            name,
            [sys.executable, "-m", "services.cli", *command],
            environment=self.environment,
            log=self.settings.home / "logs" / f"{command[0]}.log",
            cwd=self.settings.home,
        )
        self.doors.append(door)
        return door

    @property
    def links(self) -> dict[str, str]:
        """What people open, and what programs use."""
        links = {
            "ui": f"{self.server.address}/v2/dashboard",
            "form": f"{self.server.address}/v2/deployments",
            "api": self.server.api_url,
        }
        if self._api_port is not None:
            links["runtime_api"] = f"http://127.0.0.1:{self._api_port}"
        return links

    @contextlib.contextmanager
    def as_client(self) -> Iterator[None]:
        """Within the block, this process's Prefect client talks to the stack's server."""
        from prefect.settings import PREFECT_API_URL, temporary_settings  # noqa: PLC0415 - prepared by `start`

        before = os.environ.get("PREFECT_API_URL")
        os.environ["PREFECT_API_URL"] = self.server.api_url
        try:
            with temporary_settings({PREFECT_API_URL: self.server.api_url}):
                yield
        finally:
            if before is None:
                del os.environ["PREFECT_API_URL"]
            else:
                os.environ["PREFECT_API_URL"] = before

    def wait(self) -> None:
        """Until somebody interrupts, or a part of it ends.

        Raises:
            OrchestratorUnavailableError: a part has ended; the message has its last words.
        """
        while True:
            for part in (self.server.process, *self.workers, *self.doors):
                part.require_alive()
            time.sleep(0.5)

    def stop(self) -> None:
        """Afterwards nothing of it runs. An execution that a worker carried out goes on when it is run again."""
        for part in (*self.doors, *self.workers):
            part.ask_to_end()
        for door in self.doors:
            door.await_end(DOOR_STOP_SECONDS)
        for worker in self.workers:
            worker.await_end(WORKER_STOP_SECONDS)
        self.server.stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


_WORKER_SETTINGS: Final = {
    "PREFECT_WORKER_QUERY_SECONDS": "1",
    "PREFECT_LOGGING_TO_API_WHEN_MISSING_FLOW": "ignore",
}
