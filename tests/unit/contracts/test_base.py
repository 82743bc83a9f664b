"""What holds for every document: strictness, defaults, paths and sentences."""

from __future__ import annotations

import json
import pickle
from typing import Any

import pytest
from pydantic import ValidationError

from contracts.base import ANNOUNCED, CONTRACTS, guess_contract, validate
from contracts.dataset import DatasetSnapshot
from contracts.errors import InvalidDocumentError
from contracts.limits import MAX_VIOLATIONS
from contracts.package import PackageManifest
from contracts.result import TrainingResult
from contracts.submission import TrainingCodeSubmission
from tests.assets import documents


def violations(contract: Any, content: Any) -> dict[str, str]:
    with pytest.raises(InvalidDocumentError) as refused:
        validate(contract, content)
    return {found["path"]: found["message"] for found in refused.value.context["violations"]}


@pytest.mark.parametrize("contract", CONTRACTS)
def test_a_whole_document_is_its_own_normalized_form(contract) -> None:
    document = documents.WHOLE[contract]()
    assert validate(contract, json.dumps(document)).to_document() == document


@pytest.mark.parametrize("kind", ["phase", "log", "metric", "checkpoint"])
def test_every_kind_of_event_is_its_own_normalized_form(kind) -> None:
    assert validate("event", documents.event(kind)).to_document() == documents.event(kind)


@pytest.mark.parametrize("contract", CONTRACTS)
def test_the_smallest_document_is_accepted(contract) -> None:
    document = documents.smallest(contract)
    assert validate(contract, json.dumps(document)).to_document().items() >= {
        (name, value) for name, value in document.items() if isinstance(value, str) and name != "occurred_at"
    }


@pytest.mark.parametrize(
    ("contract", "defaults"),
    [
        (
            "package",
            {
                "description": None,
                "entrypoint_symbol": "train",
                "input_modes": ["platform_dataset"],
                "class_names": [],
                "parameters_schema": {"type": "object", "properties": {}},
                "model_input_contract": None,
                "runtime": {"id": "base", "kind": "platform_managed"},
                "supported_tasks": [
                    {"task_kind": "detection", "data_modalities": ["image"], "annotation_kinds": []},
                ],
                "output_contract": {
                    "artifacts": [{"role": "model", "formats": ["onnx"], "required": True, "deployable": False}],
                    "requires_model_metadata": True,
                },
            },
        ),
        ("model_package", {"class_names": [], "resume_checkpoint_path": None, "metadata": {}}),
        (
            "dataset_source_manifest",
            {
                "annotation_kinds": [],
                "class_names": [],
                "items": [
                    {
                        "item_id": "a",
                        "split": "unspecified",
                        "media": {"bucket": "datasets", "object_key": "a.png", "sha256": None, "size_bytes": None},
                        "annotation": None,
                        "metadata": {},
                    }
                ],
            },
        ),
        ("dataset_manifest", {"annotation_kinds": [], "class_names": [], "items": []}),
        (
            "mq_submission",
            {
                "input_mode": "platform_dataset",
                "script_dataset": None,
                "parameters": {},
                "model_input": None,
                "resources": {
                    "device": "cpu",
                    "gpu_count": 0,
                    "cpu_cores": 1.0,
                    "memory_bytes": 2**30,
                    "timeout_seconds": 3600,
                },
            },
        ),
        (
            "execution",
            {
                "input_mode": "platform_dataset",
                "parameters": {},
                "model_input": None,
                "model_input_path": None,
                "package_manifest": None,
            },
        ),
        ("event", {"split": "train", "epoch": None, "step": None, "metrics": {"loss": 1.0}}),
        ("completion", {"summary": None, "metrics": {}, "artifacts": [], "model": None}),
        ("result", {"summary": None, "metrics": {}, "artifacts": [], "model": None, "error": None}),
    ],
)
def test_what_is_left_out_has_the_contracts_value(contract, defaults) -> None:
    found = validate(contract, documents.smallest(contract)).to_document()
    assert {name: found[name] for name in defaults} == defaults


@pytest.mark.parametrize("contract", ANNOUNCED)
def test_the_version_is_required_on_the_wire(contract) -> None:
    document = documents.WHOLE[contract]()
    del document["protocol_version"]
    assert violations(contract, document)["protocol_version"] == "required here"


@pytest.mark.parametrize("contract", ANNOUNCED)
def test_another_version_is_refused(contract) -> None:
    found = violations(contract, documents.WHOLE[contract]() | {"protocol_version": "training/v2"})
    assert found == {"protocol_version": f"is 'training/v2', must be '{CONTRACTS[contract].version}'"}


def test_the_version_of_a_document_inside_another_is_required_too() -> None:
    document = documents.script_submission()
    del document["script_dataset"]["protocol_version"]
    assert violations("mq_submission", document) == {"script_dataset.protocol_version": "required here"}


def test_python_code_may_leave_the_version_out() -> None:
    result = TrainingResult(execution_id=documents.EXECUTION_ID, status="succeeded")
    assert result.to_document()["protocol_version"] == TrainingResult.protocol_version == "training-result/v1"


def test_a_document_is_frozen() -> None:
    result = TrainingResult(execution_id=documents.EXECUTION_ID, status="succeeded")
    with pytest.raises(ValidationError, match="frozen"):
        result.summary = "changed"  # type: ignore[misc]


def test_a_document_crosses_process_boundaries() -> None:
    document = validate(TrainingCodeSubmission, documents.submission())
    assert pickle.loads(pickle.dumps(document)) == document


def test_a_version_is_asked_for_by_an_example() -> None:
    found = violations("package", documents.package() | {"version": "1.0"})

    assert found == {"version": "is '1.0', must be a semantic version, such as 1.0.0"}


def test_every_violation_is_reported_at_once_with_its_path() -> None:
    document = documents.package() | {"key": "Digits", "version": 3, "extra": 1, "class_names": ["a", "a", " "]}
    del document["name"]
    document["runtime"] = {"id": "", "url": "x"}
    document["supported_tasks"][0]["data_modalities"] = "image"
    document["output_contract"]["artifacts"][1] |= {"deployable": True, "z": 1}

    assert violations("package", document) == {
        "key": "is 'Digits', must match ^[a-z][a-z0-9_-]{0,127}$",
        "version": "is 3, must be text",
        "name": "required here",
        "runtime.id": "is empty",
        "runtime.url": "unknown field; known here: id, kind",
        "supported_tasks[0].data_modalities": "is text, must be a list",
        "class_names[1]": "repeats 'a' of [0]",
        "class_names[2]": "is blank",
        "output_contract.artifacts[1].z": "unknown field; known here: role, formats, required, deployable",
        "extra": f"unknown field; known here: {', '.join(PackageManifest.model_fields)}",
    }


def test_rules_across_fields_are_reported_beside_the_others() -> None:
    document = documents.submission() | {"message_id": 7, "dataset_source_snapshot": None}
    assert violations("mq_submission", document) == {
        "message_id": "is a number, must be a UUID",
        "dataset_source_snapshot": "required here for input_mode platform_dataset",
    }


def test_rules_across_fields_say_nothing_about_an_invalid_field() -> None:
    document = documents.submission() | {"dataset_source_snapshot": {"bucket": "default"}}
    assert set(violations("mq_submission", document)) == {
        "dataset_source_snapshot.object_key",
        "dataset_source_snapshot.sha256",
        "dataset_source_snapshot.size_bytes",
    }


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("3", "is text, must be an integer"),
        (True, "is true, must be an integer"),
        (3.5, "is 3.5, must be an integer"),
        (None, "is null, must be an integer"),
        ([], "is a list, must be an integer"),
        (0, "is 0, must be at least 1"),
        pytest.param(
            10**5000, "is a number of more than 75 digits, must be at most 9223372036854775807", id="5 001 digits"
        ),
        (2**63, "is 9223372036854775808, must be at most 9223372036854775807"),
        (1e300, "is 1e+300, must be an integer"),
        (float("inf"), "is inf, must be an integer"),
    ],
)
def test_what_is_no_integer_is_refused(value, message) -> None:
    document = documents.submission()
    document["task"]["task_id"] = value
    assert violations("mq_submission", document) == {"task.task_id": message}


def test_a_whole_float_is_an_integer() -> None:
    document = documents.submission()
    document["task"]["task_id"] = 4711.0
    assert repr(validate(TrainingCodeSubmission, document).task.task_id) == "4711"


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("1", "is text, must be a number"),
        (True, "is true, must be a number"),
        (float("nan"), "is not a finite number"),
        (0, "is 0, must be greater than 0"),
        (256.5, "is 256.5, must be at most 256"),
    ],
)
def test_what_is_no_number_is_refused(value, message) -> None:
    document = documents.submission()
    document["resources"]["cpu_cores"] = value
    assert violations("mq_submission", document) == {"resources.cpu_cores": message}


def test_a_number_beyond_doubles_is_refused_in_typed_fields_and_free_maps() -> None:
    document = json.dumps(documents.submission()).replace("2.5", "1e400").replace('"epochs": 3', '"a": [1e400]')
    assert violations("mq_submission", document) == {
        "parameters.a[0]": "is not a finite number",
        "resources.cpu_cores": "is not a finite number",
    }


def test_a_flag_is_true_or_false() -> None:
    document = documents.completion()
    document["artifacts"][0]["deployable"] = "true"
    assert violations("completion", document) == {"artifacts[0].deployable": "is text, must be true or false"}


@pytest.mark.parametrize("content", [b"[]", b"3", b'"x"', b"null"])
def test_a_document_is_an_object(content) -> None:
    assert next(iter(violations("package", content).values())).endswith("must be an object")


def test_a_key_given_twice_is_refused() -> None:
    content = json.dumps(documents.submission()).replace('"task_id": 4711', '"task_id": 1, "task_id": 4711')
    assert violations("mq_submission", content) == {"task.task_id": "is given twice"}


@pytest.mark.parametrize(
    ("path", "normalized"),
    [(" a/b.onnx ", "a/b.onnx"), ("a\\b.onnx", "a/b.onnx"), ("a/b c.onnx", "a/b c.onnx"), ("ä/图.onnx", "ä/图.onnx"),
     ("...", "..."), (".hidden", ".hidden"), ("a..b", "a..b")],
)  # fmt: skip
def test_a_relative_path_is_trimmed_and_has_forward_slashes(path, normalized) -> None:
    document = documents.completion()
    document["artifacts"][0]["path"] = path
    assert validate("completion", document).to_document()["artifacts"][0]["path"] == normalized


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("", "is empty"),
        ("  ", "is empty"),
        (".", "names no file"),
        ("./.", "names no file"),
        ("/", "is absolute"),
        ("/etc/passwd", "is absolute"),
        ("\\etc", "is absolute"),
        ("C:\\x", "is absolute"),
        ("..", "has a '..' part"),
        ("a/../b", "has a '..' part"),
        ("a\\..\\b", "has a '..' part"),
        ("a\0b", "has a NUL character"),
    ],
)
def test_a_path_that_leads_elsewhere_is_refused(path, reason) -> None:
    document = documents.completion()
    document["artifacts"][0]["path"] = path
    assert violations("completion", document)["artifacts[0].path"].endswith(f"must be a relative path: it {reason}")


@pytest.mark.parametrize("path", ["workspace", "/workspaces", "/tmp", "/workspace/../etc", "/workspace/a\\b", ""])
def test_a_workspace_path_lies_in_the_workspace(path) -> None:
    document = documents.execution()
    document["workspace"]["root_dir"] = path
    assert violations("execution", document)["workspace.root_dir"].endswith("must be /workspace or a path below it")


@pytest.mark.parametrize(
    "written",
    [
        documents.EXECUTION_ID.upper(),
        documents.EXECUTION_ID.replace("-", ""),
        "{" + documents.EXECUTION_ID + "}",
        "urn:uuid:" + documents.EXECUTION_ID,
    ],
)
def test_a_uuid_is_normalized(written) -> None:
    assert (
        validate(TrainingResult, documents.result() | {"execution_id": written}).execution_id == documents.EXECUTION_ID
    )


@pytest.mark.parametrize("written", ["", "7", documents.EXECUTION_ID + "\n", documents.EXECUTION_ID[:-1], 7, None])
def test_what_is_no_uuid_is_refused(written) -> None:
    found = violations("result", documents.result() | {"execution_id": written})
    assert found["execution_id"].endswith("must be a UUID")


@pytest.mark.parametrize(
    "version", ["1.2", "1.2.3.4", "v1.2.3", "01.2.3", "1.2.3-", "1.2.3+", "1.2.3-a..b", "1.2.3\n", "", "1.2.3 "]
)
def test_a_version_is_semantic(version) -> None:
    assert "version" in violations("package", documents.package() | {"version": version})


def test_framework_and_format_are_trimmed_and_lower_cased() -> None:
    document = documents.model_package() | {"framework": " PyTorch\n", "format": "\tSafe_Tensors "}
    found = validate("model_package", document).to_document()
    assert (found["framework"], found["format"]) == ("pytorch", "safe_tensors")


def test_a_free_map_says_where_it_breaks() -> None:
    document = documents.submission() | {"parameters": {"a": {"b": [1, float("nan")]}, "c": object()}}
    assert violations("mq_submission", document) == {
        "parameters.a.b[1]": "is not a finite number",
        "parameters.c": "is a Python object, which JSON cannot carry",
    }


def test_metric_names_are_not_blank() -> None:
    assert violations("completion", {"metrics": {" ": 1}}) == {"metrics": "has a blank name"}


def test_there_are_128_metrics_at_most() -> None:
    metrics = {f"m{index}": 1 for index in range(129)}
    assert violations("completion", {"metrics": metrics}) == {"metrics": "has 129 entries, may have 128"}


@pytest.mark.parametrize("contract", ANNOUNCED)
def test_the_contract_is_guessed_by_its_version(contract) -> None:
    assert guess_contract(documents.WHOLE[contract]()) == contract


@pytest.mark.parametrize(
    ("document", "path", "message"),
    [
        ({"protocol_version": "x/v9"}, "protocol_version", "is 'x/v9', must be one of training-code-package/v1"),
        ({}, "protocol_version", "required here, one of training-code-package/v1"),
        ([], "", "is a list, must be an object"),
    ],
)
def test_an_unknown_version_is_refused_with_the_known_ones(document, path, message) -> None:
    with pytest.raises(InvalidDocumentError) as refused:
        guess_contract(document)
    (found,) = refused.value.context["violations"]
    assert found["path"] == path
    assert found["message"].startswith(message)


def test_a_model_that_is_not_announced_is_named_after_its_class() -> None:
    with pytest.raises(InvalidDocumentError, match="not a valid dataset_snapshot document"):
        validate(DatasetSnapshot, {})


def test_a_model_class_may_stand_for_the_contracts_name() -> None:
    with pytest.raises(InvalidDocumentError, match="not a valid mq_submission document"):
        validate(TrainingCodeSubmission, {})


@pytest.mark.parametrize("where", ["document", "free map"])
def test_of_very_many_violations_the_first_are_named_and_that_there_are_more(where) -> None:
    many = dict.fromkeys((f"f{number}" for number in range(2 * MAX_VIOLATIONS)), float("nan"))
    document = {**documents.submission(), **(many if where == "document" else {"parameters": many})}

    with pytest.raises(InvalidDocumentError) as refused:
        validate("mq_submission", document)
    found = refused.value.context["violations"]

    assert found[0]["path"].endswith("f0")
    assert len(found) == MAX_VIOLATIONS + 1
    assert found[-1] == {"path": "", "message": "has more violations than the first 1000, named here"}
