"""The OpenAPI document and the page beside it: what they show is true."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from contracts.base import validate
from contracts.errors import InvalidDocumentError
from contracts.examples import EXAMPLES
from contracts.limits import MAX_DOCUMENT_DEPTH, MAX_HEADER_BYTES, MAX_JSON_BODY_BYTES, MAX_VALIDATED_BODY_BYTES
from services.api.access import is_write
from services.api.application import create_application
from services.api.checks import CHECKS

if TYPE_CHECKING:
    from runtime.installation import Installation

PAGE = Path(__file__).parents[4] / "docs" / "http-api.md"


@pytest.fixture(scope="module")
def operations() -> dict[tuple[str, str], dict[str, Any]]:
    """(method, path) -> operation."""
    application: Any = create_application(_no_installation())
    document = application.openapi()
    return {
        (method.upper(), path): operation
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
    }


def _no_installation() -> Installation:
    """What describes the API needs none."""
    return object()  # type: ignore[return-value]


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_example_of_a_document_is_valid(name: str) -> None:
    validate(name, json.dumps(EXAMPLES[name]).encode())


def test_the_example_documents_agree_with_each_other(operations: dict[tuple[str, str], dict[str, Any]]) -> None:
    for path, check in (("execution", "admission_of_execution"), ("result", "admission_of_result")):
        body = operations["POST", f"/v1/admission/{path}/validate"]["requestBody"]["content"]["application/json"]
        assert json.loads(CHECKS[check](json.dumps(body["example"]).encode()))["valid"] is True


def test_every_json_body_has_an_example(operations: dict[tuple[str, str], dict[str, Any]]) -> None:
    without = [
        path
        for (_, path), operation in operations.items()
        for kind, content in operation.get("requestBody", {}).get("content", {}).items()
        if kind == "application/json" and "example" not in content
    ]
    assert without == []


def test_every_json_answer_has_an_example(operations: dict[tuple[str, str], dict[str, Any]]) -> None:
    without = [
        (operation, status)
        for operation, described in operations.items()
        for status, answer in described["responses"].items()
        for kind, content in answer.get("content", {}).items()
        if status < "300" and kind == "application/json" and "example" not in content
    ]
    assert without == []


def test_a_checked_document_is_shown_with_its_answer(operations: dict[tuple[str, str], dict[str, Any]]) -> None:
    answer = operations["POST", "/v1/contracts/event/validate"]["responses"]["200"]["content"]["application/json"]
    normalized = validate("event", json.dumps(EXAMPLES["event"]).encode()).to_document()
    assert answer["example"] == {"valid": True, "contract": "training-event/v1", "normalized": normalized}


def test_every_write_says_that_a_token_may_be_missing(operations: dict[tuple[str, str], dict[str, Any]]) -> None:
    for (method, path), operation in operations.items():
        assert ("401" in operation["responses"]) == is_write(method, path), path


def test_the_page_shows_what_a_refusal_says() -> None:
    (shown,) = (json.loads(block) for block in re.findall(r"```json\n(.*?)```", PAGE.read_text(), re.DOTALL))
    event = {name: value for name, value in EXAMPLES["event"].items() if name != "sequence"}
    with pytest.raises(InvalidDocumentError) as refused:
        validate("event", json.dumps(event).encode())
    said = refused.value.to_document()
    assert shown == {"detail": said["message"], **{name: said[name] for name in ("code", "hint", "context")}}


def test_the_page_names_the_bounds_that_hold() -> None:
    page = PAGE.read_text()
    assert f"at most {MAX_JSON_BODY_BYTES // 2**20} MiB (413)" in page
    assert f"only checked {MAX_VALIDATED_BODY_BYTES // 2**20} MiB" in page
    assert f"headers {MAX_HEADER_BYTES // 2**10} KiB (431)" in page
    assert f"JSON {MAX_DOCUMENT_DEPTH} levels" in page
