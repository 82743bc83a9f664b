"""A simulated execution ends as it was asked to, with a real end, and nothing real is touched."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from contracts.base import validate
from contracts.errors import CancelledError, UsageError, codes
from contracts.messages import COMPLETED, FAILED, QUEUED, RUNNING
from runtime.execution.journal import Journal
from runtime.installation import Installation
from runtime.onnx.inspection import inspect_model
from services import simulation
from services.bridge.submissions import Answered, take
from services.simulation import Simulation, simulate, tiny_onnx
from tests.assets.executions import settings_at
from tests.assets.submissions import submission, submission_document

if TYPE_CHECKING:
    from runtime.ledger import Execution
    from runtime.settings import Settings

FAILURES = [outcome for outcome in Simulation.ends() if outcome not in {"succeeded", "cancelled"}]
DOOR = sorted(set(codes()) - set(Simulation.ends()))


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    return settings_at(tmp_path_factory.mktemp("installation") / "home")


def simulated(settings: Settings, outcome: str, *, cancel: bool = False) -> tuple[Installation, Execution]:
    here = Simulation(outcome).open(settings)
    execution_id = here.ledger.accept(submission(), label="digits 0.1.0", announced=True).execution.execution_id
    if cancel:
        here.ledger.request_cancel(execution_id)
    simulate(here, execution_id, Simulation(outcome))
    return here, here.ledger.get(execution_id)


def test_an_unknown_outcome_is_refused_with_all_that_there_are() -> None:
    with pytest.raises(UsageError, match=r"succeeded, admission_refused, .*, workspace_lost"):
        Simulation("nonsense")


def test_every_code_is_an_end_or_answered_at_the_door() -> None:
    outcomes = {code: Simulation(code).at_the_door for code in codes()}

    assert {code for code, at_the_door in outcomes.items() if not at_the_door} >= {"killed", "timeout", "internal"}
    assert {code for code, at_the_door in outcomes.items() if at_the_door} >= {"invalid_document", "policy_refused"}
    assert not any(Simulation(code).at_the_door for code in codes() if codes()[code].retry == "elsewhere")


@pytest.mark.slow
@pytest.mark.parametrize("outcome", FAILURES)
def test_a_failure_ends_with_its_code(settings, outcome) -> None:
    here, execution = simulated(settings, outcome)
    with here:
        assert (execution.state, execution.error["code"]) == ("failed", outcome)
        assert execution.result["error"]["error_type"] == outcome
        assert validate("result", execution.result).status == "failed"
        assert all(attempt.ended_at is not None for attempt in here.ledger.attempts(execution.execution_id))
        assert told(here, execution) == [QUEUED, RUNNING, "task.log", FAILED]


def told(here: Installation, execution: Execution) -> list[int | str]:
    """What the platform is told: statuses by number, other kinds by name, neighbouring logs as one."""
    messages = here.ledger.messages(execution_id=execution.execution_id)
    said = [message.body.get("status", message.kind) for message in messages]
    return [kind for kind, before in zip(said, [None, *said], strict=False) if kind != before]


def test_what_a_machine_did_is_tried_as_often_as_ever(settings) -> None:
    here, execution = simulated(settings, "killed")
    with here:
        attempts = here.ledger.attempts(execution.execution_id)
        assert [attempt.outcome for attempt in attempts] == ["killed"] * settings.max_attempts


def test_a_cancellation_ends_cancelled(settings) -> None:
    here, execution = simulated(settings, "cancelled")
    with here:
        assert (execution.state, execution.result["status"]) == ("cancelled", "cancelled")
        assert told(here, execution) == [QUEUED, RUNNING, "task.log", FAILED]
        assert here.ledger.messages(execution_id=execution.execution_id)[-1].body["message"] == "cancelled"


def test_a_wish_to_cancel_is_heard_whatever_was_to_be_simulated(settings) -> None:
    here, execution = simulated(settings, "succeeded", cancel=True)
    with here:
        assert (execution.state, execution.error["code"]) == ("cancelled", CancelledError.code)


def test_a_success_has_a_model_that_can_be_fetched_and_loaded(settings, tmp_path) -> None:
    here, execution = simulated(settings, "succeeded")
    with here:
        model = here.models.get(execution.model["name"])
        here.store.fetch_verified(model.object, tmp_path / "model.onnx")
        report = inspect_model(tmp_path / "model.onnx")

        assert execution.state == "succeeded"
        assert told(here, execution) == [QUEUED, RUNNING, "task.log", COMPLETED, "model.registered"]
        assert execution.result["summary"] == "simulated: nothing was trained"
        assert [tensor.to_document() for tensor in report.outputs] == model.outputs
        assert report.opset == model.opset


def test_the_same_number_of_classes_is_the_same_model() -> None:
    assert tiny_onnx(3) == tiny_onnx(3)
    assert tiny_onnx(3) != tiny_onnx(4)


def test_a_follower_sees_stages_phases_and_metrics(settings) -> None:
    here, execution = simulated(settings, "succeeded")
    with here:
        entries = Journal.of(here.settings.executions_root, execution.execution_id).read()
    assert {entry["kind"] for entry in entries} == {
        "stage", "attempt", "phase", "log", "metric", "checkpoint", "state",
    }  # fmt: skip


def test_no_file_of_it_stays_open(settings) -> None:
    here, execution = simulated(settings, "killed")
    with here:
        folder = str(Journal.of(here.settings.executions_root, execution.execution_id).path.parent)
    links = [descriptor for descriptor in Path("/proc/self/fd").iterdir() if descriptor.is_symlink()]

    assert not [link for link in links if folder in str(link.readlink())]


def test_the_real_ledger_knows_nothing_of_it(settings) -> None:
    here, _ = simulated(settings, "succeeded")
    here.close()
    with Installation.open(settings) as real:
        assert real.ledger.list() == ()


@pytest.mark.slow
@pytest.mark.parametrize("outcome", DOOR)
def test_what_a_door_refuses_is_never_accepted(settings, outcome) -> None:
    with Simulation(outcome).open(settings) as here:
        before = here.ledger.list()
        with pytest.raises(codes()[outcome], match="simulated: "):
            here.ledger.accept(submission(), label="digits 0.1.0")
        assert here.ledger.list() == before


@pytest.mark.parametrize("outcome", [code for code in DOOR if codes()[code].broker == "ack"])
def test_what_a_door_refuses_is_told_by_the_bridge_as_a_failed_status(settings, outcome) -> None:
    document = submission_document(task={"task_id": 7, "task_kind": "classification"})
    with Simulation(outcome).open(settings) as here:
        verdict = take(here, json.dumps(document).encode())
        (told,) = [one.body for one in here.ledger.messages() if document["execution_id"] in str(one.body)]

    assert isinstance(verdict, Answered)
    assert (told["status"], told["task_id"]) == (FAILED, 7)
    assert told["extra_data"]["result"]["error"]["error_type"] == outcome


@pytest.mark.parametrize("outcome", [code for code in DOOR if codes()[code].broker == "requeue"])
def test_what_will_come_back_decides_nothing(settings, outcome) -> None:
    with Simulation(outcome).open(settings) as here:
        with pytest.raises(codes()[outcome]):
            take(here, json.dumps(submission_document()).encode())
        assert here.ledger.messages() == ()


def test_execution_is_off_where_policy_is_to_refuse(settings) -> None:
    with Simulation("policy_refused").open(settings) as here:
        assert not here.settings.execution_enabled


def test_an_execution_that_cannot_be_simulated_holds_up_no_other(settings, monkeypatch) -> None:
    outcome = Simulation("succeeded")
    with outcome.open(settings) as here:
        first, second = (
            here.ledger.accept(submission(), label="digits 0.1.0").execution.execution_id for _ in range(2)
        )
        simulate_one = simulation.simulate

        def simulate_but_the_first(installation, execution_id, wanted) -> None:
            if execution_id == first:
                raise RuntimeError("a defect")
            simulate_one(installation, execution_id, wanted)

        monkeypatch.setattr(simulation, "simulate", simulate_but_the_first)
        with simulation.SimulatedDispatcher(here, outcome) as dispatcher:
            dispatcher.wake()
            deadline = time.monotonic() + 30
            while here.ledger.get(second).state != "succeeded":
                assert time.monotonic() < deadline
                time.sleep(0.02)
        assert here.ledger.get(first).state == "queued"
