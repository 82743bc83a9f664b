"""Completions and results."""

from __future__ import annotations

import pytest

from contracts.base import validate
from contracts.errors import InvalidDocumentError
from tests.assets import documents


def violations(contract, document) -> dict[str, str]:
    with pytest.raises(InvalidDocumentError) as refused:
        validate(contract, document)
    return {found["path"]: found["message"] for found in refused.value.context["violations"]}


ARTIFACT = {"path": "a.txt", "role": "report", "format": "txt"}
MEASURED = ARTIFACT | {"size_bytes": 1, "sha256": documents.DIGEST}


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"model": None}, {"model": "required here: an artifact is deployable"}),
        ({"summary": "x" * 8001}, {"summary": "has 8001 characters, may have 8000"}),
        ({"artifacts": [ARTIFACT] * 129}, {"artifacts": "has 129 entries, may have 128"}),
        ({"artifacts": [ARTIFACT | {"role": "weights"}]},
         {"artifacts[0].role": "is 'weights', must be one of 'model', 'checkpoint', 'report', 'log' or 'other'"}),
        ({"artifacts": [ARTIFACT | {"size_bytes": 1}]},
         {"artifacts[0].size_bytes": "unknown field; known here: path, role, format, deployable, metadata"}),
        ({"model": {"task_kind": "x"}}, {"model.framework": "required here"}),
    ],
)  # fmt: skip
def test_a_completion_that_breaks_the_contract_is_refused(changes, expected) -> None:
    assert violations("completion", documents.completion() | changes) == expected


@pytest.mark.parametrize("status", ["failed", "cancelled"])
def test_without_success_there_is_an_error(status) -> None:
    document = documents.failed_result() | {"status": status, "error": None}
    assert violations("result", document) == {"error": f"required here for status {status}"}


def test_with_success_there_is_no_error() -> None:
    document = documents.failed_result() | {"status": "succeeded"}
    assert violations("result", document) == {"error": "not allowed for status succeeded"}


def test_a_failed_result_is_its_own_normalized_form() -> None:
    assert validate("result", documents.failed_result()).to_document() == documents.failed_result()


def test_no_path_occurs_twice_however_it_is_spelled() -> None:
    document = documents.result() | {"artifacts": [MEASURED, MEASURED | {"path": "./a.txt"}]}
    assert violations("result", document) == {"artifacts[1].path": "repeats that of artifacts[0]"}


def test_the_digest_of_a_result_artifact_may_be_unknown() -> None:
    document = documents.result() | {"artifacts": [ARTIFACT | {"size_bytes": 1}]}
    assert validate("result", document).to_document()["artifacts"][0]["sha256"] is None


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("stage", "", "is empty"),
        ("stage", "x" * 129, "has 129 characters, may have 128"),
        ("error_type", "", "is empty"),
        ("error_type", "x" * 257, "has 257 characters, may have 256"),
        ("message", "", "is empty"),
        ("message", "x" * 8001, "has 8001 characters, may have 8000"),
        ("retryable", "no", "is text, must be true or false"),
    ],
)
def test_an_error_is_bounded(field, value, message) -> None:
    document = documents.failed_result()
    document["error"][field] = value
    assert violations("result", document) == {f"error.{field}": message}
