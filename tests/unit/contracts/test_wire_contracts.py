"""The wire contracts, sentence by sentence in their order: what is accepted, and what is refused under which path."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from contracts.admission import admit_execution, admit_result
from contracts.base import validate
from contracts.errors import AdmissionError, InvalidDocumentError, ResultRefusedError
from contracts.execution import ExecutionRequest
from contracts.package import PackageManifest
from contracts.result import TrainingResult
from tests.assets import documents

DOCUMENTS = {
    "package": documents.package,
    "model_package": documents.model_package,
    "dataset_source_manifest": documents.source_manifest,
    "dataset_manifest": documents.dataset_manifest,
    "mq_submission": documents.submission,
    "execution": documents.execution,
    "event": documents.event,
    "completion": documents.completion,
    "result": documents.result,
}


def changed(document: dict[str, Any], path: tuple[str | int, ...], value: Any) -> dict[str, Any]:
    made = copy.deepcopy(document)
    place: Any = made
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = value
    return made


def written(path: tuple[str | int, ...]) -> str:
    return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path).lstrip(".")


def texts(count: int) -> list[str]:
    return [f"t{index}" for index in range(count)]


# Contract, path, values that it takes, values that it refuses under that very path.
FIELDS: list[tuple[str, tuple[str | int, ...], list[Any], list[Any]]] = [
    # common rules
    ("package", ("key",), ["a", "a1_-", "a" * 128], ["", "A", "1a", "a.b", "a" * 129, "a\n", " a", None]),
    ("package", ("supported_tasks", 0, "task_kind"), ["a_1", "a" * 64], ["A", "a-b", "a" * 65, "a\n", ""]),
    ("model_package", ("framework",), [" PyTorch ", "a.b-c_d", "a" * 128], ["", "1a", "a b", "a" * 129, None]),
    ("model_package", ("format",), [" PT ", "1a", "a" * 64], ["", "-a", "p.t", "a" * 65, None]),
    ("package", ("version",), ["1.2.3", "1.2.3-rc.1", "1.2.3+b"], ["1.2", "v1.2.3", "1.2.3-", "1.2.3\n", 1]),
    ("mq_submission", ("package", "sha256"), ["0" * 64], ["A" * 64, "0" * 63, "0" * 64 + "\n", None]),
    ("checkpoint", ("path",), ["a/b", " a ", "a\\b", "a..b", "..a"], ["", ".", "/a", "a/../b", "..\\a", "C:\\a", None]),
    ("execution", ("workspace", "root_dir"), ["/workspace", "/workspace/a"], ["/", "/workspacex", "workspace", "/workspace/.."]),
    ("event", ("metrics",), [{str(name): 1 for name in range(128)}], [{}, {str(name): 1 for name in range(129)}, {" ": 1}]),
    ("event", ("metrics", "loss"), [1, 0.5, -1e308], ["1", True, None, float("nan"), float("inf")]),
    ("dataset_source_manifest", ("items", 0, "media", "size_bytes"), [0, 3.0, None], [-1, 3.5, "3", True]),
    # package manifest
    ("package", ("name",), ["n" * 200], ["", "n" * 201, None]),
    ("package", ("description",), [None, "d" * 2000], ["d" * 2001]),
    ("package", ("runtime", "id"), ["r" * 128], ["", "r" * 129]),
    ("package", ("runtime", "kind"), ["platform_managed"], ["docker", None]),
    ("package", ("entrypoint",), ["a.py", "a/b.py"], ["a.pyc", "/a.py", "../a.py", ""]),
    ("package", ("supported_tasks", 0, "data_modalities"), [texts(8)], [[], texts(9)]),
    ("package", ("supported_tasks", 0, "annotation_kinds"), [[], texts(16)], [texts(17), None]),
    ("package", ("input_modes",), [["script_managed"], ["script_managed", "platform_dataset"]], [[], None]),
    ("package", ("class_names",), [[], texts(10_000)], [texts(10_001), None]),
    ("package", ("parameters_schema",), [{"type": "object"}], [None, [], True]),
    ("package", ("parameters_schema", "properties"), [{}, {"a": True}], [[], None, 0, ""]),
    ("package", ("model_input_contract",), [None], []),
    ("package", ("model_input_contract", "framework", "version"), ["v" * 128], ["", "v" * 129]),
    ("package", ("model_input_contract", "formats"), [texts(16)], [[], texts(17)]),
    ("package", ("model_input_contract", "modes"), [["resume"]], [[], None]),
    ("package", ("output_contract", "artifacts", 0, "role"), ["model"], ["weights", None]),
    # model package manifest
    ("model_package", ("name",), ["n" * 255], ["", "n" * 256]),
    ("model_package", ("artifact_path",), ["m.pt"], ["training_model_package.json", "./training_model_package.json"]),
    ("model_package", ("resume_checkpoint_path",), [None, "c.pt"], ["weights/model.pt", "./weights/model.pt", "/c.pt"]),
    # data sets
    ("dataset_source_manifest", ("items",), [], [[], None]),
    ("dataset_source_manifest", ("items", 0, "item_id"), ["i" * 256], ["", "i" * 257]),
    ("dataset_source_manifest", ("items", 0, "split"), ["train", "val", "test", "unspecified"], ["valid", None]),
    ("dataset_source_manifest", ("items", 0, "media", "bucket"), ["datasets"], ["default", "models", "annotations"]),
    ("dataset_source_manifest", ("items", 0, "annotation"), [None], []),
    ("dataset_source_manifest", ("items", 0, "annotation", "bucket"), ["annotations"], ["datasets", "default"]),
    ("dataset_source_manifest", ("data_modalities",), [texts(8)], [[], texts(9)]),
    ("dataset_source_manifest", ("class_names",), [[], texts(10_001)], [None, [1]]),
    ("dataset_manifest", ("items",), [[]], [None]),
    ("dataset_manifest", ("items", 0, "media_path"), ["a.png"], ["/workspace/a.png", "../a.png", None]),
    # submission
    ("mq_submission", ("message_id",), [documents.MESSAGE_ID.upper()], ["x", "", 1, None]),
    ("mq_submission", ("task", "task_id"), [1, 3.0], [0, -1, 1.5, "3", True, None]),
    ("mq_submission", ("package_archive", "bucket"), ["default"], ["models"]),
    ("mq_submission", ("package_archive", "sha256"), [], [None]),
    ("mq_submission", ("dataset_source_snapshot",), [], [None]),
    ("mq_submission", ("resources", "gpu_count"), [1, 64], [0, 65, -1, None]),
    ("mq_submission", ("resources", "cpu_cores"), [0.5, 256], [0, 256.5, "2", True]),
    ("mq_submission", ("resources", "memory_bytes"), [1], [0, 0.5]),
    ("mq_submission", ("resources", "timeout_seconds"), [1, 604_800], [0, 604_801]),
    ("mq_submission", ("model_input", "artifact", "object", "bucket"), ["models"], ["default"]),
    ("mq_submission", ("model_input", "artifact", "display_name"), ["d" * 255], ["", "d" * 256]),
    # execution request
    ("execution", ("model_input_path",), ["/workspace/input/a"], ["/workspace/input", "/workspace/output/a", None]),
    ("execution", ("package_manifest",), [None], []),
    ("execution", ("package_manifest", "parameters_schema", "properties", "epochs", "type"), ["integer"], ["int"]),
    # events
    ("event", ("sequence",), [0, 3.0], [-1, "0", True]),
    ("event", ("occurred_at",), ["2030-01-31T12:00:00.5Z", "2030-01-31T12:00:00+00:00"], ["2030-01-31T12:00:00", 1, None]),
    ("event", ("step",), [None, 0], [-1]),
    ("phase", ("phase",), ["p" * 128], ["", "p" * 129]),
    ("phase", ("message",), [None, "m" * 4000], ["m" * 4001]),
    ("log", ("message",), ["m" * 16_000], ["", "m" * 16_001]),
    ("log", ("level",), ["debug", "info", "warning", "error"], ["critical"]),
    # completion and result
    ("completion", ("summary",), [None, "s" * 8000], ["s" * 8001]),
    ("completion", ("model",), [], [None]),
    ("result", ("artifacts", 1, "path"), ["other.pt"], ["model.onnx", "./model.onnx", "/model.onnx"]),
    ("result", ("artifacts", 0, "sha256"), [None], ["x"]),
    ("failed", ("status",), ["failed", "cancelled"], ["done"]),
    ("failed", ("error",), [], [None]),
    ("failed", ("error", "stage"), ["s" * 128], ["", "s" * 129]),
    ("failed", ("error", "error_type"), ["t" * 256], ["", "t" * 257]),
    ("failed", ("error", "message"), ["m" * 8000], ["", "m" * 8001]),
]  # fmt: skip
TAKEN = [(name, path, value) for name, path, taken, _ in FIELDS for value in taken]
REFUSED = [(name, path, value) for name, path, _, refused in FIELDS for value in refused]


def made(name: str) -> tuple[str, dict[str, Any]]:
    if name in {"phase", "log", "checkpoint"}:
        return "event", documents.event(name)
    if name == "failed":
        return "result", documents.failed_result()
    return name, DOCUMENTS[name]()


def named(case: Any) -> str:
    return written(case) if isinstance(case, tuple) else repr(case)[:40]


@pytest.mark.parametrize(("name", "path", "value"), TAKEN, ids=named)
def test_a_value_of_the_contract_is_taken(name: str, path: tuple[str | int, ...], value: Any) -> None:
    contract, document = made(name)
    validate(contract, changed(document, path, value))


@pytest.mark.parametrize(("name", "path", "value"), REFUSED, ids=named)
def test_a_value_that_is_none_of_the_contract_is_refused_by_name(
    name: str, path: tuple[str | int, ...], value: Any
) -> None:
    contract, document = made(name)
    with pytest.raises(InvalidDocumentError) as refused:
        validate(contract, changed(document, path, value))
    places = [violation["path"] for violation in refused.value.context["violations"]]
    assert all(place.startswith(written(path)) for place in places), places


@pytest.mark.parametrize(
    ("schema", "values", "places"),
    [
        ({"x": {"multipleOf": 0.1}}, {"x": 0.3}, []),
        ({"x": {"multipleOf": 0.1}}, {"x": 1e308}, []),
        ({"x": {"multipleOf": 0.1}}, {"x": 0.35}, ["parameters.x"]),
        ({"x": {"multipleOf": 2}}, {"x": 3}, ["parameters.x"]),
        ({"x": False}, {"x": 1}, ["parameters.x"]),
        ({"x": {"items": False}}, {"x": [1]}, ["parameters.x"]),
        ({"x": {"type": "integer"}}, {"x": 3.0}, []),
        ({"x": {"type": "integer"}, "y": {"minimum": 1}}, {"x": "3", "y": 0}, ["parameters.x", "parameters.y"]),
    ],
)
def test_parameters_satisfy_the_schema_or_every_violation_has_its_path(
    schema: dict[str, Any], values: dict[str, Any], places: list[str]
) -> None:
    parameters_schema = {"type": "object", "properties": schema}
    manifest = validate(PackageManifest, documents.package() | {"parameters_schema": parameters_schema})
    execution = validate(ExecutionRequest, documents.execution() | {"parameters": values})
    found: list[dict[str, str]] = []
    try:
        admit_execution(manifest, execution)
    except AdmissionError as refused:
        found = refused.context["violations"]  # type: ignore[assignment]
    assert [violation["path"].split("[")[0] for violation in found] == places


def test_a_deployable_artifact_needs_its_model_metadata_whatever_the_manifest_waives() -> None:
    waived = changed(documents.package(), ("output_contract", "requires_model_metadata"), False)
    with pytest.raises(ResultRefusedError) as refused:
        admit_result(
            validate(PackageManifest, waived),
            validate(ExecutionRequest, documents.execution()),
            validate(TrainingResult, documents.result() | {"model": None}),
        )
    assert refused.value.context["violations"] == [
        {"path": "model", "message": "required here: an artifact is deployable"}
    ]
