"""How the OpenAPI document describes an answer by an example of it."""

from __future__ import annotations

from typing import Any


def answered(description: str, example: dict[str, Any], *, located: bool = False) -> dict[str, Any]:
    """An entry of `responses`: an object with exactly the fields that the example has."""
    schema = {
        "type": "object",
        "required": sorted(example),
        "additionalProperties": False,
        "properties": {field: {} for field in example},
    }
    answer: dict[str, Any] = {
        "description": description,
        "content": {"application/json": {"schema": schema, "example": example}},
    }
    if located:
        where = "The address of the execution."
        answer["headers"] = {"Location": {"description": where, "schema": {"type": "string"}}}
    return answer


def exemplified(description: str, example: dict[str, Any]) -> dict[str, Any]:
    """An entry of `responses` whose schema the framework has from the handler's answer."""
    return {"description": description, "content": {"application/json": {"example": example}}}
