"""What the OpenAPI document says of bodies that handlers read themselves, and of what each endpoint may refuse.

Documents are checked by the contracts, at once and with every violation, and not by the framework; the framework therefore
does not know them. Their schemas and examples are put in here.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from fastapi import FastAPI

from contracts.base import CONTRACTS
from contracts.examples import EXAMPLES
from services.api.access import is_write
from services.api.checks import CHECKS
from services.api.failures import Refusal

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_DOCUMENTS: Final = {
    "/v1/contracts/package/validate": "package",
    "/v1/contracts/dataset-manifest/validate": "dataset_manifest",
    "/v1/contracts/dataset-source-manifest/validate": "dataset_source_manifest",
    "/v1/contracts/execution/validate": "execution",
    "/v1/contracts/event/validate": "event",
    "/v1/contracts/result/validate": "result",
    "/v1/contracts/mq-submission/validate": "mq_submission",
    "/v1/registrations/dataset-snapshots": "dataset_source_manifest",
    "/v1/executions": "mq_submission",
    "/v1/executions/run": "mq_submission",
}
"""POST path -> the contract of its body."""
_ADMISSIONS: Final = {
    "/v1/admission/execution/validate": ("manifest", "execution"),
    "/v1/admission/result/validate": ("manifest", "execution", "result"),
}
_ADMITTED: Final = {"manifest": "package", "execution": "execution", "result": "result"}
_REFUSALS: Final = {
    401: "It changes something, and bears no valid token.",
    404: "There is nothing of this name.",
    405: "The path does not take this method.",
    408: "The body came too slowly.",
    409: "The name exists with other content, or something else is in the way; `detail` says what.",
    413: "The body is over a size limit.",
    415: "The body is something else than what the path takes.",
    422: "Refused; `context.violations`, where it is there, lists every reason.",
    431: "The address and headers are too long.",
    503: "The operator's settings refuse it, or something outside is away.",
}
_WITHOUT_INSTALLATION: Final = frozenset({"/health", "/v1/contracts"})
_REF: Final = "#/components/schemas/"


class DescribedApplication(FastAPI):
    """The framework's application, whose OpenAPI document is complete: bodies, examples and refusals included."""

    def openapi(self) -> dict[str, Any]:
        """See the class. Made once."""
        if self.openapi_schema is None:
            self.openapi_schema = _completed(super().openapi())
        return self.openapi_schema


def _completed(document: dict[str, Any]) -> dict[str, Any]:
    components = document.setdefault("components", {}).setdefault("schemas", {})
    components["Refusal"] = Refusal.model_json_schema(ref_template=_REF + "{model}")
    components.pop("HTTPValidationError", None)
    components.pop("ValidationError", None)
    for name in (
        "package",
        "dataset_manifest",
        "dataset_source_manifest",
        "execution",
        "event",
        "result",
        "mq_submission",
    ):
        components.update(_hoisted(name, CONTRACTS[name].adapter.json_schema(ref_template=_REF + "{model}")))
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            _describe_body(operation, path, method)
            _describe_answer(operation, path)
            _describe_refusals(operation, path, method)
    return document


def _hoisted(name: str, schema: dict[str, Any]) -> dict[str, Any]:
    """A contract's schema and those that it names, as components of one document."""
    within = schema.pop("$defs", {})
    return {**within, name: {**schema, "title": CONTRACTS[name].version}}


def _describe_body(operation: dict[str, Any], path: str, method: str) -> None:
    if method != "post":
        return
    if path in _DOCUMENTS:
        name = _DOCUMENTS[path]
        operation["requestBody"] = _json_body({"$ref": _REF + name}, EXAMPLES[name])
    elif path in _ADMISSIONS:
        fields = {field: _ADMITTED[field] for field in _ADMISSIONS[path]}
        schema = {
            "type": "object",
            "properties": {field: {"$ref": _REF + name} for field, name in fields.items()},
            "required": list(fields),
            "additionalProperties": False,
        }
        operation["requestBody"] = _json_body(schema, {field: EXAMPLES[name] for field, name in fields.items()})


def _describe_answer(operation: dict[str, Any], path: str) -> None:
    """The answer to the body's example, which is what the check says of it."""
    if path.startswith("/v1/contracts/"):
        check = _DOCUMENTS[path]
    elif path in _ADMISSIONS:
        check = "admission_of_result" if "result" in _ADMISSIONS[path] else "admission_of_execution"
    else:
        return
    asked = operation["requestBody"]["content"]["application/json"]["example"]
    answer = json.loads(CHECKS[check](json.dumps(asked).encode()))
    schema = {
        "type": "object",
        "properties": {name: {"type": "boolean"} if name == "valid" else {} for name in answer},
        "required": sorted(answer),
        "additionalProperties": False,
    }
    operation["responses"]["200"]["content"] = {"application/json": {"schema": schema, "example": answer}}


def _json_body(schema: Mapping[str, Any], example: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "required": True,
        "content": {"application/json": {"schema": schema, "example": json.loads(json.dumps(example))}},
    }


def _describe_refusals(operation: dict[str, Any], path: str, method: str) -> None:
    """Only what the operation can answer: a client's developer writes a branch for each."""
    answers = operation["responses"]
    content = {"application/json": {"schema": {"$ref": _REF + "Refusal"}}}
    for status in _possible(operation, path, method.upper()):
        if str(status) not in answers or status == 422:
            answers[str(status)] = {"description": _REFUSALS[status], "content": content}


def _possible(operation: Mapping[str, Any], path: str, method: str) -> Iterator[int]:
    yield from (405, 431)
    takes_body = "requestBody" in operation
    if is_write(method, path):
        yield 401
    if takes_body:
        yield from (408, 413)
    if takes_body or operation.get("parameters"):
        yield 422
    if takes_body and "application/zip" in operation["requestBody"].get("content", {}):
        yield 415
    if path not in _WITHOUT_INSTALLATION:
        yield 503
    if "{" in path:
        yield 404
    if is_write(method, path) or method == "PUT":
        yield 409
    if path.endswith("}/content") or "artifacts/{" in path:
        yield 409
