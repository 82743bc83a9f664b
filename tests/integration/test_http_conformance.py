"""The running API against its own OpenAPI document: no answer that it does not describe, and no failure of ours."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis.core.failures import FailureGroup
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from tests.assets.api_server import ApiServer

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.service, pytest.mark.timeout(600)]

schemathesis.serializer.alias("application/zip", "application/octet-stream")

TOKEN = "conformance"
EXAMPLES_EACH = 5
"""Of some thirty operations: half a minute on an idle machine."""


def test_no_answer_is_one_that_the_openapi_document_does_not_describe(tmp_path: Path) -> None:
    with ApiServer(tmp_path / "home", MTR_API_TOKEN=TOKEN) as api:
        described = schemathesis.openapi.from_url(f"{api.address}/openapi.json")
        operations = [found.ok() for found in described.get_all_operations()]
        wrong = {operation.label: said for operation in operations if (said := undescribed(operation))}
    assert len(operations) > 25
    assert wrong == {}


def undescribed(operation: Any) -> list[str]:
    """What is wrong with the answers to `EXAMPLES_EACH` requests that the document allows, and as many that it does not."""
    said: dict[str, None] = {}

    @given(case=operation.as_strategy())
    @settings(
        max_examples=EXAMPLES_EACH,
        derandomize=True,
        database=None,
        deadline=None,
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    def ask(case: Any) -> None:
        answer = case.call(headers={**(case.headers or {}), "Authorization": f"Bearer {TOKEN}"}, timeout=30)
        if answer.status_code >= 500 and answer.status_code != 503:
            said[f"{answer.status_code}: {answer.text[:300]}"] = None
        checks = [content_type_conformance, response_schema_conformance, status_code_conformance]
        try:
            case.validate_response(answer, checks=checks)
        except FailureGroup as failed:
            for one in failed.exceptions:
                said[f"{type(one).__name__} {answer.status_code}: {str(one)[:300]} in {answer.text[:200]}"] = None

    ask()
    return list(said)
