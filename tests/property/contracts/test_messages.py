"""Whatever an execution ends with: what the platform is told of it is valid, and is the same when it is told again."""

from __future__ import annotations

import json
from datetime import UTC

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from contracts.base import validate
from contracts.messages import ModelRegistered, TaskLog, TaskStatusUpdate, ended, log, model_registered, refused
from contracts.result import TrainingResult
from contracts.schemas import rendered
from runtime.ledger import OutboxMessage
from tests.assets.document_strategies import DOCUMENTS

SCHEMAS = {
    model: Draft202012Validator(json.loads(rendered()[f"{name}.json"]))
    for name, model in (
        ("task_status_update", TaskStatusUpdate),
        ("task_log", TaskLog),
        ("model_registered", ModelRegistered),
    )
}
thorough = settings(max_examples=50, deadline=None, suppress_health_check=list(HealthCheck))
moments = st.datetimes(timezones=st.just(UTC))
task_ids = st.integers(1, 2**63 - 1)


def require_valid(message) -> None:
    body = OutboxMessage.of(message, 1).body
    SCHEMAS[type(message)].validate(json.loads(json.dumps(body)))
    again = validate(type(message), json.dumps(body))
    assert again.to_document() == body


def stored(result: TrainingResult) -> list[dict]:
    return [
        {
            "artifact": artifact.to_document(),
            "object": {"bucket": "models", "object_key": f"k/{n}", "sha256": "a" * 64, "size_bytes": 1},
        }
        for n, artifact in enumerate(result.artifacts)
    ]


@given(document=DOCUMENTS["result"], task_id=task_ids, at=moments, said=st.text(max_size=50))
@thorough
def test_an_end_is_told_validly(document, task_id, at, said) -> None:
    result = validate(TrainingResult, json.dumps(document))
    require_valid(
        ended(task_id=task_id, timestamp=at, result=result, artifacts=stored(result), message=f"registered {said}")
    )


@given(document=DOCUMENTS["result"], task_id=task_ids, at=moments)
@thorough
def test_a_model_is_told_validly_or_not_at_all(document, task_id, at) -> None:
    result = validate(TrainingResult, json.dumps(document))
    told = model_registered(
        task_id=task_id,
        timestamp=at,
        package_key="digits",
        onnx_save_path="k/m.onnx",
        result=result,
        artifacts=stored(result),
    )
    if told is not None:
        require_valid(told)


@given(content=st.text(min_size=1), level=st.sampled_from(["debug", "info", "warning", "error"]), at=moments)
@thorough
def test_a_line_is_told_validly(content, level, at) -> None:
    require_valid(log(task_id=1, timestamp=at, level=level, content=content))


@given(
    at=moments, task_id=task_ids, message=st.text(max_size=9_000), hint=st.text(), execution_id=st.none() | st.uuids()
)
@thorough
def test_a_refusal_is_told_validly(at, task_id, message, hint, execution_id) -> None:
    require_valid(
        refused(
            task_id=task_id,
            timestamp=at,
            code="invalid_document",
            message=message,
            hint=hint,
            execution_id=execution_id and str(execution_id),
        )
    )
