"""The `context` of a package."""

from __future__ import annotations

import pytest

from contracts.base import validate
from contracts.errors import InvalidDocumentError
from contracts.execution import ExecutionRequest
from tests.assets import documents


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        (
            {"dataset": documents.dataset_manifest() | {"task_kind": "detection"}},
            {"dataset.task_kind": "is 'detection', the task's is 'classification'"},
        ),
        ({"input_mode": "script_managed"}, {"dataset.items": "must be empty for input_mode script_managed"}),
        ({"model_input": None}, {"model_input": "required here: model_input_path is given"}),
        ({"model_input_path": None}, {"model_input_path": "required here: model_input is given"}),
        (
            {"model_input_path": "/workspace/output/x.pt"},
            {"model_input_path": "must lie under input_dir /workspace/input"},
        ),
        (
            {"model_input_path": "/workspace/inputs/x.pt"},
            {"model_input_path": "must lie under input_dir /workspace/input"},
        ),
        ({"model_input_path": "/workspace/input/"}, {"model_input_path": "must lie under input_dir /workspace/input"}),
        ({"package_manifest": {}}, None),
        ({"attempt": 1}, None),
    ],
)
def test_what_the_contract_forbids_is_refused_with_its_path(changes, expected) -> None:
    with pytest.raises(InvalidDocumentError) as refused:
        validate(ExecutionRequest, documents.execution() | changes)
    found = {violation["path"]: violation["message"] for violation in refused.value.context["violations"]}
    if expected is None:
        assert next(iter(found)).startswith(next(iter(changes)))
    else:
        assert found == expected
