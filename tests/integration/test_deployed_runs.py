"""Executions on a real Prefect server with real workers: from the form, to every end, with what the UI shows of them."""

from __future__ import annotations

import os
import signal
import time
from typing import TYPE_CHECKING, Any

import pytest
from prefect.client.schemas.actions import DeploymentUpdate, WorkPoolCreate
from prefect.workers.process import ProcessWorker

from blocks.configuration import BLOCK_NAME
from blocks.execution_policy import ExecutionPolicy
from contracts.errors import AttemptLostError
from runtime.handover import AttemptEnd
from runtime.installation import Installation
from services import orchestrator
from tasks.stage import STAGES
from tests.assets.executions import processes_with, trainings_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from prefect.client.schemas.objects import FlowRun

    from tests.assets.prefect_stack import PrefectStack

pytestmark = pytest.mark.service

SHOWN = {"what-will-run", "package", "data", "admission", "model-card", "outcome"}
SHOWN_BY_THE_CHILD = {"inputs", "inputs-progress", "training", "artifacts", "stored"}
FORM = "run-package/form"


@pytest.fixture(scope="module")
def package(prefect_stack: PrefectStack) -> str:
    return prefect_stack.register()


@pytest.fixture(scope="module")
def from_the_form(prefect_stack: PrefectStack, package: str) -> FlowRun:
    return prefect_stack.run(FORM, package=package, data="images", parameters={"epochs": 3}, cpus=1, memory="1GiB")


def wait_for_training(stack: PrefectStack, execution_id: str) -> None:
    deadline = time.monotonic() + 120
    while not trainings_of(execution_id):
        assert time.monotonic() < deadline, stack.site.execution(execution_id)
        time.sleep(0.1)


def test_a_run_from_the_form_ends_with_a_registered_model(prefect_stack: PrefectStack, from_the_form: FlowRun) -> None:
    assert from_the_form.state.is_completed(), from_the_form.state.message
    prefect_stack.site.require_one_clean_success(str(from_the_form.id))


def test_runs_have_names_that_people_recognise(prefect_stack: PrefectStack, from_the_form: FlowRun) -> None:
    (child,) = prefect_stack.children(from_the_form)
    assert from_the_form.name == "quick 1.0.0 on images"
    assert child.name == "quick 1.0.0 on images, attempt 1"


def test_parent_and_child_show_the_ten_stages(prefect_stack: PrefectStack, from_the_form: FlowRun) -> None:
    (child,) = prefect_stack.children(from_the_form)
    shown = prefect_stack.task_names(from_the_form) | prefect_stack.task_names(child)
    assert shown == {*STAGES, "resolve_form"}


def test_every_stage_leaves_its_artifact(prefect_stack: PrefectStack, from_the_form: FlowRun) -> None:
    (child,) = prefect_stack.children(from_the_form)
    assert set(prefect_stack.artifacts(from_the_form)) == SHOWN
    assert set(prefect_stack.artifacts(child)) == SHOWN_BY_THE_CHILD


def test_the_training_shows_its_metrics_and_a_curve(prefect_stack: PrefectStack, from_the_form: FlowRun) -> None:
    (child,) = prefect_stack.children(from_the_form)
    text = prefect_stack.artifacts(child)["training"].data
    assert "| val accuracy | 0.75 | epoch 3 |" in text
    assert "data:image/png;base64," in text


def test_the_ledger_has_the_time_of_every_stage(prefect_stack: PrefectStack, from_the_form: FlowRun) -> None:
    assert set(prefect_stack.site.execution(str(from_the_form.id)).timings) == set(STAGES)


def test_what_the_package_printed_is_in_the_store(prefect_stack: PrefectStack, from_the_form: FlowRun) -> None:
    with Installation.open(prefect_stack.site.settings) as installation:
        key = f"training-code-runtime/executions/{from_the_form.id}/attempts/1/output.log"
        assert installation.store.read_small("default", key, max_bytes=1000) == b"epoch 1\nepoch 2\nepoch 3\n"


def test_a_package_that_raises_names_the_state_of_both_runs(prefect_stack: PrefectStack, package: str) -> None:
    run = prefect_stack.run(FORM, package=package, data="images", parameters={"fail": "no luck", "epochs": 1})

    (child,) = prefect_stack.children(run)
    assert (run.state.name, child.state.name) == ("PackageRaised", "PackageRaised")
    assert "ValueError: no luck" in run.state.message
    execution = prefect_stack.site.execution(str(run.id))
    assert (execution.state, execution.stage) == ("failed", "publish_outcome")
    assert execution.result["error"]["stage"] == "train"
    assert execution.workspace_cleaned is True


def test_a_run_cancelled_in_prefect_is_cancelled_in_the_ledger(prefect_stack: PrefectStack, package: str) -> None:
    run = prefect_stack.begin(
        FORM, package=package, data="images", parameters={"epochs": 600, "pause_seconds": 0.5}, cpus=1, memory="1GiB"
    )
    wait_for_training(prefect_stack, str(run.id))
    prefect_stack.cancel_in_prefect(run)
    ended = prefect_stack.end(run)

    assert ended.state.is_cancelled(), ended.state
    execution = prefect_stack.site.execution(str(run.id))
    assert (execution.state, execution.workspace_cleaned) == ("cancelled", True)
    with Installation.open(prefect_stack.site.settings) as installation:
        assert [one.outcome for one in installation.ledger.attempts(str(run.id))] == ["cancelled"]
    assert trainings_of(str(run.id)) == []


def test_an_execution_cancelled_from_the_command_line_ends_its_runs(prefect_stack: PrefectStack, package: str) -> None:
    run = prefect_stack.begin(
        FORM, package=package, data="images", parameters={"epochs": 600, "pause_seconds": 0.5}, cpus=1, memory="1GiB"
    )
    wait_for_training(prefect_stack, str(run.id))
    with prefect_stack.stack.as_client(), Installation.open(prefect_stack.site.settings) as installation:
        orchestrator.cancel(installation, str(run.id))
    ended = prefect_stack.end(run)

    assert ended.state.is_cancelled(), ended.state
    (child,) = prefect_stack.children(run)
    assert child.state.is_cancelled()
    assert prefect_stack.site.execution(str(run.id)).state == "cancelled"
    assert trainings_of(str(run.id)) == []


def test_an_accepted_execution_is_carried_out_by_a_worker_once(prefect_stack: PrefectStack) -> None:
    site = prefect_stack.site
    submission = site.submission(data=prefect_stack.data, epochs=1)
    with prefect_stack.stack.as_client(), Installation.open(site.settings) as installation:
        installation.ledger.accept(submission, label="quick 1.0.0 on images")
        first = orchestrator.run_deployed(installation, submission.execution_id)
        second = orchestrator.run_deployed(installation, submission.execution_id)

    assert first == second
    with prefect_stack.client() as client:
        ended = prefect_stack.end(client.read_flow_run(first))
    assert ended.state.is_completed(), ended.state.message
    site.require_one_clean_success(submission.execution_id)


def test_an_attempt_that_is_given_up_while_it_trains_keeps_nothing_of_what_it_makes(
    prefect_stack: PrefectStack, package: str
) -> None:
    run = prefect_stack.begin(
        FORM, package=package, data="images", parameters={"epochs": 2, "pause_seconds": 1.0}, cpus=1, memory="1GiB"
    )
    wait_for_training(prefect_stack, str(run.id))
    given_up = AttemptLostError("not heard of", hint="Another attempt follows.")
    with Installation.open(prefect_stack.site.settings) as installation:
        AttemptEnd(
            execution_id=str(run.id), attempt=1, outcome=given_up.code, stage="train", error=given_up.to_document()
        ).publish(installation.store)
    ended = prefect_stack.end(run, seconds=240)

    assert ended.state.is_completed(), ended.state.message
    assert [child.state.name for child in prefect_stack.children(run)].count("AttemptLost") == 1
    with Installation.open(prefect_stack.site.settings) as installation:
        attempts = installation.ledger.attempts(str(run.id))
        assert [(one.outcome, one.training_finished) for one in attempts] == [
            ("attempt_lost", False),
            ("succeeded", True),
        ]
    prefect_stack.site.require_one_clean_success(str(run.id))


def test_an_execution_cancelled_before_a_worker_takes_it_never_begins(prefect_stack: PrefectStack) -> None:
    submission = prefect_stack.site.submission(data=prefect_stack.data)
    with prefect_stack.stack.as_client(), Installation.open(prefect_stack.site.settings) as installation:
        installation.ledger.accept(submission, label="quick 1.0.0 on images")
        cancelled = orchestrator.cancel(installation, submission.execution_id)

    assert (cancelled.state, cancelled.error["code"]) == ("cancelled", "cancelled")


@pytest.fixture
def policy_off(prefect_stack: PrefectStack) -> Iterator[None]:
    """The operator switches execution off in the UI."""
    with prefect_stack.stack.as_client():
        before = ExecutionPolicy.load(BLOCK_NAME)
        ExecutionPolicy(execution_enabled=False).save(BLOCK_NAME, overwrite=True)
        yield
        before.save(BLOCK_NAME, overwrite=True)


@pytest.mark.usefixtures("policy_off")
def test_a_block_changed_in_the_ui_holds_for_the_next_run(prefect_stack: PrefectStack, package: str) -> None:
    run = prefect_stack.run(FORM, package=package, data="images")
    assert run.state.name == "PolicyRefused"
    assert "model-training-runtime.execution.enabled is false" in run.state.message


def test_a_pool_that_a_worker_creates_meanwhile_is_left_as_it_is(
    prefect_stack: PrefectStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = prefect_stack.site.settings.model_copy(update={"gpu_pool": "created-meanwhile"})
    template = ProcessWorker.get_default_base_job_template

    def created_meanwhile() -> dict[str, Any]:
        with prefect_stack.client() as client:
            client.create_work_pool(WorkPoolCreate(name="created-meanwhile", type="process", description="a worker's"))
        return template()

    monkeypatch.setattr(ProcessWorker, "get_default_base_job_template", created_meanwhile)
    with prefect_stack.client() as client:
        try:
            done = orchestrator.apply(settings)
            pool = client.read_work_pool("created-meanwhile")
        finally:
            client.delete_deployment(client.read_deployment_by_name("train-package/gpu").id)
            client.delete_work_pool("created-meanwhile")

    assert pool.description == "a worker's"
    assert ("create", "deployment", "train-package/gpu") in [(one.action, one.kind, one.name) for one in done]


def test_applying_again_changes_nothing(prefect_stack: PrefectStack) -> None:
    with prefect_stack.stack.as_client():
        differences = orchestrator.apply(prefect_stack.site.settings)
    assert {one.action for one in differences} == {"keep"}


def test_a_deployment_changed_by_hand_is_named_and_repaired(prefect_stack: PrefectStack) -> None:
    with prefect_stack.client() as client:
        found = client.read_deployment_by_name("pin-dataset/form")
        client.update_deployment(found.id, DeploymentUpdate(description="changed by hand"))
    with prefect_stack.stack.as_client():
        seen = orchestrator.apply(prefect_stack.site.settings, dry_run=True)
        done = orchestrator.apply(prefect_stack.site.settings)
        after = orchestrator.apply(prefect_stack.site.settings, dry_run=True)

    assert [(one.name, one.fields) for one in seen if one.action != "keep"] == [("pin-dataset/form", ("description",))]
    assert seen == done
    assert {one.action for one in after} == {"keep"}


def test_a_schedule_changed_by_hand_is_named_and_repaired(prefect_stack: PrefectStack) -> None:
    with prefect_stack.client() as client:
        found = client.read_deployment_by_name("reap-uploads/hourly")
        client.delete_deployment_schedule(found.id, found.schedules[0].id)
    with prefect_stack.stack.as_client():
        done = orchestrator.apply(prefect_stack.site.settings)
        after = orchestrator.apply(prefect_stack.site.settings, dry_run=True)

    assert [(one.name, one.fields) for one in done if one.action != "keep"] == [("reap-uploads/hourly", ("schedules",))]
    assert {one.action for one in after} == {"keep"}


def test_a_schedule_that_an_operator_paused_stays_paused(prefect_stack: PrefectStack) -> None:
    with prefect_stack.client() as client:
        found = client.read_deployment_by_name("reap-uploads/hourly")
        client.update_deployment_schedule(found.id, found.schedules[0].id, active=False)
        client.update_deployment(found.id, DeploymentUpdate(description="changed by hand"))
    with prefect_stack.stack.as_client():
        orchestrator.apply(prefect_stack.site.settings)

    with prefect_stack.client() as client:
        assert [one.active for one in client.read_deployment_by_name("reap-uploads/hourly").schedules] == [False]


def test_abandoned_uploads_are_reaped_by_the_scheduled_flow(prefect_stack: PrefectStack) -> None:
    abandoned = "training-code-runtime/uploads/0190b5a0-0000-7000-8000-000000000000"  # of July 2024
    with Installation.open(prefect_stack.site.settings) as installation:
        installation.store.publish_bytes(b"bytes", "default", f"{abandoned}/content")
        run = prefect_stack.run("reap-uploads/hourly")

        assert run.state.message == "1 abandoned uploads removed"
        assert list(installation.store.list("default", abandoned)) == []


def test_the_server_that_answers_is_found_well(prefect_stack: PrefectStack) -> None:
    with prefect_stack.stack.as_client():
        said = orchestrator.check(prefect_stack.site.settings)
    assert said == f"the Prefect server at {prefect_stack.stack.server.api_url} answers and has the deployments"


@pytest.mark.crash
@pytest.mark.timeout(600)
def test_a_run_whose_worker_is_gone_is_marked_crashed_and_the_parent_goes_on(
    prefect_stack: PrefectStack, package: str
) -> None:
    run = prefect_stack.begin(
        FORM, package=package, data="images", parameters={"epochs": 40, "pause_seconds": 1.0}, cpus=1, memory="1GiB"
    )
    ended_before = prefect_stack.run(FORM, package=package, data="images", parameters={"fail": "no luck", "epochs": 1})
    wait_for_training(prefect_stack, str(run.id))
    (child,) = prefect_stack.children(run)
    worker = next(one for one in prefect_stack.stack.workers if "mtr-cpu" in one.name)
    worker.process.kill()  # first, so that nobody is left who could tell the server
    worker.process.wait()
    for pid in processes_with(f"PREFECT__FLOW_RUN_ID={child.id}"):
        os.kill(pid, signal.SIGKILL)

    crashed = prefect_stack.await_run(child.id, lambda now: now.state.is_final(), seconds=240)
    prefect_stack.stack.workers.remove(worker)
    prefect_stack.stack.workers.append(prefect_stack.stack.start_worker("mtr-cpu"))
    ended = prefect_stack.end(run, seconds=240)

    assert crashed.state.is_crashed()
    assert crashed.state.message == "Its heartbeats stopped, so its process is gone."
    with prefect_stack.client() as client:
        assert client.read_flow_run(ended_before.id).state.name == "PackageRaised"
    assert ended.state.is_completed(), ended.state.message
    prefect_stack.site.require_one_clean_success(str(run.id))
