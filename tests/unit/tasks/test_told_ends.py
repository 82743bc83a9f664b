"""What the platform is told of an end, in which order, and what a watch tells on the way there."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from contracts.errors import CancelledError, LedgerUnavailableError, TimeoutReachedError
from contracts.references import Pinned
from runtime.execution.journal import Journal
from runtime.execution.telling import Teller
from runtime.handover import AttemptEnd
from runtime.installation import Installation
from runtime.ledger import Owner
from runtime.settings import Settings
from tasks.publish_outcome import Outcome, write_end
from tasks.run import Host, Run, Watch
from tests.assets.submissions import submission

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from runtime.registry.models import RegisteredModel

ARTIFACT = {"path": "model.onnx", "role": "model", "format": "onnx", "deployable": True, "metadata": {}}
STORED = {
    "artifact": {**ARTIFACT, "size_bytes": 7, "sha256": "c" * 64},
    "object": {"bucket": "models", "object_key": "x/model.onnx", "sha256": "c" * 64, "size_bytes": 7},
}
TIMEOUT = TimeoutReachedError("an hour passed", hint="Use --timeout 2h.")


@pytest.fixture
def installation(tmp_path: Path) -> Iterator[Installation]:
    with Installation.open(Settings(home=tmp_path)) as opened:
        yield opened


def accept(installation: Installation, *, kind: str = "classification", announced: bool = True) -> str:
    asked = submission(task={"task_id": 4711, "task_kind": kind})
    installation.ledger.accept(asked, label="digits 0.1.0", announced=announced)
    return asked.execution_id


@pytest.fixture
def execution_id(installation: Installation) -> str:
    accepted = accept(installation)
    installation.ledger.claim(accepted, Owner.here())
    return accepted


def success(installation: Installation, execution_id: str, *, kind: str = "classification") -> Outcome:
    described = {"task_kind": kind, "class_names": ["a"], "framework": "onnx"}
    completion = {"metrics": {"loss": 0.5}, "artifacts": [ARTIFACT], "model": described}
    end = AttemptEnd(
        execution_id=execution_id, attempt=1, outcome="succeeded", completion=completion, artifacts=[STORED]
    )
    return Outcome.of_success(end, register(installation, execution_id, kind))


def register(installation: Installation, execution_id: str, kind: str) -> RegisteredModel:
    return installation.models.register(
        "digits",
        execution_id=execution_id,
        object=Pinned("models", "x/model.onnx", "c" * 64, 7),
        task_kind=kind,
        class_names=["a"],
        opset=17,
        inputs=[],
        outputs=[],
    )


def told(installation: Installation, execution_id: str) -> list[tuple[str, int | str]]:
    """Kind and status, or what a log message says."""
    found = installation.ledger.messages(execution_id=execution_id)
    return [(one.kind, one.body.get("status", one.body.get("log_content", ""))) for one in found]


def watch(installation: Installation, execution_id: str) -> Watch:
    run = Run.of(Host(installation), execution_id)
    return Watch(run, Owner.here(), Teller.of(installation, installation.ledger.get(execution_id)))


def say(installation: Installation, execution_id: str, text: str) -> None:
    with Journal.of(installation.settings.executions_root, execution_id) as journal:
        journal.append("log", level="info", message=text)


def test_a_success_is_told_after_all_that_was_said_and_its_model_last(installation, execution_id) -> None:
    say(installation, execution_id, "the last line")
    write_end(installation, execution_id, success(installation, execution_id))

    assert told(installation, execution_id) == [
        ("task.status.update", 0),
        ("task.status.update", 1),
        ("task.log", "the last line"),
        ("task.status.update", 3),
        ("model.registered", ""),
    ]


def test_an_end_that_is_written_again_is_told_once(installation, execution_id) -> None:
    outcome = success(installation, execution_id)
    write_end(installation, execution_id, outcome)
    before = installation.ledger.messages()
    write_end(installation, execution_id, outcome)

    assert installation.ledger.messages() == before


def test_a_model_of_a_kind_that_nothing_serves_is_told_by_a_warning(installation) -> None:
    execution_id = accept(installation, kind="segmentation")
    write_end(installation, execution_id, success(installation, execution_id, kind="segmentation"))

    *_, warning, status = installation.ledger.messages()
    assert warning.body["log_level"] == "warning"
    assert "stored but not registered" in warning.body["log_content"]
    assert status.body["status"] == 3


def test_a_failure_is_told_with_its_next_action(installation, execution_id) -> None:
    write_end(installation, execution_id, Outcome.of_fault(execution_id, TIMEOUT, "train", None))

    *_, last = installation.ledger.messages()
    assert (last.body["status"], last.body["message"]) == (4, "timeout: an hour passed Use --timeout 2h.")


def test_an_execution_that_is_cancelled_before_it_began_was_never_running(installation) -> None:
    execution_id = accept(installation)
    installation.ledger.request_cancel(execution_id)
    installation.ledger.claim(execution_id, Owner.here())
    wish = CancelledError("cancelled while nobody worked on it", hint="h")
    write_end(installation, execution_id, Outcome.of_fault(execution_id, wish, "validate_submission", None))

    queued, cancelled = installation.ledger.messages()
    assert (queued.body["status"], cancelled.body["status"], cancelled.body["message"]) == (0, 4, "cancelled")


def test_what_is_not_announced_is_told_to_nobody(installation) -> None:
    execution_id = accept(installation, announced=False)
    say(installation, execution_id, "a line")
    write_end(installation, execution_id, success(installation, execution_id))

    assert installation.ledger.messages() == ()


def test_a_watch_tells_what_is_new(installation, execution_id) -> None:
    asked = watch(installation, execution_id)
    say(installation, execution_id, "a line")
    assert not asked()

    assert told(installation, execution_id)[-1] == ("task.log", "a line")


def test_a_ledger_that_is_away_ends_no_training(installation, execution_id, monkeypatch) -> None:
    asked = watch(installation, execution_id)
    installation.ledger.request_cancel(execution_id)
    say(installation, execution_id, "a line")

    def away(*_: object, **__: object) -> None:
        raise LedgerUnavailableError("gone", hint="Repeat.")

    with monkeypatch.context() as while_away:
        while_away.setattr(type(installation.ledger), "tell", away)
        assert not asked()
    assert asked()
    assert told(installation, execution_id)[-1] == ("task.log", "a line")


def test_a_journal_that_cannot_be_read_ends_no_training_and_stops_no_end(installation, execution_id) -> None:
    journal = Journal.of(installation.settings.executions_root, execution_id)
    journal.path.mkdir(parents=True)

    assert not watch(installation, execution_id)()
    write_end(installation, execution_id, success(installation, execution_id))
    assert installation.ledger.get(execution_id).ended


@pytest.mark.slow
def test_a_flood_of_lines_is_few_messages(installation, execution_id) -> None:
    asked = watch(installation, execution_id)
    with Journal.of(installation.settings.executions_root, execution_id) as journal:
        for number in range(20_000):
            journal.append("output", text=f"{number} " + "x" * 60)
    asked()

    assert len(installation.ledger.messages(execution_id=execution_id)) < 150
