"""The flows that people and the platform start, with what they refuse: in this process, on a real Prefect server."""

from __future__ import annotations

import os
import uuid
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from flows.execute_training import execute_training
from flows.pin_dataset import pin_dataset
from flows.register_model_package import register_model_package
from flows.register_package import register_package
from flows.run_package import run_package
from runtime.installation import Installation
from runtime.ledger import Owner
from runtime.ledger.owners import _process_started
from tests.assets.executions import PACKAGE, write_images
from tests.assets.submissions import submission_document

if TYPE_CHECKING:
    from pathlib import Path

    from prefect.client.schemas.objects import FlowRun

    from tests.assets.prefect_stack import PrefectStack

pytestmark = pytest.mark.service


@pytest.fixture(scope="module")
def package(prefect_stack: PrefectStack) -> str:
    return prefect_stack.register()


def asked(package: str, **fields: Any) -> dict[str, Any]:
    form = {"package": package, "data": "images", "parameters": {"epochs": 1}, "cpus": 1, "memory": "1GiB"}
    return {**form, **fields}


def run_of(stack: PrefectStack, state: Any) -> FlowRun:
    with stack.client() as client:
        return client.read_flow_run(state.state_details.flow_run_id)


@pytest.mark.parametrize(
    ("fields", "name", "message"),
    [
        ({"data": "trucks"}, "NotFound", 'no data set "trucks"; there are: '),
        ({"package": "fast"}, "NotFound", "no package 'fast' is registered; there are: quick"),
        ({"package": "quick@9.9.9"}, "NotFound", "no package quick@9.9.9 is registered"),
        ({"parameters": {"epochs": "many"}}, "AdmissionRefused", "parameters.epochs is 'many', must be an integer"),
        ({"memory": "much"}, "Usage", "--memory 'much' is not a size"),
        ({"device": "cuda"}, "Usage", "--device cuda and --gpus 0 contradict each other"),
        ({"data": ""}, "Usage", "quick 1.0.0 trains on a data set and none was given"),
        ({"model": "nobody"}, "NotFound", "no registered model nobody"),
        ({"model_name": "a/b"}, "AdmissionRefused", "'a/b' cannot name a model"),
    ],
)
def test_a_wrong_field_is_refused_by_name(
    prefect_stack: PrefectStack, package: str, fields: dict[str, object], name: str, message: str
) -> None:
    state = prefect_stack.here(run_package, **{**asked(package), **fields})

    assert state.name == name
    assert message in state.message
    assert "refused" in prefect_stack.artifacts(run_of(prefect_stack, state))


def test_a_refused_form_leaves_no_execution(prefect_stack: PrefectStack, package: str) -> None:
    state = prefect_stack.here(run_package, **asked(package, data="trucks"))
    with Installation.open(prefect_stack.site.settings) as installation:
        known = {one.execution_id for one in installation.ledger.list(limit=None)}
    assert str(state.state_details.flow_run_id) not in known


def test_a_key_alone_is_the_newest_version(prefect_stack: PrefectStack, package: str) -> None:
    state = prefect_stack.here(run_package, **asked(package.partition("@")[0]))
    assert state.is_completed(), state.message
    assert run_of(prefect_stack, state).name == "quick 1.0.0 on images"


def test_training_in_process_is_nested_and_leaves_one_clean_success(prefect_stack: PrefectStack, package: str) -> None:
    state = prefect_stack.here(run_package, **asked(package))
    (child,) = prefect_stack.children(run_of(prefect_stack, state))
    assert child.name == "quick 1.0.0 on images, attempt 1"
    prefect_stack.site.require_one_clean_success(str(state.state_details.flow_run_id))


def test_a_model_gets_the_name_that_was_asked_for(prefect_stack: PrefectStack, package: str) -> None:
    state = prefect_stack.here(run_package, **asked(package, model_name="mine"))
    assert state.message == "mine v1 registered"


def test_what_a_package_did_is_not_tried_again(prefect_stack: PrefectStack, package: str) -> None:
    state = prefect_stack.here(run_package, **asked(package, parameters={"fail": "no luck", "epochs": 1}))
    assert state.name == "PackageRaised"
    with Installation.open(prefect_stack.site.settings) as installation:
        attempts = installation.ledger.attempts(str(state.state_details.flow_run_id))
    assert [one.outcome for one in attempts] == ["package_raised"]


def test_a_submission_is_executed(prefect_stack: PrefectStack) -> None:
    document = prefect_stack.site.submission(data=prefect_stack.data, epochs=1).to_document()
    state = prefect_stack.here(execute_training, submission=document)
    assert state.is_completed(), state.message
    assert run_of(prefect_stack, state).name == "quick 1.0.0 on images"


def test_a_submission_given_again_is_answered_again(prefect_stack: PrefectStack) -> None:
    document = prefect_stack.site.submission(data=prefect_stack.data, epochs=1).to_document()
    first = prefect_stack.here(execute_training, submission=document)
    second = prefect_stack.here(execute_training, submission={**document, "message_id": str(uuid.uuid4())})
    assert second.message == first.message
    prefect_stack.site.require_one_clean_success(document["execution_id"])


def test_another_submission_of_the_same_id_is_a_conflict(prefect_stack: PrefectStack) -> None:
    document = prefect_stack.site.submission(data=prefect_stack.data, epochs=1).to_document()
    prefect_stack.here(execute_training, submission=document)
    state = prefect_stack.here(execute_training, submission={**document, "parameters": {"epochs": 2}})
    assert (state.name, "differs at parameters.epochs" in state.message) == ("Conflict", True)


def test_an_execution_that_another_process_works_on_is_busy(prefect_stack: PrefectStack) -> None:
    submission = prefect_stack.site.submission(data=prefect_stack.data)
    other = replace(Owner.here(), pid=os.getppid(), process_started=_process_started(os.getppid()))
    with Installation.open(prefect_stack.site.settings) as installation:
        installation.ledger.accept(submission, label="quick 1.0.0 on images")
        installation.ledger.claim(submission.execution_id, other)
    state = prefect_stack.here(execute_training, execution_id=submission.execution_id)
    assert (state.name, f"process {os.getppid()}" in state.message) == ("ExecutionBusy", True)
    assert prefect_stack.site.execution(submission.execution_id).state == "running"


@pytest.mark.parametrize(
    ("parameters", "name", "message"),
    [
        ({}, "InvalidDocument", "execution_id: required here"),
        ({"submission": {"protocol_version": "training-code-submit/v1"}}, "InvalidDocument", "package: required here"),
        ({"execution_id": "00000000-0000-4000-8000-000000000000"}, "NotFound", "no execution 00000000"),
        ({"submission": submission_document()}, "ObjectMissing", "p.zip"),
    ],
)
def test_what_cannot_be_executed_says_why(
    prefect_stack: PrefectStack, parameters: dict[str, Any], name: str, message: str
) -> None:
    state = prefect_stack.here(execute_training, **parameters)
    assert state.name == name
    assert message in state.message


def test_packages_and_data_are_registered_from_their_forms(prefect_stack: PrefectStack, tmp_path: Path) -> None:
    registered = prefect_stack.here(register_package, path=str(PACKAGE))
    pinned = prefect_stack.here(pin_dataset, source=str(write_images(tmp_path / "more", count=2)), name="more")

    assert registered.is_completed(), registered.message
    assert registered.message.startswith("quick 1.0.0 ")
    assert pinned.message.startswith("4 items, more = ")


@pytest.mark.parametrize("flow", [register_package, register_model_package])
def test_a_path_that_the_worker_does_not_see_is_refused(prefect_stack: PrefectStack, flow: Any) -> None:
    state = prefect_stack.here(flow, path="/nowhere/model.zip")
    assert (state.name, "Prefect cannot upload" in state.message) == ("NotFound", True)
