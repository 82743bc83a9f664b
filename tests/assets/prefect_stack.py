"""A real Prefect server with real workers, for tests: the product's own `mtr up` on free ports, once a session."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from services.orchestrator import Stack
from tests.assets.executions import Site, doomed_by, settings_at, write_images

if TYPE_CHECKING:
    from pathlib import Path

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
    def start(cls, folder: Path) -> PrefectStack:
        settings = settings_at(folder / "home", MTR_CPU_POOL=POOL)
        settings.home.mkdir(parents=True)
        doom = folder / "doom.json"
        stack = Stack.start(settings, port=None, worker_environment=doomed_by(doom))
        site = Site(settings, {"PREFECT_API_URL": stack.server.api_url})
        return cls(stack, site, write_images(folder / "images"), doom)

    def stop(self) -> None:
        self.stack.stop()
