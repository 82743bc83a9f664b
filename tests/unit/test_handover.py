"""What parent and attempt hand over to each other."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contracts.dataset import DatasetManifest
from contracts.errors import ConflictError, DigestMismatchError, InvalidDocumentError, TimeoutReachedError
from contracts.package import PackageManifest
from contracts.references import Pinned
from runtime.handover import AttemptEnd, Plan, PodRecord, artifact_place, find_end, find_pod_record
from runtime.store.objects import ObjectStore
from tests.assets import documents
from tests.assets.submissions import submission

EXECUTION = documents.EXECUTION_ID


def plan(label: str = "digits 0.1.0 on digits-png") -> Plan:
    return Plan(
        label=label,
        submission=submission(execution_id=EXECUTION, message_id=documents.MESSAGE_ID),
        manifest=PackageManifest.model_validate(documents.package()),
        dataset=DatasetManifest(task_kind="classification", data_modalities=("image",)),
    )


def test_a_plan_is_read_back_as_it_was(any_store: ObjectStore) -> None:
    stored = plan().publish(any_store)
    assert Plan.load(any_store, stored) == plan()


def test_the_same_plan_is_the_same_object(any_store: ObjectStore) -> None:
    assert plan().publish(any_store) == plan().publish(any_store)


def test_another_plan_of_the_same_execution_is_a_conflict(any_store: ObjectStore) -> None:
    plan().publish(any_store)
    with pytest.raises(ConflictError):
        plan("another").publish(any_store)


def test_a_plan_that_was_overwritten_is_refused(local_store: ObjectStore) -> None:
    stored = plan().publish(local_store)
    local_store.local_path(stored.bucket, stored.key).write_bytes(b"{}")
    with pytest.raises(DigestMismatchError):
        Plan.load(local_store, stored)


def test_what_is_no_plan_names_what_is_missing(local_store: ObjectStore) -> None:
    content = b'{"label":"x"}'
    local_store.publish_bytes(content, "default", "plan.json")
    measured = local_store.measure("default", "plan.json")
    with pytest.raises(InvalidDocumentError, match="manifest: required here"):
        Plan.load(local_store, Pinned("default", "plan.json", measured.sha256, measured.size_bytes))


def end(**fields) -> AttemptEnd:
    return AttemptEnd(**{"execution_id": EXECUTION, "attempt": 1, "outcome": "succeeded", **fields})


def test_an_attempt_without_a_record_has_no_end(any_store: ObjectStore) -> None:
    assert find_end(any_store, EXECUTION, 1) is None


def test_an_end_is_read_back_as_it_was(any_store: ObjectStore) -> None:
    written = end(paid_seconds=1.5, training_finished=True, timings={"train": 1.5}, record={"exit_code": 0})
    written.publish(any_store)
    assert find_end(any_store, EXECUTION, 1) == written


def test_the_first_end_stays(any_store: ObjectStore) -> None:
    first = end().publish(any_store)
    late = end(outcome="killed", error={"code": "killed", "message": "m", "hint": "h", "context": {}})
    assert late.publish(any_store) == first
    assert find_end(any_store, EXECUTION, 1) == first


def test_an_end_brings_its_typed_error_along(local_store: ObjectStore) -> None:
    fault = TimeoutReachedError("an hour passed", hint="Use --timeout 2h.", context={"seconds": 3600})
    end(outcome=fault.code, error=fault.to_document()).publish(local_store)
    found = find_end(local_store, EXECUTION, 1).fault()
    assert (type(found), found.message, found.hint, found.context) == (
        TimeoutReachedError,
        "an hour passed",
        "Use --timeout 2h.",
        {"seconds": 3600},
    )


def test_what_is_no_end_record_is_refused(local_store: ObjectStore) -> None:
    key = f"training-code-runtime/executions/{EXECUTION}/attempts/1/end.json"
    local_store.publish_bytes(b'{"what": 1}', "default", key)
    with pytest.raises(InvalidDocumentError):
        find_end(local_store, EXECUTION, 1)


@pytest.mark.parametrize(
    ("role", "bucket"),
    [("model", "models"), ("checkpoint", "models"), ("report", "default"), ("log", "default"), ("other", "default")],
)
def test_an_artifact_lies_where_the_platform_looks(role: str, bucket: str) -> None:
    place = artifact_place(EXECUTION, role=role, sha256="a" * 64, file_name="best model.onnx")
    assert place == (bucket, f"training-code-runtime/executions/{EXECUTION}/{'a' * 64}/best_model.onnx")


@given(st.text(min_size=1))
def test_any_file_name_makes_a_safe_key(name: str) -> None:
    _, key = artifact_place(EXECUTION, role="model", sha256="a" * 64, file_name=name)
    last = key.rpartition("/")[2]
    assert last
    assert last not in {".", ".."}
    assert all(letter.isascii() and (letter.isalnum() or letter in "._-") for letter in last)


def test_the_record_of_a_pod_is_read_back_as_it_was(any_store: ObjectStore) -> None:
    record = PodRecord(
        execution_id=EXECUTION, attempt=1, pod="digits-1-abcde", exit_code=137, signal=9, oom_kills=1, seconds=2.5
    )
    assert record.publish(any_store) == record
    assert find_pod_record(any_store, EXECUTION, 1) == record
    assert find_pod_record(any_store, EXECUTION, 2) is None


def test_the_first_record_of_a_pod_stays(local_store: ObjectStore) -> None:
    first = PodRecord(execution_id=EXECUTION, attempt=1, pod="digits-1-abcde", exit_code=0).publish(local_store)
    assert PodRecord(execution_id=EXECUTION, attempt=1, pod="digits-1-fghij", exit_code=1).publish(local_store) == first


@pytest.mark.parametrize("content", [b"[]", b'{"execution_id": "a"}', b'{"unknown": 1}'])
def test_what_is_no_record_of_a_pod_is_refused(local_store: ObjectStore, content: bytes) -> None:
    local_store.publish_bytes(content, "default", f"training-code-runtime/executions/{EXECUTION}/attempts/1/pod.json")
    with pytest.raises(InvalidDocumentError, match="pod record"):
        find_pod_record(local_store, EXECUTION, 1)
