"""What the platform is told: every field as the wire contract names it."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from contracts.base import validate
from contracts.errors import InvalidDocumentError
from contracts.limits import MAX_TOLD_CHARACTERS
from contracts.messages import (
    ModelRegistered,
    TaskLog,
    TaskStatusUpdate,
    ended,
    log,
    model_registered,
    not_registered,
    queued,
    refused,
    running,
    runtime_template,
)
from contracts.result import TrainingResult

ID = "7c000000-0000-4000-8000-000000000000"
AT = "2030-01-31T12:00:00Z"
BASE = {"service_name": "model-training-runtime", "timestamp": AT, "task_id": 42}
OURS = {"backend": "training_code_runtime", "execution_id": ID}


def artifact(path: str, role: str) -> dict:
    stored = {"path": path, "role": role, "format": "pt", "deployable": False, "metadata": {}}
    return {
        "artifact": {**stored, "size_bytes": 7, "sha256": "c" * 64},
        "object": {"bucket": "models", "object_key": f"k/{path}", "sha256": "c" * 64, "size_bytes": 7},
    }


def result(status: str = "succeeded", **fields) -> TrainingResult:
    if status != "succeeded":
        fields["error"] = {"stage": "train", "error_type": "timeout", "message": "too long Use --timeout 2h."}
    return TrainingResult.model_validate({"execution_id": ID, "status": status, **fields})


def model(**fields) -> dict:
    return {"task_kind": "classification", "class_names": ["a", "b"], "framework": "onnx", **fields}


def registered(artifacts=(), **fields) -> ModelRegistered | None:
    return model_registered(
        task_id=42,
        timestamp=AT,
        package_key="digits",
        onnx_save_path="k/model.onnx",
        result=result(**fields),
        artifacts=artifacts,
    )


def test_a_queued_task() -> None:
    assert queued(execution_id=ID, task_id=42, timestamp=AT).to_document() == {
        **BASE, "message_type": "task.status.update", "status": 0, "message": "queued", "extra_data": OURS,
    }  # fmt: skip


def test_a_running_task() -> None:
    assert running(execution_id=ID, task_id=42, timestamp=AT).to_document() == {
        **BASE, "message_type": "task.status.update", "status": 1, "message": "running", "extra_data": OURS,
    }  # fmt: skip


def test_a_completed_task_has_its_result_and_artifacts() -> None:
    stored = [artifact("a.pt", "checkpoint")]
    told = ended(task_id=42, timestamp=AT, result=result(), artifacts=stored, message="digits v1 registered")
    assert told.to_document() == {
        **BASE,
        "message_type": "task.status.update",
        "status": 3,
        "message": "digits v1 registered",
        "extra_data": {**OURS, "result": result().to_document(), "artifacts": stored},
    }


def test_a_failed_task_says_its_typed_cause_and_the_next_action() -> None:
    told = ended(task_id=42, timestamp=AT, result=result("failed"), artifacts=[])
    assert (told.status, told.message) == (4, "timeout: too long Use --timeout 2h.")


def test_a_cancelled_task_says_exactly_that() -> None:
    told = ended(task_id=42, timestamp=AT, result=result("cancelled"), artifacts=[]).to_document()
    assert (told["status"], told["message"], told["extra_data"]["result"]["status"]) == (4, "cancelled", "cancelled")


def test_a_long_cause_is_cut() -> None:
    error = {"stage": "train", "error_type": "timeout", "message": "x" * 8_000}
    long = TrainingResult.model_validate({"execution_id": ID, "status": "failed", "error": error})
    assert len(ended(task_id=42, timestamp=AT, result=long, artifacts=[]).message) == 8_000


def test_a_refused_submission_that_names_its_execution_has_a_result() -> None:
    told = refused(task_id=42, timestamp=AT, code="policy", message="off", hint="turn on", execution_id=ID)
    assert (told.status, told.message) == (4, "policy: off turn on")
    assert told.extra_data.to_document()["result"]["error"] == {
        "stage": "validate_submission", "error_type": "policy", "message": "off turn on", "retryable": False,
    }  # fmt: skip


def test_a_refused_submission_that_names_no_execution_has_none() -> None:
    told = refused(task_id=42, timestamp=AT, code="invalid_document", message="m", hint="h").to_document()
    assert told["extra_data"] == {
        "backend": "training_code_runtime", "execution_id": None, "result": None, "artifacts": [],
    }  # fmt: skip


def test_a_log_message() -> None:
    assert log(task_id=42, timestamp=AT, level="warning", content="hot").to_document() == {
        **BASE, "message_type": "task.log", "log_content": "hot", "log_level": "warning",
    }  # fmt: skip


def test_a_long_log_message_is_cut() -> None:
    assert len(log(task_id=42, timestamp=AT, level="info", content="x" * 20_000).log_content) == MAX_TOLD_CHARACTERS


def test_a_registered_model() -> None:
    stored = [artifact("first.pt", "checkpoint")]
    assert registered(stored, model=model(), metrics={"loss": 0.5, "val_loss": 0.7}).to_document() == {
        **BASE,
        "message_type": "model.registered",
        "model_info": {
            "onnx_save_path": "k/model.onnx",
            "save_path": "k/first.pt",
            "task_kind": "classification",
            "class_names": ["a", "b"],
            "trained_model_name": "digits-task-42",
            "loss": 0.5,
            "runtime_template": "onnx_classification",
            "execution_id": ID,
        },
    }


@pytest.mark.parametrize(
    ("metrics", "loss"), [({"loss": 0.0, "val_loss": 1.0}, 0.0), ({"val_loss": 0.7}, 0.7), ({"accuracy": 0.9}, None)]
)
def test_the_loss_is_the_metric_of_that_name_else_that_of_validation(metrics, loss) -> None:
    assert registered(model=model(), metrics=metrics).model_info.loss == loss


@pytest.mark.parametrize(
    ("resume", "key"), [("last.pt", "k/last.pt"), ("./last.pt", "k/last.pt"), (None, "k/first.pt")]
)
def test_the_checkpoint_is_the_one_that_the_model_names_else_the_first(resume, key) -> None:
    stored = [artifact("r.pt", "report"), artifact("first.pt", "checkpoint"), artifact("last.pt", "checkpoint")]
    assert registered(stored, model=model(resume_checkpoint_path=resume)).model_info.save_path == key


def test_without_a_checkpoint_there_is_no_place_of_one() -> None:
    assert registered([artifact("r.pt", "report")], model=model()).model_info.save_path is None


@pytest.mark.parametrize(
    ("task_kind", "framework", "template"),
    [
        ("detection", "onnx", "ultralytics_detection"),
        ("detection_bbox", "ultralytics", "ultralytics_detection"),
        ("detection_obb", None, "ultralytics_detection"),
        ("classification", "ultralytics", "ultralytics_classification"),
        ("classification", "pytorch", "onnx_classification"),
        ("classification", None, "onnx_classification"),
        ("segmentation", "ultralytics", None),
        ("detection_pose", "ultralytics", None),
    ],
)
def test_what_serves_a_model_follows_from_its_kind_and_framework(task_kind, framework, template) -> None:
    assert runtime_template(task_kind, framework) == template


def test_a_model_of_a_kind_that_nothing_serves_is_not_registered() -> None:
    assert registered(model=model(task_kind="segmentation")) is None


def test_a_warning_says_so() -> None:
    told = not_registered(task_id=42, timestamp=AT, task_kind="segmentation")
    assert (told.log_level, "task kind segmentation" in told.log_content) == ("warning", True)


@pytest.mark.parametrize(
    ("change", "path"),
    [
        ({"unknown": 1}, "unknown"),
        ({"status": 2}, "status"),
        ({"status": 4}, "extra_data.result.status"),
        ({"status": 1}, "extra_data"),
        ({"message": "cancelled"}, "message"),
        ({"message": ""}, "message"),
        ({"task_id": 0}, "task_id"),
        ({"timestamp": "2030-01-31T12:00:00"}, "timestamp"),
        ({"service_name": "another"}, "service_name"),
    ],
)
def test_a_status_that_contradicts_itself_is_none(change, path) -> None:
    body = ended(task_id=42, timestamp=AT, result=result(), artifacts=[]).to_document()
    with pytest.raises(InvalidDocumentError) as refusal:
        validate(TaskStatusUpdate, body | change)
    assert [found["path"] for found in refusal.value.context["violations"]] == [path]


def test_a_status_of_another_execution_than_its_result_is_none() -> None:
    body = ended(task_id=42, timestamp=AT, result=result(), artifacts=[]).to_document()
    body["extra_data"]["execution_id"] = ID.replace("7", "8")
    with pytest.raises(InvalidDocumentError, match=r"extra_data\.result\.execution_id"):
        validate(TaskStatusUpdate, body)


def test_only_a_failure_may_name_no_execution() -> None:
    body = refused(task_id=42, timestamp=AT, code="c", message="m", hint="h").to_document()
    with pytest.raises(InvalidDocumentError, match=r"extra_data\.execution_id"):
        validate(TaskStatusUpdate, body | {"status": 3})


def test_an_empty_log_message_is_none() -> None:
    with pytest.raises(ValidationError):
        TaskLog(timestamp=AT, task_id=42, log_level="info", log_content="")
