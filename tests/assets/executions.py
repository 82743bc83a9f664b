"""Executions of the quick package, for tests: an installation with data, submissions, and what must hold at the end."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from PIL import Image

from runtime.execution.survivors import TOKEN_NAME
from runtime.installation import Installation
from runtime.requests import WantedResources, build_request, fill_resources, find_data, find_package
from runtime.settings import Settings, load_settings
from tests.assets.produced_codes import note_codes

if TYPE_CHECKING:
    from contracts.submission import TrainingCodeSubmission
    from runtime.ledger import Execution

ASSETS = Path(__file__).parent
PACKAGE = ASSETS / "quick_package"
DOOM = ASSETS / "doom"


def settings_at(home: Path, **given: str) -> Settings:
    """Settings as a person's environment would make them, in a home of the test's own."""
    environ = {"MTR_HOME": str(home), **given}
    return load_settings(directory=home.parent, environ=environ)


def write_images(folder: Path, *, count: int = 3) -> Path:
    """Two classes of tiny pictures, each picture different."""
    for number, name in enumerate(("bus", "car")):
        (folder / name).mkdir(parents=True, exist_ok=True)
        for index in range(count):
            Image.new("L", (8, 8), 40 * number + index).save(folder / name / f"{index}.png")
    return folder


@dataclass
class Site:
    """One installation with the quick package and a named data set in its store.

    Attributes:
        settings: its settings.
        environ: what its commands have in their environment besides.
    """

    settings: Settings
    environ: dict[str, str] = field(default_factory=dict)

    def submission(self, *, data: Path, **parameters: Any) -> TrainingCodeSubmission:
        """A new submission, its package and data stored."""
        with Installation.open(self.settings) as installation:
            request = build_request(
                package=find_package(installation, str(PACKAGE), lambda _: None),
                data=find_data(installation, str(data)),
                parameters=parameters,
                resources=fill_resources(WantedResources(cpus=1, memory="1GiB", timeout="5m")),
                policy=self.settings.policy(),
                task_id=installation.ledger.next_task_id(),
            )
        return request.submission

    def environment(self, **more: str) -> dict[str, str]:
        """The whole environment of this site's commands."""
        kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG", "TMPDIR") if name in os.environ}
        return {**kept, **self.settings.to_environment(), **self.environ, **more}

    def submit(self, submission: TrainingCodeSubmission, **more: str) -> subprocess.CompletedProcess[str]:
        """`mtr submit - --json`, run to its end in a process of its own."""
        done = subprocess.run(
            [sys.executable, "-m", "services.cli", "submit", "-", "--json"],
            input=json.dumps(submission.to_document()),
            env=self.environment(**more),
            cwd=ASSETS.parents[1],
            capture_output=True,
            text=True,
            timeout=240,
            check=False,
        )
        if done.returncode > 0 and done.stdout.startswith("{"):
            said = json.loads(done.stdout)
            if said.get("error"):
                note_codes(said["error"]["code"])
        return done

    def execution(self, execution_id: str) -> Execution:
        """As the ledger has it."""
        with Installation.open(self.settings) as installation:
            return installation.ledger.get(execution_id)

    def require_one_clean_success(self, execution_id: str) -> None:
        """Succeeded; one training paid for; one set of artifacts; one model; no workspace, no process."""
        with Installation.open(self.settings) as installation:
            execution = installation.ledger.get(execution_id)
            assert (execution.state, execution.error) == ("succeeded", None)
            assert execution.workspace_cleaned is True
            attempts = installation.ledger.attempts(execution_id)
            assert [attempt.number for attempt in attempts if attempt.training_finished] == [attempts[-1].number]
            assert all(attempt.ended_at is not None for attempt in attempts)
            stored = [
                key
                for bucket in ("default", "models")
                for key in installation.store.list(bucket, f"training-code-runtime/executions/{execution_id}/")
                if "/attempts/" not in key and not key.endswith("/plan.json")
            ]
            assert sorted(stored) == sorted({one["object"]["object_key"] for one in execution.artifacts})
            models = [model for model in installation.models.list() if model.execution_id == execution_id]
            assert [model.object.to_document() for model in models] == [execution.model and execution.model["object"]]
        assert not (self.settings.workspace_root / execution_id).exists()
        assert trainings_of(execution_id) == []


def trainings_of(execution_id: str) -> list[int]:
    """The living processes of an execution's packages."""
    return processes_with(mark_of(execution_id))


def mark_of(execution_id: str) -> str:
    """What the processes of an execution's packages have in their environment."""
    return f"{TOKEN_NAME}={execution_id}"


def processes_with(mark: str) -> list[int]:
    """The living processes, but this one, that have `mark` in their environment."""
    found = []
    for folder in Path("/proc").iterdir():
        if not folder.name.isdecimal() or int(folder.name) == os.getpid():
            continue
        try:
            if folder.joinpath("stat").read_text().rpartition(")")[2].split()[0] in "ZX":
                continue
            if mark.encode() in folder.joinpath("environ").read_bytes():
                found.append(int(folder.name))
        except OSError:
            continue
    return found


def wait_until_none_has(mark: str, *, seconds: float = 20) -> None:
    """Afterwards no living process has `mark`. What a killed process leaves to the kernel to kill takes a moment to die."""
    deadline = time.monotonic() + seconds
    while left := processes_with(mark):
        assert time.monotonic() < deadline, left
        time.sleep(0.02)


def doom(file: Path, *, at: str, kill: str | int) -> dict[str, str]:
    """The environment in which a process meets its end (or brings another's) at an exact point, once."""
    file.write_text(json.dumps({"at": at, "kill": kill}))
    return doomed_by(file)


def doomed_by(file: Path) -> dict[str, str]:
    """The environment of a process that looks into `file` at every point; without the file nothing happens."""
    return {"DOOM": str(file), "PYTHONPATH": str(DOOM)}
