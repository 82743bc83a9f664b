"""What the platform is told of executions that really run: each message once, in order, whatever happened on the way."""

from __future__ import annotations

import subprocess
import sys
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

from contracts.base import validate
from contracts.messages import ModelRegistered, TaskLog, TaskStatusUpdate
from runtime.execution.journal import Journal
from runtime.execution.telling import line_of
from runtime.installation import Installation
from tests.assets.executions import ASSETS, Site, doom, settings_at, write_images

if TYPE_CHECKING:
    from pathlib import Path

    from contracts.submission import TrainingCodeSubmission
    from runtime.ledger import RecordedMessage

pytestmark = [pytest.mark.service, pytest.mark.timeout(600)]  # two whole executions, on a machine with other work

MODELS = {model.kind: model for model in (TaskStatusUpdate, TaskLog, ModelRegistered)}


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(settings_at(tmp_path / "home"))


def messages(site: Site, submission: TrainingCodeSubmission) -> list[RecordedMessage]:
    """What is in the outbox, each one valid, of the right task, with a time of its own and an id that no other has."""
    with Installation.open(site.settings) as installation:
        found = list(installation.ledger.messages(execution_id=submission.execution_id))
    for message in found:
        validate(MODELS[message.kind], message.body)
        assert message.body["message_type"] == message.kind
        assert message.body["service_name"] == "model-training-runtime"
        assert message.body["task_id"] == message.task_id == submission.task.task_id
        assert datetime.fromisoformat(message.body["timestamp"]).utcoffset() == UTC.utcoffset(None)
    assert len({message.message_id for message in found}) == len(found)
    return found


def bodies(found: list[RecordedMessage], kind: str) -> list[dict[str, Any]]:
    return [message.body for message in found if message.kind == kind]


def require_every_line_once(site: Site, submission: TrainingCodeSubmission, found: list[RecordedMessage]) -> None:
    """The log messages say what the journal says, line by line, and all before the end."""
    journal = Journal.of(site.settings.executions_root, submission.execution_id)
    said = [line for raw in journal.path.read_bytes().split(b"\n") if (line := line_of(raw)) is not None]
    told = bodies(found, "task.log")
    assert "\n".join(one["log_content"] for one in told) == "\n".join(content for _, _, content in said)
    kinds = [message.kind for message in found]
    end = next(index for index, message in enumerate(found) if message.body.get("status") in {3, 4})
    assert "task.log" not in kinds[end:]


def test_a_success_is_queued_running_what_it_said_completed_and_registered(site: Site, tmp_path: Path) -> None:
    submission = site.submission(data=write_images(tmp_path / "images"))
    done = site.submit(submission)
    assert done.returncode == 0, done.stderr

    found = messages(site, submission)

    assert [(one.kind, one.body.get("status")) for one in found if one.kind != "task.log"] == [
        ("task.status.update", 0),
        ("task.status.update", 1),
        ("task.status.update", 3),
        ("model.registered", None),
    ]
    require_every_line_once(site, submission, found)
    logs = "\n".join(one["log_content"] for one in bodies(found, "task.log"))
    assert "stage train" in logs
    assert "epoch 3 val: accuracy 0.75" in logs
    begun = {"backend": "training_code_runtime", "execution_id": submission.execution_id}
    queued, running, completed = bodies(found, "task.status.update")
    assert (queued["message"], queued["extra_data"]) == ("queued", begun)
    assert (running["message"], running["extra_data"]) == ("running", begun)
    execution = site.execution(submission.execution_id)
    ended = begun | {"result": execution.result, "artifacts": execution.artifacts}
    assert (completed["message"], completed["extra_data"]) == ("quick v1 registered", ended)
    (registered,) = bodies(found, "model.registered")
    assert registered["model_info"] == {
        "onnx_save_path": execution.model["object"]["object_key"],
        "save_path": None,
        "task_kind": "classification",
        "class_names": ["bus", "car"],
        "trained_model_name": f"quick-task-{submission.task.task_id}",
        "loss": None,
        "runtime_template": "onnx_classification",
        "execution_id": submission.execution_id,
    }


def test_a_failure_ends_with_its_typed_cause_and_the_next_action(site: Site, tmp_path: Path) -> None:
    submission = site.submission(data=write_images(tmp_path / "images"), fail="no luck")
    assert site.submit(submission).returncode > 0

    found = messages(site, submission)

    require_every_line_once(site, submission, found)
    *_, last = found
    execution = site.execution(submission.execution_id)
    assert [one["status"] for one in bodies(found, "task.status.update")] == [0, 1, 4]
    assert last.body["message"].startswith(f"package_raised: {execution.error['message']}")
    assert last.body["message"].endswith(execution.error["hint"])
    assert last.body["extra_data"]["result"]["error"]["error_type"] == "package_raised"


def test_a_cancelled_training_ends_with_exactly_that_word(site: Site, tmp_path: Path) -> None:
    submission = site.submission(data=write_images(tmp_path / "images"), epochs=2, pause_seconds=120)
    (tmp_path / "submission.json").write_text(submission.model_dump_json())
    process = subprocess.Popen(
        [sys.executable, "-m", "services.cli", "submit", tmp_path / "submission.json", "--json"],
        env=site.environment(),
        cwd=ASSETS.parents[1],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        with Installation.open(site.settings) as installation:
            wait_for_log(installation, submission.execution_id, "epoch 1 val")  # told while it runs
            installation.ledger.request_cancel(submission.execution_id)
        process.wait(60)
    finally:
        process.kill()
        process.wait()

    found = messages(site, submission)

    require_every_line_once(site, submission, found)
    *_, last = bodies(found, "task.status.update")
    assert [one["status"] for one in bodies(found, "task.status.update")] == [0, 1, 4]
    assert (last["message"], last["extra_data"]["result"]["status"]) == ("cancelled", "cancelled")


def wait_for_log(installation: Installation, execution_id: str, text: str) -> None:
    deadline = time.monotonic() + 200
    while not any(
        text in one.body.get("log_content", "") for one in installation.ledger.messages(execution_id=execution_id)
    ):
        assert time.monotonic() < deadline, f"no message says {text!r}"
        time.sleep(0.1)


@pytest.mark.parametrize(
    "at",
    ["metric 1", "enter publish_outcome", "leave publish_outcome"],
)
def test_an_execution_that_was_killed_and_went_on_is_told_like_any_other(site: Site, tmp_path: Path, at: str) -> None:
    submission = site.submission(data=write_images(tmp_path / "images"))
    assert site.submit(submission, **doom(tmp_path / "doom", at=at, kill="self")).returncode == -9
    before = messages(site, submission)
    done = site.submit(submission)
    assert done.returncode == 0, done.stderr

    found = messages(site, submission)

    assert found[: len(before)] == before
    assert [one["status"] for one in bodies(found, "task.status.update")] == [0, 1, 3]
    assert len(bodies(found, "model.registered")) == 1
    require_every_line_once(site, submission, found)


def test_many_machines_ledger_is_told_the_same(tmp_path: Path, postgres_url: str) -> None:
    site = Site(settings_at(tmp_path / "home", MTR_DATABASE_URL=postgres_url))
    submission = site.submission(data=write_images(tmp_path / "images"))
    done = site.submit(submission)
    assert done.returncode == 0, done.stderr

    found = messages(site, submission)

    assert [one["status"] for one in bodies(found, "task.status.update")] == [0, 1, 3]
    assert found[-1].kind == "model.registered"
    require_every_line_once(site, submission, found)
    site.require_one_clean_success(submission.execution_id)


def test_a_run_of_ones_own_is_told_to_nobody(site: Site, tmp_path: Path) -> None:
    data = write_images(tmp_path / "images")
    done = subprocess.run(
        [sys.executable, "-m", "services.cli", "run", ASSETS / "quick_package", "--data", data, "--memory", "1GiB"],
        env=site.environment(),
        cwd=ASSETS.parents[1],
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr

    with Installation.open(site.settings) as installation:
        assert installation.ledger.messages() == ()
