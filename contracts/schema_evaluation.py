"""Evaluates a user's JSON Schema; runs as a program of its own where that might not end.

Standard library and jsonschema only, so that `python -I schema_evaluation.py` works wherever the product is installed.
As a program it reads `{"schema": ..., "values": ...}` from standard input (`values` only where there are some) and
writes a list of `[steps, message]`.
"""

from __future__ import annotations

import functools
import itertools
import json
import re
import resource
import sys
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import jsonschema_specifications  # type: ignore[import-untyped]
from jsonschema import Draft202012Validator
from jsonschema.exceptions import ValidationError, best_match
from jsonschema.validators import extend
from referencing import Registry
from referencing.exceptions import Unresolvable
from referencing.jsonschema import DRAFT202012

if TYPE_CHECKING:
    from collections.abc import Iterator

Found = tuple[list[Any], str]
"""Steps from the root, and a sentence."""

_MAX_VIOLATIONS = 100
_SHOWN_CHARACTERS = 60
_MEMORY_BYTES = 1024**3
_NOTHING: dict[str, Any] = {"not": {}}
"""What `false` means."""
_DIALECT = "https://json-schema.org/draft/2020-12/schema"


def schema_violations(schema: dict[str, Any]) -> list[Found]:
    """What keeps `schema` from being a Draft 2020-12 schema that stands on its own."""
    # The specifications' registry holds the dialect itself and retrieves nothing.
    checker = Draft202012Validator(
        Draft202012Validator.META_SCHEMA,
        registry=jsonschema_specifications.REGISTRY,
        format_checker=Draft202012Validator.FORMAT_CHECKER,
    )
    try:
        found = [_described(error) for error in itertools.islice(checker.iter_errors(schema), _MAX_VIOLATIONS)]
        found.sort(key=lambda each: [str(step) for step in each[0]])  # the dialect is a set of vocabularies
        return found or list(itertools.islice(_foreign_parts(schema), _MAX_VIOLATIONS))
    except RecursionError:
        return [([], "is nested too deeply to be checked")]


def values_violations(schema: dict[str, Any], values: Any) -> list[Found]:
    """Where `values` break a schema that is valid."""
    try:
        errors = _Evaluator(schema, registry=Registry()).iter_errors(values)
        return [_described(error) for error in itertools.islice(errors, _MAX_VIOLATIONS)]
    except RecursionError:
        return [([], "cannot be checked: the schema refers to itself without end, or is nested too deeply")]
    except (ArithmeticError, re.error, Unresolvable) as error:
        return [([], f"cannot be checked: {error}"[:300])]


def _foreign_parts(schema: dict[str, Any]) -> Iterator[Found]:
    """References that lead out of the document, and parts in another dialect."""
    places = _places(schema)
    root = DRAFT202012.create_resource(schema)
    waiting = [(root, Registry().resolver_with_root(root))]
    while waiting:
        part, resolver = waiting.pop(0)
        contents = part.contents
        if not isinstance(contents, dict):  # true and false are schemas too
            continue
        at = places.get(id(contents), [])
        dialect = contents.get("$schema", _DIALECT)
        if str(dialect).rstrip("#") != _DIALECT:
            yield [*at, "$schema"], f"is {_shown(dialect)}, must be {_DIALECT!r}"
        for keyword in ("$ref", "$dynamicRef"):
            reference = contents.get(keyword)
            if isinstance(reference, str):
                try:
                    resolver.lookup(reference)
                except Unresolvable:
                    yield [*at, keyword], f"{_shown(reference)} is not in this document, and nothing is fetched"
        waiting.extend((below, resolver.in_subresource(below)) for below in part.subresources())


def _places(schema: dict[str, Any]) -> dict[int, list[Any]]:
    """Where each object of `schema` stands, by its identity: the referencing library does not say."""
    places: dict[int, list[Any]] = {}
    waiting: list[tuple[Any, list[Any]]] = [(schema, [])]
    while waiting:
        value, at = waiting.pop()
        if isinstance(value, dict):
            places[id(value)] = at
            waiting.extend((below, [*at, name]) for name, below in value.items())
        elif isinstance(value, list):
            waiting.extend((below, [*at, index]) for index, below in enumerate(value))
    return places


# --- the dialect, with anchors as ECMA 262 means them ----------------------------------------------------------------


@functools.lru_cache(maxsize=256)
def _compiled(pattern: str) -> re.Pattern[str]:
    r"""`pattern` with `$` as the very end: Python's also matches before a trailing newline."""
    pieces, in_class, escaped = [], False, False
    for character in pattern:
        if escaped:
            escaped = False
        elif character == "\\":
            escaped = True
        elif in_class:
            in_class = character != "]"
        elif character == "[":
            in_class = True
        elif character == "$":
            pieces.append(r"\Z")
            continue
        pieces.append(character)
    return re.compile("".join(pieces))


def _pattern(_validator: Any, pattern: str, instance: Any, _schema: Any) -> Iterator[ValidationError]:
    if isinstance(instance, str) and not _compiled(pattern).search(instance):
        yield ValidationError(f"is {_shown(instance)}, must match {pattern}")


def _pattern_properties(
    validator: Any, patterns: dict[str, Any], instance: Any, _schema: Any
) -> Iterator[ValidationError]:
    if isinstance(instance, dict):
        for pattern, below in patterns.items():
            for name, value in instance.items():
                if _compiled(pattern).search(name):
                    yield from validator.descend(value, below, path=name, schema_path=pattern)


def _additional_properties(validator: Any, allowed: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
    if not isinstance(instance, dict):
        return
    known, patterns = schema.get("properties", {}), schema.get("patternProperties", {})
    for name, value in instance.items():
        if name in known or any(_compiled(pattern).search(name) for pattern in patterns):
            continue
        if allowed is False:
            listed = f"; known here: {', '.join(map(str, known))}" if known else ""
            yield ValidationError(f"unknown field{listed}", path=[name])
        else:
            yield from validator.descend(value, allowed, path=name)


def _required(_validator: Any, names: list[str], instance: Any, _schema: Any) -> Iterator[ValidationError]:
    if isinstance(instance, dict):
        for name in names:
            if name not in instance:
                yield ValidationError("required here", path=[name])


def _multiple_of(_validator: Any, divisor: float, instance: Any, _schema: Any) -> Iterator[ValidationError]:
    is_number = isinstance(instance, (int, float)) and not isinstance(instance, bool)
    if is_number and _as_written(instance) % _as_written(divisor):
        yield ValidationError(f"is {instance}, must be a multiple of {divisor}")


def _as_written(number: float) -> Fraction:
    """The decimal number: 0.3 is a multiple of 0.1, though the nearest doubles are not."""
    return Fraction(number) if isinstance(number, int) else Fraction(repr(number))


_Evaluator: Any = extend(  # type: ignore[no-untyped-call]
    Draft202012Validator,
    {
        "pattern": _pattern,
        "patternProperties": _pattern_properties,
        "additionalProperties": _additional_properties,
        "required": _required,
        "multipleOf": _multiple_of,
    },
)
_descend_plainly = _Evaluator.descend


def _descend(validator: Any, instance: Any, schema: Any, **place: Any) -> Iterator[ValidationError]:
    """As jsonschema's, which loses the place of a value whose schema is `false`."""
    yield from _descend_plainly(validator, instance, _NOTHING if schema is False else schema, **place)


_Evaluator.descend = _descend


# --- sentences -------------------------------------------------------------------------------------------------------

_BOUNDS = {
    "minimum": "at least",
    "exclusiveMinimum": "greater than",
    "maximum": "at most",
    "exclusiveMaximum": "less than",
    "multipleOf": "a multiple of",
}


def _described(error: ValidationError) -> Found:
    return list(error.absolute_path), _sentence(error)[:500]


def _sentence(error: ValidationError) -> str:
    keyword, value = str(error.validator), error.instance
    wanted: Any = error.validator_value
    if keyword == "type":
        return f"is {_shown(value)}, must be {_kinds(wanted)}"
    if keyword in _BOUNDS:
        return f"is {_shown(value)}, must be {_BOUNDS[keyword]} {wanted}"
    if keyword == "enum":
        return f"is {_shown(value)}, must be one of {', '.join(_shown(choice) for choice in wanted[:50])}"
    if keyword == "const":
        return f"is {_shown(value)}, must be {_shown(wanted)}"
    if keyword == "not" and wanted == {}:
        return "not allowed here"
    if keyword in {"anyOf", "oneOf"}:
        closest = best_match(error.context or ())
        because = f"; the closest says: {_sentence(closest)}" if closest is not None else ""
        return f"is {_shown(value)}, must fit {'one' if keyword == 'oneOf' else 'any'} of {len(wanted)} forms{because}"
    return error.message


def _kinds(wanted: Any) -> str:
    words = {
        "string": "text",
        "integer": "an integer",
        "number": "a number",
        "boolean": "true or false",
        "object": "an object",
        "array": "a list",
        "null": "null",
    }
    return " or ".join(words.get(kind, str(kind)) for kind in ([wanted] if isinstance(wanted, str) else wanted))


def _shown(value: Any) -> str:
    if value is None or isinstance(value, bool):
        return json.dumps(value)
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, list):
        return "a list"
    said = repr(value[: _SHOWN_CHARACTERS + 1] if isinstance(value, str) else value)
    return said if len(said) <= _SHOWN_CHARACTERS else said[: _SHOWN_CHARACTERS - 1] + "…"


def _main() -> None:
    cpu_seconds = int(sys.argv[1])
    resource.setrlimit(resource.RLIMIT_CPU, (cpu_seconds, cpu_seconds))  # outlives nobody by much
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY_BYTES, _MEMORY_BYTES))
    request = json.load(sys.stdin)
    if "values" in request:
        found = values_violations(request["schema"], request["values"])
    else:
        found = schema_violations(request["schema"])
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    _main()
