"""`mtr executions`: what the ledger knows, in the shapes that scripts rely on."""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from typer.testing import CliRunner

from contracts.errors import OutOfMemoryError, UsageError
from contracts.references import Pinned
from runtime.execution.journal import Journal
from runtime.installation import Installation
from runtime.ledger import Owner
from services.cli.execution_views import exit_code
from services.cli.executions import read_moment
from services.cli.main import app
from tests.assets.submissions import submission

runner = CliRunner()

SHAPE = {
    "execution_id", "state", "stage", "error", "result", "artifacts", "model", "workspace_cleaned", "ui_url", "timings",
}  # fmt: skip
REPORT = b'{"items": 6}'
OUT_OF_MEMORY = OutOfMemoryError("2 GiB reached", hint="use --memory 8GiB").to_document()


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.setenv("MTR_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    with Installation.open() as installation:
        yield installation


def accept(here, **changes) -> str:
    return here.ledger.accept(submission(**changes), label="digits 0.1.0 on pets").execution.execution_id


def result(execution_id: str, status: str, error: dict | None = None) -> dict:
    return {
        "protocol_version": "training-result/v1",
        "execution_id": execution_id,
        "status": status,
        "metrics": {"accuracy": 0.97} if status == "succeeded" else {},
        "error": error,
    }


def fail(here, execution_id: str, error: dict, state: str = "failed") -> None:
    here.ledger.finish(
        execution_id, state=state, result=result(execution_id, state), error=error, artifacts=[], model=None
    )


@pytest.fixture
def succeeded(here) -> str:
    execution_id = accept(here)
    sha256 = hashlib.sha256(REPORT).hexdigest()
    pinned = Pinned(
        "default", f"training-code-runtime/executions/{execution_id}/{sha256}/report.json", sha256, len(REPORT)
    )
    here.store.publish_bytes(REPORT, pinned.bucket, pinned.key)
    here.ledger.enter_stage(execution_id, "train")
    artifact = {
        "path": "out/report.json",
        "role": "report",
        "format": "json",
        "size_bytes": len(REPORT),
        "sha256": sha256,
    }
    here.ledger.finish(
        execution_id,
        state="succeeded",
        result=result(execution_id, "succeeded"),
        error=None,
        artifacts=[{"artifact": artifact, "object": pinned.to_document()}],
        model=None,
    )
    return execution_id


def executions(*arguments: object):
    answered = runner.invoke(app, ["executions", *map(str, arguments), "--json"])
    return answered.exit_code, json.loads(answered.stdout)


def test_show_has_the_shape_that_scripts_rely_on(succeeded) -> None:
    code, document = executions("show", succeeded)
    assert code == 0
    assert document.keys() == SHAPE
    assert document["state"] == "succeeded"
    assert document["error"] is None
    assert document["timings"].keys() == {"train"}


def test_the_beginning_of_an_id_is_enough(succeeded) -> None:
    assert executions("show", succeeded[:8])[1]["execution_id"] == succeeded


def test_an_unknown_id_is_not_found() -> None:
    code, document = executions("show", "7c2e91d0")
    assert code == 2
    assert document["error"]["code"] == "not_found"


def test_showing_a_failure_is_no_failure(here) -> None:
    execution_id = accept(here)
    fail(here, execution_id, OUT_OF_MEMORY)
    code, document = executions("show", execution_id)
    assert code == 0
    assert document["error"] == OUT_OF_MEMORY


def test_people_read_the_error_with_its_next_action(here) -> None:
    execution_id = accept(here)
    fail(here, execution_id, OUT_OF_MEMORY)
    shown = runner.invoke(app, ["executions", "show", execution_id]).stdout
    assert "out_of_memory: 2 GiB reached" in shown
    assert "→ use --memory 8GiB" in shown


def test_people_read_every_attempt(here) -> None:
    execution_id = accept(here)
    attempt = here.ledger.begin_attempt(execution_id)
    record = {"peak_memory_bytes": 2**30, "isolation": {"network": "isolated"}}
    here.ledger.end_attempt(
        execution_id, attempt.number, outcome="killed", record=record, paid_seconds=61.0, training_finished=False
    )
    shown = runner.invoke(app, ["executions", "show", execution_id]).stdout
    assert "killed" in shown
    assert "1 min 1 s" in shown
    assert "1.0 GiB" in shown


def test_list_has_the_newest_first(here) -> None:
    ids = [accept(here) for _ in range(3)]
    code, document = executions("list")
    assert code == 0
    assert [one["execution_id"] for one in document["executions"]] == ids[::-1]
    assert document["executions"][0]["label"] == "digits 0.1.0 on pets"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "found"),
    [
        (("--state", "failed"), 1),
        (("--state", "queued"), 1),
        (("--package", "digits@0.1.0"), 2),
        (("--package", "other"), 0),
        (("--since", "1h"), 2),
        (("--since", "2000-01-01"), 2),
        (("--since", "2999-01-01"), 0),
        (("--task", "1"), 2),
        (("--limit", "1"), 1),
    ],
)
def test_list_can_be_narrowed(here, options: tuple[str, str], found: int) -> None:
    fail(here, accept(here), OUT_OF_MEMORY)
    accept(here)
    assert len(executions("list", *options)[1]["executions"]) == found


@pytest.mark.parametrize("options", [("--state", "lost"), ("--since", "soon"), ("--limit", "0")])
def test_a_filter_that_means_nothing_is_a_usage_error(options: tuple[str, str]) -> None:
    code, document = executions("list", *options)
    assert code == 2
    assert document["error"]["code"] == "usage"


def test_since_a_while_ago_is_relative_to_now() -> None:
    assert abs(datetime.now(UTC) - timedelta(hours=6) - read_moment("6h")) < timedelta(minutes=1)


def test_since_what_is_no_time_is_refused() -> None:
    with pytest.raises(UsageError, match="'soon'"):
        read_moment("soon")


def test_logs_answers_what_the_journal_has(here, succeeded) -> None:
    with Journal.of(here.settings.executions_root, succeeded) as journal:
        journal.append("stage", stage="train", state="entered")
        journal.append("phase", phase="training", message="counting")
        journal.append("metric", split="val", epoch=1, step=None, metrics={"accuracy": 0.5})
        journal.append("output", text="[bold]hello[/bold]")
    code, document = executions("logs", succeeded)
    assert code == 0
    assert document["execution_id"] == succeeded
    assert [entry["kind"] for entry in document["entries"]] == ["stage", "phase", "metric", "output"]


def test_logs_may_be_cut_to_the_last(here, succeeded) -> None:
    with Journal.of(here.settings.executions_root, succeeded) as journal:
        for number in range(5):
            journal.append("log", level="info", message=str(number))
    assert [entry["message"] for entry in executions("logs", succeeded, "--tail", 2)[1]["entries"]] == ["3", "4"]


def test_people_read_logs_as_they_were_printed(here, succeeded) -> None:
    with Journal.of(here.settings.executions_root, succeeded) as journal:
        journal.append("output", text="[bold]hello[/bold]")
        journal.append("metric", split="val", epoch=1, step=None, metrics={"accuracy": 0.5})
    shown = runner.invoke(app, ["executions", "logs", succeeded]).stdout
    assert "| [bold]hello[/bold]" in shown
    assert "epoch 1  val  accuracy 0.5" in shown


def test_following_an_ended_execution_shows_it_and_ends(here, succeeded) -> None:
    with Journal.of(here.settings.executions_root, succeeded) as journal:
        journal.append("log", level="info", message="done")
    answered = runner.invoke(app, ["executions", "logs", succeeded, "--follow"])
    assert answered.exit_code == 0
    assert "info: done" in answered.stdout


def test_an_execution_without_a_journal_has_no_entries(succeeded) -> None:
    assert executions("logs", succeeded)[1]["entries"] == []


def test_artifacts_lists_what_is_stored(succeeded) -> None:
    code, document = executions("artifacts", succeeded)
    assert code == 0
    assert document.keys() == {"execution_id", "artifacts"}
    assert [entry.keys() for entry in document["artifacts"]] == [{"artifact", "object"}]


def test_artifacts_can_be_written_out(succeeded, tmp_path) -> None:
    assert executions("artifacts", succeeded, "-o", tmp_path / "here")[0] == 0
    assert (tmp_path / "here" / "out" / "report.json").read_bytes() == REPORT


def test_cancelling_what_has_ended_changes_nothing(succeeded) -> None:
    answered = runner.invoke(app, ["executions", "cancel", succeeded, "--json"])
    assert answered.exit_code == 0
    assert json.loads(answered.stdout)["state"] == "succeeded"
    assert "nothing to cancel" in answered.stderr


def test_what_has_not_ended_cannot_be_retried(here) -> None:
    code, document = executions("retry", accept(here))
    assert code == 4
    assert document["error"]["code"] == "conflict"
    assert "executions cancel" in document["error"]["hint"]


def test_a_retry_that_policy_refuses_is_not_accepted(here, succeeded, monkeypatch) -> None:
    monkeypatch.setenv("MTR_EXECUTION_ENABLED", "false")
    code, document = executions("retry", succeeded)
    assert code == 3
    assert "model-training-runtime.execution.enabled is false" in document["error"]["message"]
    assert len(here.ledger.list()) == 1


def test_a_retry_with_a_size_that_is_none_is_a_usage_error(here, succeeded) -> None:
    code, document = executions("retry", succeeded, "--memory", "plenty")
    assert code == 2
    assert document["error"]["code"] == "usage"
    assert len(here.ledger.list()) == 1


def test_resuming_what_has_ended_shows_it_with_its_own_exit_code(here) -> None:
    execution_id = accept(here)
    fail(here, execution_id, OUT_OF_MEMORY)
    code, document = executions("resume", execution_id)
    assert code == 1
    assert document["error"]["code"] == "out_of_memory"


@pytest.mark.parametrize(
    ("code", "trained", "expected"),
    [
        ("admission_refused", False, 2),
        ("policy_refused", False, 3),
        ("package_raised", True, 1),
        ("digest_mismatch", True, 1),
        ("digest_mismatch", False, 2),
        ("onnx_invalid", True, 1),
        ("a_code_of_a_later_version", True, 1),
    ],
)
def test_a_failure_is_1_once_the_package_ran(here, code: str, trained: bool, expected: int) -> None:  # noqa: FBT001
    execution_id = accept(here)
    if trained:
        attempt = here.ledger.begin_attempt(execution_id).number
        here.ledger.end_attempt(
            execution_id, attempt, outcome=code, record={}, paid_seconds=1.0, training_finished=False
        )
    fail(here, execution_id, {"code": code, "message": "m", "hint": "h", "context": {}})
    assert exit_code(here.ledger.get(execution_id), here.ledger.attempts(execution_id)) == expected


def test_a_cancelled_execution_is_130(here) -> None:
    execution_id = accept(here)
    fail(here, execution_id, {"code": "cancelled", "message": "m", "hint": "h", "context": {}}, state="cancelled")
    assert exit_code(here.ledger.get(execution_id), ()) == 130


def test_people_read_in_which_stage_it_failed(here) -> None:
    execution_id = accept(here)
    here.ledger.enter_stage(execution_id, "train")
    here.ledger.enter_stage(execution_id, "publish_outcome")
    told = {"stage": "train", "error_type": "out_of_memory", "message": "2 GiB reached", "retryable": False}
    here.ledger.finish(
        execution_id,
        state="failed",
        result=result(execution_id, "failed", told),
        error=OUT_OF_MEMORY,
        artifacts=[],
        model=None,
    )
    assert "(stage train)" in runner.invoke(app, ["executions", "show", execution_id]).stdout


def test_an_execution_whose_process_is_gone_is_not_shown_as_worked_on(here) -> None:
    execution_id = accept(here)
    here.ledger.claim(execution_id, replace(Owner.here(), process_started=1))
    shown = runner.invoke(app, ["executions", "show", execution_id])
    assert f"nobody: process {os.getpid()} on" in shown.stdout
    assert f"mtr executions resume {execution_id[:8]}" in shown.stdout
    assert "nobody" in runner.invoke(app, ["executions", "show", execution_id, "--json"]).stderr


def test_an_execution_that_is_worked_on_is_just_running(here) -> None:
    execution_id = accept(here)
    here.ledger.claim(execution_id, Owner.here())
    assert "nobody" not in runner.invoke(app, ["executions", "show", execution_id]).stdout


def test_longer_ago_than_there_were_years_is_everything(here) -> None:
    execution_id = accept(here)
    assert [one["execution_id"] for one in executions("list", "--since", "99999999d")[1]["executions"]] == [
        execution_id
    ]


@pytest.mark.parametrize("option", ["--task", "--limit"])
def test_a_number_that_no_database_holds_is_refused_with_the_option_named(option: str) -> None:
    code, document = executions("list", option, 10**30)
    assert (code, document["error"]["code"]) == (2, "usage")
    assert option in document["error"]["message"]
