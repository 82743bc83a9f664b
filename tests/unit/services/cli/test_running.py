"""`mtr run` and `mtr submit` around an execution: what they accept, refuse, say and answer."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from contracts.errors import PackageRaisedError
from runtime.installation import Installation
from services import orchestrator
from services.cli.main import app
from tests.assets.cli_inputs import write_class_folders, write_package
from tests.assets.submissions import submission_document

runner = CliRunner()

SHAPE = {
    "execution_id", "state", "stage", "error", "result", "artifacts", "model", "workspace_cleaned", "ui_url", "timings",
}  # fmt: skip


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.setenv("MTR_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    with Installation.open() as installation:
        yield installation


@pytest.fixture
def data(tmp_path):
    return write_class_folders(tmp_path / "pets")


@pytest.fixture
def counter(tmp_path, data):
    runner.invoke(app, ["dataset", "import", str(data), "--name", "pets"])
    shown = json.loads(runner.invoke(app, ["dataset", "show", "pets", "--json"]).stdout)
    kinds = {name: shown[name] for name in ("task_kind", "data_modalities", "annotation_kinds")}
    return write_package(tmp_path / "counter", supported_tasks=[kinds])


@pytest.fixture
def ends(here, monkeypatch):
    """Makes the orchestrator give every execution this end; answers what it was asked to run."""

    asked: list[str] = []

    def ending(state: str = "succeeded", error=None):
        def work(_here, execution_id: str, **_: object) -> None:
            asked.append(execution_id)
            here.ledger.enter_stage(execution_id, "train")
            result = {"protocol_version": "training-result/v1", "execution_id": execution_id, "status": state}
            document = error.to_document() if error else None
            here.ledger.finish(execution_id, state=state, result=result, error=document, artifacts=[], model=None)

        monkeypatch.setattr(orchestrator, "run_embedded", work)
        return asked

    return ending


def mtr(*arguments: object, stdin: str | None = None):
    answered = runner.invoke(app, [*map(str, arguments), "--json"], input=stdin)
    return answered.exit_code, json.loads(answered.stdout), answered.stderr


def test_run_answers_the_execution(counter, data, ends) -> None:
    asked = ends()
    code, document, _ = mtr("run", counter, "--data", data)
    assert code == 0
    assert document.keys() == SHAPE
    assert asked == [document["execution_id"]]


def test_run_is_known_by_what_it_runs_on_what(here, counter, ends) -> None:
    ends()
    mtr("run", counter, "--data", "pets")
    assert here.ledger.list()[0].label == "counter 0.1.0 on pets"


def test_run_shows_what_it_fills_in_before_it_starts(counter, ends) -> None:
    ends()
    said = mtr("run", counter, "--data", "pets", "--cpus", "2", "--memory", "3GiB", "--timeout", "30m")[2]
    assert "cpu, 2 cores, 3.0 GiB memory, 30 min 0 s" in said


def test_run_says_where_nothing_was_new(counter, data, ends) -> None:
    ends()
    first = mtr("run", counter, "--data", data)[2]
    second = mtr("run", counter, "--data", data)[2]
    assert ("nothing was new" in first, "nothing was new" in second) == (False, True)


def test_each_run_serves_a_task_of_its_own(here, counter, ends) -> None:
    ends()
    mtr("run", counter, "--data", "pets")
    mtr("run", counter, "--data", "pets")
    assert len({one.task_id for one in here.ledger.list()}) == 2


def test_a_model_is_named_after_the_package_unless_said_otherwise(here, counter, ends) -> None:
    ends()
    mtr("run", counter, "--data", "pets")
    mtr("run", counter, "--data", "pets", "--model-name", "pets-net")
    assert [one.model_name for one in here.ledger.list()] == ["pets-net", "counter"]


def test_a_failed_run_is_1_with_the_whole_document(counter, ends) -> None:
    fault = PackageRaisedError("ValueError at train.py:3", hint="fix it")
    ends("failed", fault)
    code, document, _ = mtr("run", counter, "--data", "pets")
    assert code == 1
    assert document.keys() == SHAPE
    assert document["error"] == fault.to_document()


@pytest.mark.parametrize(
    ("options", "error"),
    [
        (("--data", "pets", "--param", "epochs=none"), "admission_refused"),
        (("--data", "pets", "--param", "epochs"), "usage"),
        (("--data", "pets", "--memory", "lots"), "usage"),
        (("--data", "pets", "--gpus", "1", "--device", "cpu"), "usage"),
        (("--data", "pets", "--cpus", "257"), "usage"),
        (("--data", "pets", "--timeout", "8d"), "usage"),
        (("--data", "pets", "--params", "gone.json"), "not_found"),
        (("--data", "pets", "--model", "gone"), "not_found"),
        (("--data", "pets", "--model-name", "not a name"), "admission_refused"),
        (("--data", "pets", "--task-kind", "detection"), "admission_refused"),
        (("--data", "trucks"), "not_found"),
    ],
)
def test_what_is_refused_runs_nothing(here, counter, ends, options: tuple[str, ...], error: str) -> None:
    asked = ends()
    code, document, _ = mtr("run", counter, *options)
    assert code == 2
    assert document["error"]["code"] == error
    assert asked == []
    assert here.ledger.list() == ()


def test_gpus_that_this_machine_has_not_are_refused_before_anything_is_recorded(
    here, counter, ends, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = ends()
    monkeypatch.setenv("MTR_GPUS", "0")

    code, document, _ = mtr("run", counter, "--data", "pets", "--gpus", "1")

    assert (code, document["error"]["code"]) == (3, "gpu_unavailable")
    assert asked == []


def test_policy_is_asked_before_data_is_uploaded(here, counter, tmp_path, ends, monkeypatch) -> None:
    ends()
    monkeypatch.setenv("MTR_EXECUTION_ENABLED", "false")
    code, document, _ = mtr("run", counter, "--data", write_class_folders(tmp_path / "other", ("a", "b"), each=2))
    assert code == 3
    assert document["error"]["code"] == "policy_refused"
    assert len(list((tmp_path / "home" / "store" / "datasets").rglob("*.png"))) == 6


def test_wrong_settings_are_refused_with_the_key_named(counter, monkeypatch) -> None:
    monkeypatch.setenv("MTR_EXECUTION_ENABLED", "yes")
    code, document, _ = mtr("run", counter, "--data", "pets")
    assert code == 2
    assert "MTR_EXECUTION_ENABLED" in document["error"]["message"]


def test_people_read_how_it_ended(counter, ends) -> None:
    ends("failed", PackageRaisedError("ValueError at train.py:3", hint="fix it"))
    answered = runner.invoke(app, ["run", str(counter), "--data", "pets"])
    assert answered.exit_code == 1
    assert "package_raised: ValueError at train.py:3" in answered.stdout
    assert "→ fix it" in answered.stdout


def test_submit_answers_the_execution_of_the_document(ends) -> None:
    ends()
    document = submission_document()
    code, answered, _ = mtr("submit", "-", stdin=json.dumps(document))
    assert code == 0
    assert answered["execution_id"] == document["execution_id"]
    assert answered.keys() == SHAPE


def test_the_same_submission_is_answered_without_running_again(ends) -> None:
    asked = ends()
    document = submission_document()
    first = mtr("submit", "-", stdin=json.dumps(document))
    again = mtr("submit", "-", stdin=json.dumps({**document, "message_id": submission_document()["message_id"]}))
    assert again[:2] == first[:2]
    assert len(asked) == 1


def test_another_submission_of_the_same_id_is_a_conflict(ends) -> None:
    ends()
    document = submission_document()
    mtr("submit", "-", stdin=json.dumps(document))
    code, refused, _ = mtr("submit", "-", stdin=json.dumps({**document, "resources": {"memory_bytes": 2048}}))
    assert code == 4
    assert "differs at resources.memory_bytes" in refused["error"]["message"]


def test_an_invalid_submission_is_refused_with_every_path(ends) -> None:
    asked = ends()
    code, refused, _ = mtr(
        "submit", "-", stdin=json.dumps(submission_document(colour="red", resources={"cpu_cores": 0}))
    )
    assert code == 2
    paths = {violation["path"] for violation in refused["error"]["context"]["violations"]}
    assert paths == {"colour", "resources.cpu_cores"}
    assert asked == []


def test_submit_asks_policy_first(here, ends) -> None:
    ends()
    document = submission_document(runtime={"id": "pytorch-2.5-cu124"})
    code, refused, _ = mtr("submit", "-", stdin=json.dumps(document))
    assert code == 3
    assert "pytorch-2.5-cu124" in refused["error"]["message"]
    assert here.ledger.list() == ()


def test_a_forgotten_data_set_is_not_blamed_on_the_policy(counter, ends) -> None:
    asked = ends()
    code, document, _ = mtr("run", counter)
    assert (code, document["error"]["code"], asked) == (2, "usage", [])
    assert "--data" in document["error"]["hint"]


def test_resuming_from_nothing_is_refused(counter, ends) -> None:
    asked = ends()
    code, document, _ = mtr("run", counter, "--data", "pets", "--resume")
    assert (code, document["error"]["code"], asked) == (2, "usage", [])
    assert "--model" in document["error"]["message"]
