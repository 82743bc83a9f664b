"""Schemas that users write: complete answers, nothing fetched, and an end in time."""

from __future__ import annotations

import socket
import subprocess
import sys
import time

import pytest

from contracts import user_schema
from contracts.limits import SCHEMA_CHECK_SECONDS
from contracts.user_schema import check_schema, check_values


def of(**properties) -> dict:
    return {"type": "object", "properties": properties}


def paths(violations) -> list[str]:
    return [found["path"] for found in violations]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        (of(x={"type": "integr"}), ["properties.x.type"]),
        (of(x={"minimum": "1"}, y={"required": [1]}), ["properties.x.minimum", "properties.y.required[0]"]),
        (of(x={"pattern": "(["}), ["properties.x.pattern"]),
        (of(x={"$ref": "https://example.com/schema.json"}), ["properties.x.$ref"]),
        (of(x={"$ref": "file:///etc/passwd"}), ["properties.x.$ref"]),
        (of(x={"$ref": "#/$defs/gone"}), ["properties.x.$ref"]),
        (of(x={"$dynamicRef": "other.json#meta"}), ["properties.x.$dynamicRef"]),
        ({"type": "object", "$schema": "http://json-schema.org/draft-07/schema#"}, ["$schema"]),
        (of(x={"const": float("nan")}), ["properties.x.const"]),
    ],
)
def test_what_is_no_schema_of_its_own_is_refused_with_its_path(schema, expected) -> None:
    assert paths(check_schema(schema)) == expected


@pytest.mark.slow
@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object"},
        of(),
        of(x={"type": ["integer", "null"], "minimum": 1}),
        of(x=True, y=False),
        of(x={"enum": [{"$ref": "https://example.com"}]}),
        of(x={"$ref": "#/$defs/size"}) | {"$defs": {"size": {"type": "integer"}}},
        of(x={"$ref": "sizes#small"}) | {"$defs": {"s": {"$id": "sizes", "$defs": {"a": {"$anchor": "small"}}}}},
        {"type": "object", "$id": "https://example.com/own", "properties": {"x": {"$ref": "own#/$defs/y"}},
         "$defs": {"y": {}}},
        {"type": "object", "$schema": "https://json-schema.org/draft/2020-12/schema"},
        of(x={"type": "object", "properties": {"pattern": {"type": "string"}}}),
    ],
)  # fmt: skip
def test_a_schema_that_stands_on_its_own_is_accepted(schema) -> None:
    assert check_schema(schema) == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("schema", "values", "expected"),
    [
        (of(x={"type": "integer"}), {"x": True}, {"x": "is true, must be an integer"}),
        (of(x={"type": "integer"}), {"x": 3.5}, {"x": "is 3.5, must be an integer"}),
        (of(x={"type": ["string", "null"]}), {"x": 1}, {"x": "is 1, must be text or null"}),
        (of(x={"minimum": 1}), {"x": 0}, {"x": "is 0, must be at least 1"}),
        (of(x={"exclusiveMaximum": 1}), {"x": 1}, {"x": "is 1, must be less than 1"}),
        (of(x={"enum": ["a", 2]}), {"x": "b"}, {"x": "is 'b', must be one of 'a', 2"}),
        (of(x={"const": None}), {"x": 0}, {"x": "is 0, must be null"}),
        (of(x={}) | {"required": ["x", "y"]}, {}, {"x": "required here", "y": "required here"}),
        (of(x={}) | {"additionalProperties": False}, {"y": 1}, {"y": "unknown field; known here: x"}),
        ({"type": "object", "additionalProperties": {"type": "integer"}}, {"y": "1"},
         {"y": "is '1', must be an integer"}),
        (of(x={"type": "array", "items": of(y={"type": "number"})}), {"x": [{}, {"y": "1"}]},
         {"x[1].y": "is '1', must be a number"}),
        (of(x={"anyOf": [{"type": "string"}, {"minimum": 5}]}), {"x": 1},
         {"x": "is 1, must fit any of 2 forms; the closest says: is 1, must be text"}),
        (of(x={"pattern": "^a$"}), {"x": "a\n"}, {"x": "is 'a\\n', must match ^a$"}),
        (of(x={"pattern": r"^[$]\$$"}), {"x": "$$\n"}, {"x": r"is '$$\n', must match ^[$]\$$"}),
        ({"type": "object", "patternProperties": {"^a$": {"type": "integer"}}}, {"a": "1", "b": "1"},
         {"a": "is '1', must be an integer"}),
        ({"type": "object", "patternProperties": {"^a$": {}}, "additionalProperties": False}, {"a": 1, "ab": 1},
         {"ab": "unknown field"}),
        (of(x={"$ref": "#/$defs/s"}) | {"$defs": {"s": {"type": "string"}}}, {"x": 1}, {"x": "is 1, must be text"}),
        (of(x={"uniqueItems": True}), {"x": [1, 1]}, {"x": "[1, 1] has non-unique elements"}),
        (of(), {"x": float("nan")}, {"x": "is not a finite number"}),
    ],
)  # fmt: skip
def test_values_that_break_the_schema_are_named(schema, values, expected) -> None:
    assert check_schema(schema) == []
    assert {found["path"]: found["message"] for found in check_values(schema, values)} == expected


@pytest.mark.parametrize(
    ("schema", "values"),
    [
        (of(x={"type": "integer"}), {"x": 3.0}),
        (of(x={"pattern": "^(a|b)$"}), {"x": "b"}),
        (of(x={"pattern": "a$|b"}), {"x": "bc"}),
        (of(x={"type": "integer"}), {}),
    ],
)
def test_values_that_fit_are_accepted(schema, values) -> None:
    assert check_values(schema, values) == []


FANNING_OUT = of(x={"$ref": "#/$defs/d0"}) | {
    "$defs": {f"d{level}": {"allOf": [{"$ref": f"#/$defs/d{level + 1}"}] * 2} for level in range(40)} | {"d40": {}}
}


UNEVALUATED: dict = {"type": "object"}
for _ in range(45):
    UNEVALUATED = {"allOf": [UNEVALUATED], "unevaluatedProperties": False}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("schema", "values"),
    [(of(x={"pattern": "^(a+)+$"}), {"x": "a" * 40 + "!"}), (FANNING_OUT, {"x": 1}), (of(x=UNEVALUATED), {"x": {}})],
)
def test_an_evaluation_that_never_ends_is_given_up(monkeypatch, schema, values) -> None:
    monkeypatch.setattr(user_schema, "SCHEMA_CHECK_SECONDS", 1.0)
    started = time.monotonic()
    (found,) = check_values(schema, values)
    assert found["message"].startswith("could not be checked within 1 s")
    assert time.monotonic() - started < SCHEMA_CHECK_SECONDS


def test_a_schema_that_refers_to_itself_is_given_up() -> None:
    (found,) = check_values(of(x={"$ref": "#/properties/x"}), {"x": 1})
    assert found["message"].startswith("cannot be checked: the schema refers to itself without end")


def test_an_evaluation_that_dies_is_a_violation(monkeypatch, tmp_path) -> None:
    program = tmp_path / "evaluation.py"
    program.write_text("raise MemoryError('no more')")
    monkeypatch.setattr(user_schema, "_PROGRAM", program)
    assert check_values(of(x={"pattern": "x"}), {"x": "x"}) == [
        {"path": "", "message": "could not be checked: MemoryError: no more"}
    ]


def test_a_schema_too_deep_for_the_evaluation_is_given_up() -> None:
    schema: dict = {"minimum": 1}
    for _ in range(90):
        schema = {"not": schema}
    assert all("nested too deep" in found["message"] for found in check_schema(of(x=schema)))


def test_nothing_is_fetched() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0.2)
        host, port = server.getsockname()
        schema = of(x={"$ref": f"http://{host}:{port}/schema.json"})
        assert paths(check_schema(schema)) == ["properties.x.$ref"]
        (found,) = check_values(schema, {"x": 1})
        assert found["message"].startswith("cannot be checked")
        with pytest.raises(TimeoutError):
            server.accept()


def test_a_schema_that_says_nothing_costs_no_import() -> None:
    program = (
        "import sys; from contracts.user_schema import check_schema, check_values; s = {'type': 'object', 'properties': {}};"
        "assert check_schema(s) == check_values(s, {'a': 1}) == []; assert 'jsonschema' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_many_violations_are_bounded() -> None:
    names = {f"p{index}": "x" for index in range(1_000)}
    assert len(check_values({"type": "object", "additionalProperties": False}, names)) == 100
