"""`mtr` as people and scripts use it: a process of its own, on an installation of its own, with nothing configured."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

import pytest

from contracts.base import validate
from tests.assets.cli_inputs import write_class_folders, write_package
from tests.assets.mtr_program import Mtr

if TYPE_CHECKING:
    from pathlib import Path

    from tests.assets.mtr_program import Answered

pytestmark = pytest.mark.service

SHAPE = {
    "execution_id", "state", "stage", "error", "result", "artifacts", "model", "workspace_cleaned", "ui_url", "timings",
}  # fmt: skip
STAGES = {
    "validate_submission", "check_package", "pin_dataset", "admit_execution", "materialize_inputs", "train",
    "verify_artifacts", "persist_artifacts", "register_model", "publish_outcome",
}  # fmt: skip

SLOW = """
import time


def train(context, report):
    report(event_type="phase", phase="waiting")
    time.sleep(600)
"""
RAISING = """
def train(context, report):
    raise ValueError("no such luck")
"""


@pytest.fixture(scope="module")
def mtr(tmp_path_factory) -> Mtr:
    return Mtr(tmp_path_factory.mktemp("installation") / "home")


@pytest.fixture(scope="module")
def data(tmp_path_factory) -> Path:
    return write_class_folders(tmp_path_factory.mktemp("data") / "pets")


@pytest.fixture(scope="module")
def kinds(mtr, data) -> dict[str, Any]:
    mtr("dataset", "import", data, "--name", "pets")
    shown = mtr("dataset", "show", "pets").document
    return {name: shown[name] for name in ("task_kind", "data_modalities", "annotation_kinds")}


@pytest.fixture(scope="module")
def counter(tmp_path_factory, kinds) -> Path:
    return write_package(tmp_path_factory.mktemp("package") / "counter", supported_tasks=[kinds])


@pytest.fixture(scope="module")
def first_run(mtr, counter, data) -> Answered:
    return mtr("run", counter, "--data", data, "--memory", "1GiB", "--param", "epochs=2")


def test_a_run_ends_with_the_document_that_scripts_rely_on(first_run) -> None:
    assert first_run.code == 0, first_run.stderr
    assert first_run.document.keys() == SHAPE
    assert first_run.document["state"] == "succeeded"
    assert first_run.document["error"] is None
    assert first_run.document["workspace_cleaned"] is True
    assert first_run.document["timings"].keys() == STAGES


def test_the_result_of_a_run_is_a_valid_document(first_run) -> None:
    assert validate("result", first_run.document["result"]).metrics == {"accuracy": 0.5}


def test_the_artifacts_of_a_run_can_be_fetched(mtr, first_run, tmp_path) -> None:
    (entry,) = first_run.document["artifacts"]
    assert entry["artifact"]["path"] == "report.json"
    mtr("executions", "artifacts", first_run.document["execution_id"], "-o", tmp_path)
    assert json.loads((tmp_path / "report.json").read_text()) == {"items": 6}


def test_a_run_tells_phases_and_metrics_and_what_it_runs_on(first_run) -> None:
    assert "training: counting" in first_run.stderr
    assert "accuracy 0.5" in first_run.stderr
    assert "1.0 GiB memory" in first_run.stderr


def test_a_second_run_says_that_nothing_was_new(mtr, counter, data, first_run) -> None:
    again = mtr("run", counter, "--data", data, "--memory", "1GiB")
    assert again.code == 0
    assert "nothing was new" in again.stderr
    assert again.document["execution_id"] != first_run.document["execution_id"]


def test_an_edited_package_runs_without_a_new_version(mtr, tmp_path, kinds, first_run) -> None:
    edited = write_package(tmp_path / "counter", supported_tasks=[kinds], name="Edited")
    assert mtr("run", edited, "--data", "pets", "--memory", "1GiB").code == 0
    assert mtr("package", "list").document == {"packages": []}


def test_parameters_that_break_the_schema_run_nothing(mtr, counter, first_run) -> None:
    before = mtr("executions", "list").document
    refused = mtr("run", counter, "--data", "pets", "--param", "epochs=none")
    assert refused.code == 2
    assert refused.document["error"]["code"] == "admission_refused"
    assert refused.document["error"]["context"]["violations"][0]["path"] == "parameters.epochs"
    assert mtr("executions", "list").document == before


def test_policy_refuses_with_3_and_names_the_setting(mtr, counter) -> None:
    refused = mtr("run", counter, "--data", "pets", MTR_EXECUTION_ENABLED="false")
    assert refused.code == 3
    assert "model-training-runtime.execution.enabled is false" in refused.document["error"]["message"]


def test_an_unknown_data_set_is_refused(mtr, counter) -> None:
    refused = mtr("run", counter, "--data", "trucks")
    assert refused.code == 2
    assert refused.document["error"]["code"] == "not_found"


def test_a_store_that_does_not_answer_is_5(mtr, counter, tmp_path) -> None:
    away = mtr(
        "run", counter, "--data", "pets",
        MTR_HOME=str(tmp_path / "home"), S3_ENDPOINT="http://127.0.0.1:9", S3_ACCESS_KEY="a", S3_SECRET_KEY="b",
    )  # fmt: skip
    assert away.code == 5
    assert away.document["error"]["code"] == "storage_unavailable"


def test_a_package_that_raises_is_1_with_the_execution_s_document(mtr, tmp_path, kinds) -> None:
    broken = write_package(tmp_path / "broken", supported_tasks=[kinds], train=RAISING)
    failed = mtr("run", broken, "--data", "pets", "--memory", "1GiB")
    assert failed.code == 1
    assert failed.document.keys() == SHAPE
    assert failed.document["state"] == "failed"
    assert failed.document["error"]["code"] == "package_raised"
    assert "no such luck" in failed.document["error"]["message"]
    assert failed.document["workspace_cleaned"] is True


def test_an_interrupt_cancels_and_leaves_with_130(mtr, tmp_path, kinds) -> None:
    slow = write_package(tmp_path / "slow", supported_tasks=[kinds], train=SLOW)
    process = mtr.start("run", slow, "--data", "pets", "--memory", "1GiB", "--json")
    said = ""
    while "waiting" not in said:
        line = process.stderr.readline()
        assert line, said
        said += line
    process.send_signal(signal.SIGINT)
    cancelled = mtr.ended(process)
    assert cancelled.code == 130
    assert cancelled.document["state"] == "cancelled"
    assert cancelled.document["result"]["status"] == "cancelled"
    assert cancelled.document["workspace_cleaned"] is True


@pytest.fixture
def submission(mtr, first_run) -> dict[str, Any]:
    """The document of the first run under a new id, as the platform would send it."""
    shown = json.loads(
        subprocess.run(
            [sys.executable, "-c", SUBMISSION_OF, first_run.document["execution_id"]],
            env=mtr.environment, check=True, capture_output=True, text=True,
        ).stdout
    )  # fmt: skip
    identity = f"{time.time_ns():032x}"[-12:]
    return {**shown, "execution_id": f"00000000-0000-4000-8000-{identity}"}


SUBMISSION_OF = """
import json, sys
from runtime.installation import Installation
with Installation.open() as here:
    print(json.dumps(here.ledger.get(sys.argv[1]).submission))
"""


def test_a_submission_is_executed_once_and_answered_again(mtr, submission, tmp_path) -> None:
    file = tmp_path / "submission.json"
    file.write_text(json.dumps(submission))
    first = mtr("submit", file)
    assert first.code == 0, first.stderr
    assert first.document["execution_id"] == submission["execution_id"]
    again = mtr("submit", file)
    assert again.document == first.document
    assert "is known: succeeded" in again.stderr


def test_another_submission_under_the_same_id_is_a_conflict(mtr, submission, first_run, tmp_path) -> None:
    file = tmp_path / "submission.json"
    changed = {**submission, "execution_id": first_run.document["execution_id"], "parameters": {}}
    file.write_text(json.dumps(changed))
    refused = mtr("submit", file)
    assert refused.code == 4
    assert "differs at parameters" in refused.document["error"]["message"]


def test_a_retry_is_a_new_execution_with_other_resources(mtr, first_run) -> None:
    retried = mtr("executions", "retry", first_run.document["execution_id"][:13], "--memory", "2GiB")
    assert retried.code == 0, retried.stderr
    assert retried.document["execution_id"] != first_run.document["execution_id"]
    listed = {one["execution_id"]: one for one in mtr("executions", "list").document["executions"]}
    assert listed[retried.document["execution_id"]]["retry_of"] == first_run.document["execution_id"]


def test_a_detached_run_is_answered_at_once_and_ends_by_itself(mtr, counter) -> None:
    detached = mtr("run", counter, "--data", "pets", "--memory", "1GiB", "--detach")
    assert detached.code == 0
    assert detached.document.keys() == SHAPE
    assert detached.document["result"] is None  # answered before its end
    followed = mtr("executions", "logs", detached.document["execution_id"], "--follow")
    assert any(entry["kind"] == "metric" for entry in followed.document["entries"])
    assert mtr("executions", "show", detached.document["execution_id"]).document["state"] == "succeeded"


def test_a_script_managed_package_runs_once_policy_allows_it(mtr, tmp_path, kinds) -> None:
    package = write_package(tmp_path / "own", supported_tasks=[kinds], input_modes=["script_managed"])
    assert mtr("run", package, "--memory", "1GiB").code == 3
    allowed = mtr("run", package, "--memory", "1GiB", "--class-names", "a,b", MTR_ALLOW_SCRIPT_MANAGED_DATA="true")
    assert allowed.code == 0, allowed.stderr


def test_doctor_finds_nothing_wrong_here(mtr) -> None:
    found = mtr("doctor")
    assert found.code == 0, found.document
    assert {check["name"] for check in found.document["checks"]} >= {"home", "ledger", "object store", "runtime base"}
