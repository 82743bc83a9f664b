"""What the control plane asks for."""

from __future__ import annotations

import pytest

from contracts.base import validate
from contracts.errors import InvalidDocumentError
from contracts.submission import TrainingCodeSubmission
from tests.assets import documents


def violations(document) -> dict[str, str]:
    with pytest.raises(InvalidDocumentError) as refused:
        validate(TrainingCodeSubmission, document)
    return {found["path"]: found["message"] for found in refused.value.context["violations"]}


def submission(**changes) -> dict:
    return documents.submission() | changes


def resources(**changes) -> dict:
    return submission(resources=documents.resources() | changes)


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        (resources(gpu_count=0), {"resources.gpu_count": "is 0, must be at least 1 for device cuda"}),
        (resources(device="cpu"), {"resources.gpu_count": "is 1, must be 0 for device cpu"}),
        (resources(gpu_count=65), {"resources.gpu_count": "is 65, must be at most 64"}),
        (resources(device="tpu"), {"resources.device": "is 'tpu', must be one of 'cpu' or 'cuda'"}),
        (resources(memory_bytes=0), {"resources.memory_bytes": "is 0, must be at least 1"}),
        (resources(timeout_seconds=0), {"resources.timeout_seconds": "is 0, must be at least 1"}),
        (resources(timeout_seconds=604_801), {"resources.timeout_seconds": "is 604801, must be at most 604800"}),
        (
            submission(dataset_source_snapshot=None),
            {"dataset_source_snapshot": "required here for input_mode platform_dataset"},
        ),
        (
            submission(script_dataset=documents.dataset_manifest(items=0)),
            {"script_dataset": "not allowed for input_mode platform_dataset"},
        ),
        (
            submission(input_mode="script_managed"),
            {
                "dataset_source_snapshot": "not allowed for input_mode script_managed",
                "script_dataset": "required here for input_mode script_managed",
            },
        ),
        (
            submission(package_archive=documents.pinned("models")),
            {"package_archive.bucket": "is 'models', must be 'default'"},
        ),
        (
            submission(package_archive={"bucket": "default", "object_key": "a", "sha256": documents.DIGEST}),
            {"package_archive.size_bytes": "required here"},
        ),
        (submission(task={"task_id": 0, "task_kind": "x"}), {"task.task_id": "is 0, must be at least 1"}),
    ],
)
def test_what_the_contract_forbids_is_refused_with_its_path(document, expected) -> None:
    assert violations(document) == expected


def test_resources_are_required() -> None:
    document = documents.submission()
    del document["resources"]
    assert violations(document) == {"resources": "required here"}


def test_a_script_managed_data_set_has_no_items_and_the_tasks_kind() -> None:
    document = documents.script_submission()
    document["script_dataset"] = documents.dataset_manifest(items=1) | {"task_kind": "detection"}
    assert violations(document) == {
        "script_dataset.items": "must be empty: the package brings the data",
        "script_dataset.task_kind": "is 'detection', the task's is 'classification'",
    }


def test_a_script_managed_submission_is_accepted() -> None:
    document = documents.script_submission()
    assert validate(TrainingCodeSubmission, document).to_document() == document


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("source", "url"),
        ("object", documents.pinned("default")),
        ("display_name", ""),
        ("display_name", "x" * 256),
        ("resume_supported", 1),
    ],
)
def test_a_model_artifact_is_checked(path, value) -> None:
    document = documents.submission()
    document["model_input"]["artifact"][path] = value
    assert next(iter(violations(document))).startswith(f"model_input.artifact.{path}")


def test_the_content_is_the_same_whatever_the_message() -> None:
    one = validate(TrainingCodeSubmission, documents.submission())
    other = validate(TrainingCodeSubmission, submission(message_id=documents.EXECUTION_ID))
    assert one.content_sha256() == other.content_sha256()


def test_the_content_is_the_same_with_and_without_defaults() -> None:
    document = documents.submission()
    del document["input_mode"], document["script_dataset"]
    document["resources"]["timeout_seconds"] = 60.0
    one, other = (validate(TrainingCodeSubmission, each) for each in (document, documents.submission()))
    assert one.content_sha256() == other.content_sha256()


def test_other_content_has_another_digest() -> None:
    one, other = (validate(TrainingCodeSubmission, submission(parameters={"epochs": epochs})) for epochs in (1, 2))
    assert one.content_sha256() != other.content_sha256()


def test_a_reference_is_what_the_store_takes() -> None:
    pinned = validate(TrainingCodeSubmission, documents.submission()).package_archive.pinned()
    assert pinned.to_document() == documents.pinned()
