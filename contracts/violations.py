"""What pydantic found, as people read it: a path and a sentence."""

from __future__ import annotations

import itertools
import types
import typing
from typing import TYPE_CHECKING, Annotated, Any, Union, get_args, get_origin

import typing_extensions
from pydantic import BaseModel
from pydantic_core import PydanticCustomError

from contracts.limits import MAX_VIOLATIONS
from contracts.strict_json import join_path

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from pydantic import ValidationError
    from pydantic_core import ErrorDetails

Violation = dict[str, str]

ALTERNATIVE = "\ufdd0 alternative "
"""Starts the label of a union's branch that exists for speed only; such a step is no part of a path.

Labels and the keys of a document share one list of steps: this one begins with U+FDD0, which is no character.
"""
FAST_BRANCH = ALTERNATIVE + "fast"
"""What this branch refuses the next one judges, so its complaint is never shown."""

_SEVERAL = "several_violations"
_QUOTED_CHARACTERS = 60


class Missing:
    """Stands for a field that the wire requires and Python code may leave out."""


MISSING = Missing()


def several(violations: Iterable[Mapping[str, Any]]) -> PydanticCustomError:
    """An error that carries violations with paths of their own, relative to the value it is raised for."""
    return PydanticCustomError(_SEVERAL, "several violations", {"violations": list(violations)})


def collect_violations(error: ValidationError, contract: Any) -> list[Violation]:
    """Every violation of `error`, in the order of the document; of very many the first, one more than are ever told.

    Args:
        error: what pydantic raised.
        contract: the model that was validated; tells which fields are known where one is not. A union of documents
            says by a tag which of them was meant.
    """
    return list(itertools.islice(_violations(error, contract), MAX_VIOLATIONS + 1))


def _violations(error: ValidationError, contract: Any) -> Iterator[Violation]:
    seen: set[tuple[str, str]] = set()
    for detail in error.errors(include_url=False):
        loc = detail["loc"]
        if FAST_BRANCH in loc:
            continue
        if detail["type"] == "too_short" and len(detail["input"]) >= detail["ctx"]["min_length"]:
            continue  # short only because of refused entries, which speak for themselves
        if loc[-1:] == ("[key]",) and detail["input"] == loc[-2]:
            loc = loc[:-1]  # pydantic's mark of a refused key, unless it is what a key is called
        at = _visible(loc, contract)
        if detail["type"].startswith("union_tag_"):
            at = (*at, str(detail["ctx"]["discriminator"]).strip("'"))
        if detail["type"] == _SEVERAL:
            found = [below(join_path(at), inner) for inner in detail["ctx"]["violations"]]
        else:
            found = [{"path": join_path(at), "message": _sentence(detail, contract)}]
        for violation in found:
            key = (violation["path"], violation["message"])
            if key not in seen:
                seen.add(key)
                yield violation


def below(outer: str, violation: Mapping[str, str]) -> Violation:
    """`violation`, whose path starts at the value at `outer`, with its path from where `outer` starts."""
    inner = violation["path"]
    joined = outer + inner if not outer or not inner or inner.startswith("[") else f"{outer}.{inner}"
    return {"path": joined, "message": violation["message"]}


def _visible(loc: tuple[str | int, ...], contract: Any) -> tuple[str | int, ...]:
    steps = loc[1:] if loc and _members(contract) and not isinstance(contract, type) else loc
    return tuple(step for step in steps if not (isinstance(step, str) and step.startswith(ALTERNATIVE)))


def kind_of(value: Any) -> str:
    """What a JSON value is, in a word that people use."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return "text"
    if isinstance(value, (int, float)):
        return "a number"
    if isinstance(value, (list, tuple)):
        return "a list"
    if isinstance(value, dict):
        return "an object"
    return f"a {type(value).__name__}"


def quoted(value: Any) -> str:
    """A value to show in a message, cut where it is long."""
    if isinstance(value, bool) or value is None or isinstance(value, (dict, list, tuple)):
        return kind_of(value)
    if isinstance(value, int) and value.bit_length() > 256:
        return "a number of more than 75 digits"  # Python refuses to write those of more than 4 300
    said = repr(value[: _QUOTED_CHARACTERS + 1] if isinstance(value, str) else value)
    return said if len(said) <= _QUOTED_CHARACTERS else said[: _QUOTED_CHARACTERS - 1] + "…"


_MUST_BE = {
    "string_type": "text",
    "int_type": "an integer",
    "int_parsing_size": "an integer",
    "float_type": "a number",
    "bool_type": "true or false",
    "dict_type": "an object",
    "model_type": "an object",
    "model_attributes_type": "an object",
    "list_type": "a list",
    "tuple_type": "a list",
}

_BOUNDS = {
    "greater_than": ("greater than", "gt"),
    "greater_than_equal": ("at least", "ge"),
    "less_than": ("less than", "lt"),
    "less_than_equal": ("at most", "le"),
}


def _sentence(detail: ErrorDetails, contract: Any) -> str:
    value, limits, what = detail["input"], detail.get("ctx", {}), detail["type"]
    if what in {"missing", "union_tag_not_found"} or isinstance(value, Missing):
        return "required here"
    if what == "extra_forbidden":
        known = _fields_at(contract, detail["loc"][:-1])
        return f"unknown field; known here: {', '.join(known)}" if known else "unknown field"
    if what in _MUST_BE:
        said = quoted(value) if isinstance(value, (int, float)) else kind_of(value)
        return f"is {said}, must be {_MUST_BE[what]}"
    if what == "int_from_float":
        return f"is {quoted(value)}, must be an integer"
    if what == "finite_number":
        return "is not a finite number"
    if what in {"literal_error", "enum"}:
        expected = str(limits["expected"])
        return f"is {quoted(value)}, must be {'one of ' if ' or ' in expected else ''}{expected}"
    if what == "union_tag_invalid":
        return f"is {quoted(limits['tag'])}, must be one of {limits['expected_tags']}"
    if what == "string_pattern_mismatch":
        if detail["loc"][-1:] == ("version",):
            return f"is {quoted(value)}, must be a semantic version, such as 1.0.0"  # its pattern fills two lines
        return f"is {quoted(value)}, must match {limits['pattern']}"
    if what == "string_too_short":
        return "is empty" if not value else f"has {len(value)} characters, must have at least {limits['min_length']}"
    if what == "string_too_long":
        return f"has {len(value)} characters, may have {limits['max_length']}"
    if what == "string_unicode":
        return "holds half of a surrogate pair, which is no text"
    if what == "too_short":
        return f"has {limits['actual_length']} entries, must have at least {limits['min_length']}"
    if what == "too_long":
        return f"has {limits['actual_length'] or 'more'} entries, may have {limits['max_length']}"
    if what in _BOUNDS:
        words, key = _BOUNDS[what]
        bound = limits[key]
        return f"is {quoted(value)}, must be {words} {int(bound) if float(bound).is_integer() else bound}"
    if what == "value_error":
        return str(limits["error"])
    return detail["msg"]


def _fields_at(contract: Any, loc: tuple[str | int, ...]) -> list[str]:
    """The field names of the object at `loc`, or none where there is no model."""
    here: Any = contract
    for step in loc:
        if isinstance(step, str) and step.startswith(ALTERNATIVE):
            continue
        here = _below(here, step)
    for candidate in _members(here) or [here]:
        fields = _annotations(candidate)
        if fields:
            return list(fields)
    return []


def _below(kind: Any, step: str | int) -> Any:
    for candidate in _members(kind) or [kind]:
        if isinstance(step, int):
            if get_origin(candidate) in {tuple, list}:
                return get_args(candidate)[0]
            continue
        fields = _annotations(candidate)
        if step in fields:
            return fields[step]
        event_type = fields.get("event_type")
        if event_type is not None and step in get_args(event_type):
            return candidate
    return None


def _members(kind: Any) -> list[Any]:
    """The branches of a union, unwrapped; empty for anything else."""
    kind = _bare(kind)
    if get_origin(kind) not in {Union, types.UnionType}:
        return []
    return [branch for member in get_args(kind) for branch in (_members(member) or [_bare(member)])]


def _bare(kind: Any) -> Any:
    while get_origin(kind) in {Annotated, typing_extensions.NotRequired, typing.NotRequired}:
        kind = get_args(kind)[0]
    return kind


def _annotations(kind: Any) -> dict[str, Any]:
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        return {name: field.annotation for name, field in kind.model_fields.items()}
    if isinstance(kind, type) and typing_extensions.is_typeddict(kind):
        return typing_extensions.get_type_hints(kind, include_extras=True)
    return {}
