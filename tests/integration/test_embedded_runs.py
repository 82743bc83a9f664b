"""Executions with a Prefect server of their process's own: nothing of it outlives the process, whichever way that ends."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from contracts.base import validate
from contracts.submission import TrainingCodeSubmission
from tests.assets.executions import (
    ASSETS,
    Site,
    doom,
    processes_with,
    settings_at,
    wait_until_none_has,
    write_images,
)
from tests.assets.produced_codes import note_codes

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.service


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(settings_at(tmp_path / "home"))


def test_a_run_leaves_no_server(site: Site, tmp_path: Path) -> None:
    submission = site.submission(data=write_images(tmp_path / "images"))
    done = site.submit(submission)
    assert done.returncode == 0, done.stderr
    site.require_one_clean_success(submission.execution_id)
    assert processes_with(str(site.settings.prefect_home)) == []


def test_a_killed_run_leaves_no_server_either(site: Site, tmp_path: Path) -> None:
    submission = site.submission(data=write_images(tmp_path / "images"))
    killed = site.submit(submission, **doom(tmp_path / "doom", at="metric 1", kill="self"))
    assert killed.returncode == -9
    wait_until_none_has(str(site.settings.prefect_home))


def test_a_training_on_gpus_that_this_machine_has_not_is_refused_at_admission(tmp_path: Path) -> None:
    site = Site(settings_at(tmp_path / "home", MTR_GPUS="0"))
    document = site.submission(data=write_images(tmp_path / "images")).to_document()
    document["resources"] |= {"device": "cuda", "gpu_count": 1}
    submission = validate(TrainingCodeSubmission, document)

    site.submit(submission)

    execution = site.execution(submission.execution_id)
    note_codes(execution.error["code"])
    assert (execution.state, execution.result["error"]["stage"], execution.error["code"]) == (
        "failed",
        "admit_execution",
        "gpu_unavailable",
    )


def test_two_executions_run_at_once(site: Site, tmp_path: Path) -> None:
    data = write_images(tmp_path / "images")
    submissions = [site.submission(data=data, epochs=number) for number in (1, 2)]
    for submission in submissions:
        (tmp_path / submission.execution_id).write_text(submission.model_dump_json())
    running = [
        subprocess.Popen(
            [sys.executable, "-m", "services.cli", "submit", tmp_path / submission.execution_id, "--json"],
            env=site.environment(),
            cwd=ASSETS.parents[1],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        for submission in submissions
    ]
    for process, submission in zip(running, submissions, strict=True):
        _, said = process.communicate(timeout=240)
        assert process.returncode == 0, said.decode()
        site.require_one_clean_success(submission.execution_id)
