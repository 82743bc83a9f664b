"""The one end of an execution: what it says, and that nothing is left."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from contracts.errors import CancelledError, KilledError, LedgerUnavailableError, TimeoutReachedError
from runtime.execution.workspace import Workspace
from runtime.handover import AttemptEnd
from runtime.installation import Installation
from runtime.ledger import Owner
from runtime.settings import Settings
from tasks.publish_outcome import Outcome, write_end
from tests.assets.submissions import submission

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

ARTIFACT = {"path": "model.onnx", "role": "model", "format": "onnx", "deployable": True, "metadata": {}}
STORED = {
    "artifact": {**ARTIFACT, "size_bytes": 7, "sha256": "c" * 64},
    "object": {"bucket": "models", "object_key": "x/model.onnx", "sha256": "c" * 64, "size_bytes": 7},
}
MODEL = {"task_kind": "classification", "class_names": ["a", "b"], "framework": "onnx"}
TIMEOUT = TimeoutReachedError("an hour passed", hint="Use --timeout 2h.")


@pytest.fixture
def installation(tmp_path: Path) -> Iterator[Installation]:
    with Installation.open(Settings(home=tmp_path)) as opened:
        yield opened


@pytest.fixture
def execution_id(installation: Installation) -> str:
    asked = submission()
    installation.ledger.accept(asked, label="digits 0.1.0")
    installation.ledger.claim(asked.execution_id, Owner.here())
    return asked.execution_id


def end(execution_id: str, **fields: object) -> AttemptEnd:
    completion = {"summary": "fine", "metrics": {"accuracy": 0.9}, "artifacts": [ARTIFACT], "model": MODEL}
    given = {"outcome": "succeeded", "completion": completion, "artifacts": [STORED], **fields}
    return AttemptEnd(execution_id=execution_id, attempt=1, **given)


def test_a_success_tells_everything(installation: Installation, execution_id: str) -> None:
    execution, _ = write_end(installation, execution_id, Outcome.of_success(end(execution_id), None))
    assert (execution.state, execution.error, execution.artifacts) == ("succeeded", None, [STORED])
    result = execution.result
    assert (result["status"], result["summary"], result["metrics"]) == ("succeeded", "fine", {"accuracy": 0.9})
    assert result["artifacts"] == [STORED["artifact"]]
    assert result["model"]["class_names"] == ["a", "b"]


def test_a_failure_names_its_stage_cause_and_next_action(installation: Installation, execution_id: str) -> None:
    execution, _ = write_end(installation, execution_id, Outcome.of_fault(execution_id, TIMEOUT, "train", None))
    assert execution.state == "failed"
    assert execution.error == TIMEOUT.to_document()
    assert execution.result["error"] == {
        "stage": "train",
        "error_type": "timeout",
        "message": "an hour passed Use --timeout 2h.",
        "retryable": False,
    }


def test_what_was_stored_before_a_failure_is_still_told(installation: Installation, execution_id: str) -> None:
    outcome = Outcome.of_fault(execution_id, TIMEOUT, "register_model", end(execution_id))
    execution, _ = write_end(installation, execution_id, outcome)
    assert execution.artifacts == [STORED]
    assert execution.result["model"] is None


def test_what_a_machine_did_may_be_retried_by_the_platform(execution_id: str) -> None:
    outcome = Outcome.of_fault(execution_id, KilledError("killed", hint="Look."), "train", None)
    assert outcome.result.error.retryable is True


def test_a_cancellation_is_no_failure(installation: Installation, execution_id: str) -> None:
    wish = CancelledError("cancelled", hint="Start it anew.")
    execution, _ = write_end(installation, execution_id, Outcome.of_fault(execution_id, wish, "train", None))
    assert (execution.state, execution.result["status"]) == ("cancelled", "cancelled")


def test_a_long_message_fits_the_contract(execution_id: str) -> None:
    fault = TimeoutReachedError("x" * 100_000, hint="y")
    assert len(Outcome.of_fault(execution_id, fault, "train", None).result.error.message) == 8_000


def test_an_interrupted_attempt_ends_as_the_execution_does(installation: Installation, execution_id: str) -> None:
    installation.ledger.begin_attempt(execution_id)
    wish = CancelledError("cancelled", hint="Start it anew.")
    write_end(installation, execution_id, Outcome.of_fault(execution_id, wish, "train", None))
    assert [one.outcome for one in installation.ledger.attempts(execution_id)] == ["cancelled"]


def test_the_workspace_is_gone_and_the_ledger_says_so(installation: Installation, execution_id: str) -> None:
    workspace = Workspace.create(installation.settings.workspace_root, execution_id, 1)
    (workspace.output / "model.onnx").write_bytes(b"1234567")
    execution, removed = write_end(installation, execution_id, Outcome.of_success(end(execution_id), None))
    assert (removed.files, removed.attempts) == (1, [1])
    assert execution.workspace_cleaned is True
    assert Workspace.find(installation.settings.workspace_root, execution_id) == ()


def test_whoever_dies_before_the_end_is_written_leaves_an_execution_that_goes_on(
    installation: Installation, execution_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    outcome = Outcome.of_success(end(execution_id), None)

    def die(*_: object, **__: object) -> None:
        raise LedgerUnavailableError("gone", hint="Repeat.")

    with monkeypatch.context() as away:
        away.setattr(type(installation.ledger), "finish", die)
        with pytest.raises(LedgerUnavailableError):
            write_end(installation, execution_id, outcome)
    assert installation.ledger.get(execution_id).state == "running"
    assert write_end(installation, execution_id, outcome)[0].state == "succeeded"
