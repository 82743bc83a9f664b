"""A real Prefect server with real workers, for tests: the product's own `mtr up` on free ports, once a session."""

from __future__ import annotations

import contextlib
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from prefect.client.orchestration import get_client
from prefect.client.schemas.filters import ArtifactFilter, FlowRunFilter, TaskRunFilter
from prefect.deployments import run_deployment
from prefect.settings import PREFECT_FLOWS_HEARTBEAT_FREQUENCY, temporary_settings
from prefect.states import Cancelling

from runtime.installation import Installation
from runtime.requests import find_data, packed
from services.orchestrator import Stack
from services.orchestrator.application import apply
from services.orchestrator.processes import PrefectServer
from tasks.run import Host, hosted
from tests.assets.executions import PACKAGE, Site, doomed_by, settings_at, write_images

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path
    from uuid import UUID

    from prefect.client.orchestration import SyncPrefectClient
    from prefect.client.schemas.objects import Artifact, FlowRun, State, TaskRun
    from prefect.flows import Flow

POOL = "mtr-cpu"


@dataclass
class PrefectStack:
    """The running stack and the installation that its workers serve.

    Attributes:
        stack: server and workers.
        site: the installation; its commands use the server and its pool.
        data: class folders to train on.
        doom: the file in which the workers' runs look for their end.
    """

    stack: Stack
    site: Site
    data: Path
    doom: Path

    @classmethod
    def start(cls, folder: Path, **given: str) -> PrefectStack:
        """A new installation under `folder` with these settings, and everything that it needs, running."""
        settings = settings_at(folder / "home", MTR_CPU_POOL=POOL, **given)
        settings.home.mkdir(parents=True)
        doom = folder / "doom.json"
        stack = Stack.start(settings, port=None, worker_environment=doomed_by(doom))
        site = Site(settings, {"PREFECT_API_URL": stack.server.api_url})
        return cls(stack, site, write_images(folder / "images"), doom)

    def stop(self) -> None:
        self.stack.stop()

    def kill_server(self) -> None:
        """Afterwards nothing answers at the server's address."""
        process = self.stack.server.process.process
        process.kill()
        process.wait()

    def start_server(self, *, empty: bool = False) -> None:
        """Afterwards a server answers there again; an `empty` one has lost its database and been applied to anew."""
        settings, before = self.stack.settings, self.stack.server
        before.stop()
        if empty:
            for file in settings.prefect_home.glob("prefect.db*"):
                file.unlink()
        environment = {name: value for name, value in self.stack.environment.items() if not name.startswith("MTR_")}
        del environment["PREFECT_API_URL"]
        log = before.process.log
        self.stack.server = PrefectServer.launch(environment, log=log, cwd=settings.home, port=before.port, ui=True)
        self.stack.server.wait()
        if empty:
            with self.stack.as_client():
                apply(settings)

    def here(self, flow: Flow, **parameters: Any) -> State:
        """How `flow` ends in this very process, on the stack's server and in its installation, training here too."""
        settings = self.site.settings.model_copy(update={"cpu_pool": None})
        quiet = {PREFECT_FLOWS_HEARTBEAT_FREQUENCY: None}  # joining its thread takes a second a flow
        with (
            Installation.open(settings) as installation,
            self.stack.as_client(),
            temporary_settings(quiet),
            hosted(Host(installation)),
        ):
            return flow(**parameters, return_state=True)

    def begin(self, deployment: str, **parameters: Any) -> FlowRun:
        """A run of `deployment`, started as the UI's form starts it."""
        with self.stack.as_client():
            return run_deployment(deployment, parameters=parameters, timeout=0)

    def end(self, run: FlowRun, *, seconds: float = 120) -> FlowRun:
        """The run, once it has ended."""
        return self.await_run(run.id, lambda now: now.state.is_final(), seconds=seconds)

    def run(self, deployment: str, **parameters: Any) -> FlowRun:
        """A run of `deployment`, from start to end."""
        return self.end(self.begin(deployment, **parameters))

    def await_run(self, run_id: UUID, holds: Callable[[FlowRun], bool], *, seconds: float = 120) -> FlowRun:
        """The run, once `holds` is true of it."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            with self.client() as client:
                found = client.read_flow_run(run_id)
            if holds(found):
                return found
            time.sleep(0.2)
        raise TimeoutError(f"run {run_id} is {found.state} after {seconds} s")

    @contextlib.contextmanager
    def client(self) -> Iterator[SyncPrefectClient]:
        with self.stack.as_client(), get_client(sync_client=True) as client:
            yield client

    def children(self, run: FlowRun) -> list[FlowRun]:
        """The runs nested in `run`."""
        with self.client() as client:
            return client.read_flow_runs(
                flow_run_filter=FlowRunFilter.model_validate({"parent_flow_run_id": {"any_": [str(run.id)]}})
            )

    def task_names(self, run: FlowRun) -> set[str]:
        """The tasks that ran in `run`, the stand-ins of nested runs left out."""
        with self.client() as client:
            tasks = client.read_task_runs(
                task_run_filter=TaskRunFilter.model_validate({"flow_run_id": {"any_": [str(run.id)]}})
            )
        return {task.name for task in tasks if not task.state.state_details.child_flow_run_id}

    def only_task(self, flow_run_id: UUID, *, seconds: float = 60) -> TaskRun:
        """The one task that ran in a run of this process, once the server has written its end down: it does so later."""
        only = TaskRunFilter.model_validate({"flow_run_id": {"any_": [str(flow_run_id)]}})
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            with self.client() as client:
                found = client.read_task_runs(task_run_filter=only)
            if found and all(task.state is not None and task.state.is_final() for task in found):
                (task,) = found
                return task
            time.sleep(0.1)
        raise TimeoutError(f"the tasks of run {flow_run_id} are {found} after {seconds} s")

    def artifacts(self, run: FlowRun) -> dict[str, Artifact]:
        """What `run` shows, by key."""
        with self.client() as client:
            found = client.read_artifacts(
                artifact_filter=ArtifactFilter.model_validate({"flow_run_id": {"any_": [str(run.id)]}})
            )
        return {artifact.key: artifact for artifact in found}

    def cancel_in_prefect(self, run: FlowRun) -> None:
        """As the UI's button does."""
        with self.client() as client:
            client.set_flow_run_state(run.id, Cancelling())

    def register(self) -> str:
        """The quick package registered and its data named `images`; answers the package's reference."""
        with Installation.open(self.site.settings) as installation:
            with packed(PACKAGE, lambda _: None) as archive:
                installation.packages.register(archive, archive_name="quick.zip")
            find_data(installation, str(self.data), name="images")
        return "quick@1.0.0"
