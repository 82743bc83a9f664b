"""The manifest of a code package."""

from __future__ import annotations

import pytest

from contracts.base import validate
from contracts.errors import InvalidDocumentError
from contracts.package import PackageManifest
from tests.assets import documents


def violations(**changes) -> dict[str, str]:
    with pytest.raises(InvalidDocumentError) as refused:
        validate(PackageManifest, documents.package() | changes)
    return {found["path"]: found["message"] for found in refused.value.context["violations"]}


def task(**changes) -> dict:
    return {"task_kind": "detection", "data_modalities": ["image"], "annotation_kinds": []} | changes


def output(*artifacts) -> dict:
    return {"artifacts": list(artifacts), "requires_model_metadata": True}


@pytest.mark.parametrize(
    ("changes", "path"),
    [
        ({"key": "1digits"}, "key"),
        ({"key": "a" * 129}, "key"),
        ({"key": "digits\n"}, "key"),
        ({"name": ""}, "name"),
        ({"name": "x" * 201}, "name"),
        ({"description": "x" * 2001}, "description"),
        ({"runtime": {"id": "x" * 129}}, "runtime.id"),
        ({"runtime": {"id": "base", "kind": "docker"}}, "runtime.kind"),
        ({"entrypoint": "src/train"}, "entrypoint"),
        ({"entrypoint": "../train.py"}, "entrypoint"),
        ({"supported_tasks": []}, "supported_tasks"),
        ({"supported_tasks": [task()] * 33}, "supported_tasks"),
        ({"supported_tasks": [task(task_kind="Detection")]}, "supported_tasks[0].task_kind"),
        ({"supported_tasks": [task(data_modalities=[])]}, "supported_tasks[0].data_modalities"),
        ({"supported_tasks": [task(data_modalities=list("abcdefghi"))]}, "supported_tasks[0].data_modalities"),
        ({"supported_tasks": [task(data_modalities=["a", " a"])]}, "supported_tasks[0].data_modalities[1]"),
        ({"supported_tasks": [task(annotation_kinds=list("abcdefghijklmnopq"))]}, "supported_tasks[0].annotation_kinds"),
        ({"input_modes": []}, "input_modes"),
        ({"input_modes": ["platform_dataset", "platform_dataset"]}, "input_modes[1]"),
        ({"input_modes": ["upload"]}, "input_modes[0]"),
        ({"class_names": ["a", ""]}, "class_names[1]"),
        ({"class_names": [str(name) for name in range(10_001)]}, "class_names"),
        ({"parameters_schema": {"type": "array"}}, "parameters_schema.type"),
        ({"parameters_schema": {}}, "parameters_schema.type"),
        ({"parameters_schema": {"type": "object", "properties": {"x": {"type": "int"}}}},
         "parameters_schema.properties.x.type"),
        ({"parameters_schema": {"type": "object", "$ref": "https://example.com/s"}}, "parameters_schema.$ref"),
        ({"output_contract": output()}, "output_contract.artifacts"),
        ({"output_contract": output({"role": "weights", "formats": ["pt"]})}, "output_contract.artifacts[0].role"),
        ({"output_contract": output({"role": "model", "formats": []})}, "output_contract.artifacts[0].formats"),
        ({"output_contract": output({"role": "log", "formats": ["txt"], "deployable": True})},
         "output_contract.artifacts[0].deployable"),
        ({"output_contract": output(*[{"role": "log", "formats": ["txt"]}] * 2)}, "output_contract.artifacts[1]"),
        ({"model_input_contract": {"formats": ["pt"], "modes": ["initialize"]}}, "model_input_contract.framework"),
    ],
)  # fmt: skip
def test_what_the_contract_forbids_is_refused_with_its_path(changes, path) -> None:
    assert list(violations(**changes)) == [path]


def test_a_refused_entry_is_not_also_reported_as_a_missing_one() -> None:
    changes = {"output_contract": output({"role": "model", "formats": ["ON NX"]})}
    assert list(violations(**changes)) == ["output_contract.artifacts[0].formats[0]"]


def test_a_model_may_be_declared_once_to_deploy_and_once_not() -> None:
    declared = [
        {"role": "model", "formats": ["onnx"], "deployable": True},
        {"role": "model", "formats": ["pt"], "deployable": False},
    ]
    manifest = validate(PackageManifest, documents.package() | {"output_contract": output(*declared)})
    assert [entry.deployable for entry in manifest.output_contract.artifacts] == [True, False]


def test_ten_thousand_class_names_are_accepted() -> None:
    names = [f"class {index}" for index in range(10_000)]
    assert len(validate(PackageManifest, documents.package() | {"class_names": names}).class_names) == 10_000


def test_unique_values_are_trimmed() -> None:
    assert validate(PackageManifest, documents.package() | {"class_names": [" car ", "bus\n"]}).class_names == (
        "car",
        "bus",
    )


def test_a_symbol_that_is_no_name_is_still_the_contracts_to_accept() -> None:
    assert validate(PackageManifest, documents.package() | {"entrypoint_symbol": "main"}).entrypoint_symbol == "main"
