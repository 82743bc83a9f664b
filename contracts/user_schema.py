"""Checks of JSON Schemas that users write, and of values against them: nothing is fetched, and it ends in time.

A schema of Draft 2020-12 can make its evaluation last for ever: `(a+)+$` against thirty letters, references that fan
out. So:

1. A schema without keywords is not evaluated at all.
2. One that has no pattern and no reference, and is small, costs at most schema times values: it is evaluated here.
3. Everything else is evaluated in a process of its own, which is killed after `SCHEMA_CHECK_SECONDS`.
"""

from __future__ import annotations

import json
import math
import subprocess
import sys
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from contracts.limits import SCHEMA_CHECK_SECONDS
from contracts.strict_json import dump_canonical, join_path, value_violations

if TYPE_CHECKING:
    from contracts.violations import Violation

_UNBOUNDED_KEYWORDS = frozenset(
    {
        *("pattern", "patternProperties", "format"),  # regular expressions
        *("$ref", "$dynamicRef", "$id"),  # a graph instead of a tree
        *("unevaluatedProperties", "unevaluatedItems"),  # evaluate everything below again, at each level
        "uniqueItems",  # compares all with all
    }
)
"""What makes evaluation more than linear; a property of such a name only costs the detour."""
_MAX_SCHEMA_NODES = 2_000
_MAX_STEPS = 20_000
"""Schema nodes times value nodes, about ten microseconds each."""
_PROGRAM = Path(__file__).with_name("schema_evaluation.py")


def check_schema(schema: dict[str, Any]) -> list[Violation]:
    """What keeps `schema` from being a valid Draft 2020-12 schema that refers to nothing outside itself.

    Returns:
        Violations `{"path", "message"}` relative to the schema's root; none when it is valid.
    """
    if _says_nothing(schema):
        return []
    found = list(value_violations(schema))
    if found:
        return found
    return [dict(violation) for violation in _schema_violations(dump_canonical(schema))]


def check_values(schema: dict[str, Any], values: dict[str, Any]) -> list[Violation]:
    """Where `values` break `schema`, each with its path relative to the values' root.

    Args:
        schema: one that `check_schema` found valid.
        values: JSON values.
    """
    found = list(value_violations(values))
    if found or _says_nothing(schema):
        return found
    schema_nodes, unbounded = _survey(schema)
    if unbounded or schema_nodes * _survey(values)[0] > _MAX_STEPS:
        return _evaluate_apart({"schema": schema, "values": values}, "")
    from contracts.schema_evaluation import values_violations  # noqa: PLC0415 - jsonschema takes 120 ms to import

    return [{"path": join_path(tuple(at)), "message": said} for at, said in values_violations(schema, values)]


@lru_cache(maxsize=64)
def _schema_violations(canonical: bytes) -> tuple[Violation, ...]:
    """Per content: one execution looks at the same manifest several times."""
    schema = json.loads(canonical)
    nodes, unbounded = _survey(schema)
    if unbounded or nodes > _MAX_SCHEMA_NODES:
        return tuple(_evaluate_apart({"schema": schema}, ""))
    from contracts.schema_evaluation import schema_violations  # noqa: PLC0415 - as above

    return tuple({"path": join_path(tuple(at)), "message": said} for at, said in schema_violations(schema))


def _says_nothing(schema: dict[str, Any]) -> bool:
    return (
        schema.get("type") == "object"
        and schema.keys() <= {"type", "properties"}
        and schema.get("properties", {}) == {}
    )


def _survey(value: Any) -> tuple[int, bool]:
    """How many values there are inside `value`, itself included, and whether a key is an unbounded keyword."""
    nodes, unbounded, waiting = 0, False, [value]
    while waiting:
        current = waiting.pop()
        nodes += 1
        if isinstance(current, dict):
            unbounded = unbounded or not _UNBOUNDED_KEYWORDS.isdisjoint(current)
            waiting.extend(current.values())
        elif isinstance(current, (list, tuple)):
            waiting.extend(current)
    return nodes, unbounded


def _evaluate_apart(request: dict[str, Any], at: str) -> list[Violation]:
    cpu_seconds = math.ceil(SCHEMA_CHECK_SECONDS) + 1  # one more: only a process that lost its parent gets so far
    try:
        ended = subprocess.run(
            [sys.executable, "-I", str(_PROGRAM), str(cpu_seconds)],
            input=dump_canonical(request),
            capture_output=True,
            timeout=SCHEMA_CHECK_SECONDS,
            env={"LC_ALL": "C.UTF-8"},
            check=False,
        )
    except subprocess.TimeoutExpired:
        message = f"could not be checked within {SCHEMA_CHECK_SECONDS:g} s: a pattern or a reference in the schema takes too long"
        return [{"path": at, "message": message}]
    if ended.returncode != 0:
        said = ended.stderr.decode(errors="replace").strip().splitlines()
        message = f"could not be checked: {said[-1][:300] if said else f'ended with status {ended.returncode}'}"
        return [{"path": at, "message": message}]
    return [{"path": join_path(tuple(steps)), "message": said} for steps, said in json.loads(ended.stdout)]
