"""Documents that must also agree."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from contracts.admission import ExecutionPolicy, admit_execution, admit_policy, admit_result
from contracts.base import validate
from contracts.completion import Completion
from contracts.dataset import DatasetSnapshot
from contracts.errors import AdmissionError, PolicyError, ResultRefusedError, RuntimeFault
from contracts.execution import ExecutionRequest
from contracts.package import PackageManifest
from contracts.result import TrainingResult
from contracts.submission import TrainingCodeSubmission
from tests.assets import documents


def changed(document: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """`document` with the values at dotted paths replaced."""
    document = copy.deepcopy(document)
    for path, value in changes.items():
        *above, last = [int(step) if step.isdigit() else step for step in path.split(".")]
        place: Any = document
        for step in above:
            place = place[step]
        place[last] = value
    return document


def manifest(**changes: Any) -> PackageManifest:
    return validate(
        PackageManifest, changed(documents.package(), {k.replace("__", "."): v for k, v in changes.items()})
    )


def execution(changes: dict[str, Any] | None = None) -> ExecutionRequest:
    return validate(ExecutionRequest, changed(documents.execution(), changes or {}))


def refusal(kind: type[RuntimeFault], admit: Any, *arguments: Any) -> dict[str, str]:
    with pytest.raises(kind) as refused:
        admit(*arguments)
    return {found["path"]: found["message"] for found in refused.value.context["violations"]}


# --- executions ------------------------------------------------------------------------------------------------------


def test_documents_that_agree_are_admitted() -> None:
    admit_execution(manifest(), execution())


def test_a_submission_is_admitted_with_its_snapshot_before_any_folder_exists() -> None:
    submission = validate(TrainingCodeSubmission, documents.submission())
    admit_execution(manifest(), submission, validate(DatasetSnapshot, documents.source_manifest()))


def test_a_script_managed_submission_brings_its_own_data_set() -> None:
    admit_execution(manifest(), validate(TrainingCodeSubmission, documents.script_submission()))


def test_a_platform_submission_without_its_snapshot_is_a_defect_of_the_caller() -> None:
    with pytest.raises(ValueError, match="together with its snapshot"):
        admit_execution(manifest(), validate(TrainingCodeSubmission, documents.submission()))


@pytest.mark.parametrize(
    ("changes", "path", "message"),
    [
        ({"package.key": "letters"}, "package.key", "is 'letters', the package's is 'digits'"),
        ({"package.version": "2.0.0"}, "package.version", "is '2.0.0', the package's is '1.2.3-rc.1+build.5'"),
        ({"runtime.id": "torch"}, "runtime.id", "is 'torch', the package's is 'base'"),
        ({"parameters": {"epochs": 0}}, "parameters.epochs", "is 0, must be at least 1"),
        ({"parameters": {"epochs": "3"}}, "parameters.epochs", "is '3', must be an integer"),
        ({"dataset.data_modalities": ["image", "audio"]}, "dataset.data_modalities",
         "has 'audio', the package reads image"),
        ({"dataset.annotation_kinds": ["box"]}, "dataset.annotation_kinds",
         "has 'box', the package reads class_index"),
        ({"dataset.class_names": ["bus", "car"]}, "dataset.class_names",
         "are the package's in another order, first at [0] ('bus' for 'car'): order matters"),
        ({"dataset.class_names": []}, "dataset.class_names", "are [], the package's are [car, bus]"),
        ({"workspace.output_dir": "/workspace/code"}, "workspace.output_dir", "is the same folder as code_dir"),
        ({"workspace.output_dir": "/workspace/code/./"}, "workspace.output_dir", "is the same folder as code_dir"),
        ({"workspace.output_dir": "/workspace/code/out"}, "workspace.output_dir", "lies inside code_dir"),
        ({"workspace.code_dir": "/workspace/output/code"}, "workspace.code_dir", "lies inside output_dir"),
        ({"model_input.artifact.framework": "jax"}, "model_input.artifact.framework",
         "is 'jax', the package needs 'pytorch'"),
        ({"model_input.artifact.framework": None}, "model_input.artifact.framework",
         "is not known, the package needs 'pytorch'"),
        ({"model_input.artifact.format": "onnx"}, "model_input.artifact.format", "is 'onnx', the package reads pt"),
        ({"model_input.artifact.task_kind": "detection"}, "model_input.artifact.task_kind",
         "is 'detection', the task's is 'classification'"),
        ({"model_input.artifact.resume_supported": False}, "model_input.artifact.resume_supported",
         "is false, must be true to resume"),
        ({"model_input.artifact.class_names": ["cat"]}, "model_input.artifact.class_names",
         "are [cat], the data set's are [car, bus]"),
    ],
)  # fmt: skip
def test_a_disagreement_is_named_with_the_field_to_change(changes, path, message) -> None:
    # another path than the class names' is expected alone; these two stand in two documents
    if "dataset.class_names" in changes:
        changes = changes | {"model_input.artifact.class_names": changes["dataset.class_names"]}
    assert refusal(AdmissionError, admit_execution, manifest(), execution(changes)) == {path: message}


def test_every_disagreement_is_reported_at_once() -> None:
    changes = {"package.key": "letters", "parameters": {"epochs": 0}, "workspace.output_dir": "/workspace/input"}
    with pytest.raises(AdmissionError) as refused:
        admit_execution(manifest(), execution(changes | {"model_input_path": "/workspace/input/m.pt"}))
    assert [found["path"] for found in refused.value.context["violations"]] == [
        "package.key",
        "parameters.epochs",
        "workspace.output_dir",
    ]
    assert all(path in refused.value.message for path in ("package.key", "parameters.epochs", "workspace.output_dir"))


def test_a_task_kind_that_is_not_declared_is_refused() -> None:
    changes = {"task.task_kind": "detection", "dataset.task_kind": "detection"}
    changes |= {"model_input.artifact.task_kind": "detection"}
    assert refusal(AdmissionError, admit_execution, manifest(), execution(changes)) == {
        "task.task_kind": "is 'detection', the package supports classification"
    }


def test_an_input_mode_that_is_not_declared_is_refused() -> None:
    submission = validate(TrainingCodeSubmission, documents.script_submission())
    assert refusal(AdmissionError, admit_execution, manifest(input_modes=["platform_dataset"]), submission) == {
        "input_mode": "is 'script_managed', the package declares platform_dataset"
    }


def test_a_snapshot_of_another_task_kind_is_refused() -> None:
    submission = validate(TrainingCodeSubmission, documents.submission())
    snapshot = validate(DatasetSnapshot, documents.source_manifest() | {"task_kind": "detection"})
    assert refusal(AdmissionError, admit_execution, manifest(), submission, snapshot) == {
        "dataset.task_kind": "is 'detection', the task's is 'classification'"
    }


def test_one_of_several_entries_of_a_task_kind_is_enough() -> None:
    entries = [
        {"task_kind": "classification", "data_modalities": ["audio"]},
        {"task_kind": "classification", "data_modalities": ["image"], "annotation_kinds": ["class_index"]},
    ]
    admit_execution(manifest(supported_tasks=entries), execution())


def test_a_schema_that_is_none_is_refused_before_the_values() -> None:
    broken = manifest().model_copy(update={"parameters_schema": {"type": "object", "required": "epochs"}})
    assert refusal(AdmissionError, admit_execution, broken, execution()) == {
        "parameters_schema.required": "is 'epochs', must be a list"
    }


def test_a_reusable_package_takes_any_class_names() -> None:
    changes = {"dataset.class_names": ["x"], "model_input.artifact.class_names": ["x"]}
    admit_execution(manifest(class_names=[]), execution(changes))


def test_a_required_model_must_come() -> None:
    needing = manifest(model_input_contract__required=True)
    without = execution({"model_input": None, "model_input_path": None})
    assert refusal(AdmissionError, admit_execution, needing, without) == {
        "model_input": "required here: the package starts from a model"
    }


def test_a_package_without_a_model_input_contract_takes_no_model() -> None:
    assert refusal(AdmissionError, admit_execution, manifest(model_input_contract=None), execution()) == {
        "model_input": "not allowed: the package has no model_input_contract"
    }


def test_a_mode_that_is_not_declared_is_refused() -> None:
    assert refusal(
        AdmissionError, admit_execution, manifest(model_input_contract__modes=["initialize"]), execution()
    ) == {"model_input.mode": "is 'resume', the package supports initialize"}


def test_a_waived_task_kind_may_differ() -> None:
    waived = manifest(model_input_contract__require_matching_task_kind=False)
    admit_execution(waived, execution({"model_input.artifact.task_kind": "detection"}))


def test_waived_class_names_may_differ_on_resume() -> None:
    waived = manifest(model_input_contract__require_matching_class_names_for_resume=False)
    admit_execution(waived, execution({"model_input.artifact.class_names": ["x"]}))


def test_an_initial_model_may_have_other_class_names_and_no_checkpoint() -> None:
    changes = {"model_input.mode": "initialize", "model_input.artifact.class_names": ["x"]}
    admit_execution(manifest(), execution(changes | {"model_input.artifact.resume_supported": False}))


# --- results ---------------------------------------------------------------------------------------------------------


def completion(changes: dict[str, Any] | None = None) -> Completion:
    return validate(Completion, changed(documents.completion(), changes or {}))


@pytest.mark.parametrize("make", [completion, lambda: validate(TrainingResult, documents.result())])
def test_what_was_promised_is_admitted(make) -> None:
    admit_result(manifest(), execution(), make())


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"artifacts.1.role": "log", "model.resume_checkpoint_path": None},
         {"artifacts[1]": "is a log, the output_contract declares deployable model, checkpoint, report"}),
        ({"artifacts.0.format": "pt"}, {"artifacts[0].format": "is 'pt', the output_contract allows onnx"}),
        ({"artifacts": [], "model.resume_checkpoint_path": None},
         {"artifacts": "has no deployable model, which the output_contract requires"}),
        ({"artifacts.0.deployable": False},
         {"artifacts[0]": "is a model, the output_contract declares deployable model, checkpoint, report",
          "artifacts": "has no deployable model, which the output_contract requires"}),
        ({"artifacts": [*documents.completion()["artifacts"], documents.completion()["artifacts"][0] | {"path": "b"}]},
         {"artifacts[2]": "is a second deployable model, after artifacts[0]"}),
        ({"model.task_kind": "detection"}, {"model.task_kind": "is 'detection', the task's is 'classification'"}),
        ({"model.class_names": ["bus", "car"]},
         {"model.class_names":
          "are the data set's in another order, first at [0] ('bus' for 'car'): order matters"}),
        ({"model.resume_checkpoint_path": "last.pt"},
         {"model.resume_checkpoint_path": "is 'last.pt', which names no checkpoint artifact"}),
        ({"model.resume_checkpoint_path": "model.onnx"},
         {"model.resume_checkpoint_path": "is 'model.onnx', which names no checkpoint artifact"}),
    ],
)  # fmt: skip
def test_what_was_not_promised_is_refused(changes, expected) -> None:
    assert refusal(ResultRefusedError, admit_result, manifest(), execution(), completion(changes)) == expected


def test_model_metadata_is_required_when_the_contract_says_so() -> None:
    declared = [{"role": "report", "formats": ["json"]}]
    reporting = manifest(output_contract__artifacts=declared)
    done = validate(Completion, {"artifacts": [{"path": "r.json", "role": "report", "format": "json"}]})
    assert refusal(ResultRefusedError, admit_result, reporting, execution(), done) == {
        "model": "required here: the output_contract requires model metadata"
    }


def test_model_metadata_may_be_waived() -> None:
    declared = {"artifacts": [{"role": "report", "formats": ["json"]}], "requires_model_metadata": False}
    done = validate(Completion, {"artifacts": [{"path": "r.json", "role": "report", "format": "json"}]})
    admit_result(manifest(output_contract=declared), execution(), done)


def test_a_result_of_another_execution_is_refused() -> None:
    foreign = validate(TrainingResult, documents.failed_result() | {"execution_id": documents.MESSAGE_ID})
    assert refusal(ResultRefusedError, admit_result, manifest(), execution(), foreign) == {
        "execution_id": f"is {documents.MESSAGE_ID}, the execution's is {documents.EXECUTION_ID}"
    }


def test_a_failed_result_promises_nothing() -> None:
    admit_result(manifest(), execution(), validate(TrainingResult, documents.failed_result()))


def test_a_checkpoint_is_found_however_its_path_is_spelled() -> None:
    admit_result(manifest(), execution(), completion({"model.resume_checkpoint_path": "./checkpoints/last.pt"}))


# --- policy ----------------------------------------------------------------------------------------------------------

ALLOWING = ExecutionPolicy(execution_enabled=True, runtime_ids=("base",), allow_script_managed_data=True)


@pytest.mark.parametrize("make", [documents.submission, documents.script_submission])
def test_what_the_policy_allows_is_admitted(make) -> None:
    admit_policy(validate(TrainingCodeSubmission, make()), ALLOWING)


def test_a_policy_that_says_nothing_allows_nothing() -> None:
    submission = validate(TrainingCodeSubmission, documents.script_submission())
    with pytest.raises(PolicyError) as refused:
        admit_policy(submission, ExecutionPolicy())
    assert refused.value.message == (
        "model-training-runtime.execution.enabled is false; "
        "model-training-runtime.execution.runtime_ids does not allow 'base' (it allows nothing); "
        "model-training-runtime.allow_script_managed_data is false"
    )


def test_the_refusing_setting_is_named() -> None:
    submission = validate(TrainingCodeSubmission, documents.submission())
    with pytest.raises(PolicyError, match=r"^model-training-runtime\.execution\.enabled is false$"):
        admit_policy(submission, ExecutionPolicy(execution_enabled=False, runtime_ids=("base",)))


def test_script_managed_data_does_not_matter_to_a_platform_data_set() -> None:
    submission = validate(TrainingCodeSubmission, documents.submission())
    admit_policy(submission, ExecutionPolicy(execution_enabled=True, runtime_ids=("base",)))
