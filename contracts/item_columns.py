"""Validates long lists of typed dicts by column, in a third of the time that one dict after the other takes.

The rules are those of the typed dict alone: every column is checked by the annotation of its field, and whatever the
columns cannot show to be valid is validated again the plain way, which finds every violation and its path.
"""

from __future__ import annotations

import types
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any, NotRequired, cast, get_args, get_origin

from pydantic import TypeAdapter, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined, core_schema
from typing_extensions import get_type_hints, is_typeddict

if TYPE_CHECKING:
    from collections.abc import Callable

    from pydantic import GetCoreSchemaHandler
    from pydantic_core import CoreSchema

OWNED = "owned"
"""Key of the validation context: the value was parsed for this validation alone, so its rows may be completed in place."""

_ROWS_PER_BATCH = 1_024
"""Enough that a column's fixed cost does not count, few enough that all columns of a batch stay in the cache."""


@dataclass(frozen=True, slots=True)
class ByColumn:
    """Annotation of a list of typed dicts that may be long. Stands after the list's length limits.

    Rows that are complete and normalized already are kept as they are, not copied.

    Attributes:
        max_length: the list's own limit, which the columns do not see.
    """

    max_length: int

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        (row_type,) = get_args(source)
        columns = Columns(row_type)

        def check(value: Any, one_by_one: core_schema.ValidatorFunctionWrapHandler, info: Any) -> Any:
            if type(value) is list and 0 < len(value) <= self.max_length:
                owned = bool(info.context and info.context.get(OWNED))
                rows = columns.normalized(value, owned=owned)
                if rows is not None:
                    return rows
            return one_by_one(value)

        return core_schema.with_info_wrap_validator_function(check, handler(source))


@dataclass(frozen=True)
class _Field:
    """One key of the rows: `rows` where its values are rows themselves, a validator of the whole column otherwise."""

    annotation: Any
    default: Callable[[], Any]
    required: bool
    nullable: bool
    rows: Columns | None

    @cached_property
    def check(self) -> Callable[[Any], list[Any]]:
        adapter: TypeAdapter[list[Any]] = TypeAdapter(cast("Any", types.GenericAlias(list, (self.annotation,))))
        return adapter.validate_python

    @cached_property
    def is_plain(self) -> Callable[[list[Any]], bool]:
        """A shortcut that the annotation may bring: sees that a column is valid and normalized, or does not."""
        return next((extra.is_plain for extra in get_args(self.annotation)[1:] if hasattr(extra, "is_plain")), _unseen)

    @cached_property
    def holds_numbers(self) -> bool:
        """Whether a value can be normalized to one of another type that equals it, as `3.0` to `3`."""
        return _mentions_numbers(self.annotation)

    def normalized(self, column: list[Any], *, owned: bool) -> list[Any] | None:
        """The column with every value normalized, `column` itself where nothing changed, None where it is not valid."""
        if self.is_plain(column):
            return column
        if self.rows is None:
            try:
                checked = self.check(column)
            except ValidationError:
                return None
            same = checked == column and (not self.holds_numbers or set(map(type, checked)) == set(map(type, column)))
            return column if same else checked
        present = [value for value in column if value is not None] if self.nullable else column
        rows = self.rows.normalized(present, owned=owned) if present else present
        if rows is None or rows is present:
            return column if rows is present else None
        following = iter(rows)
        return [value if value is None else next(following) for value in column]


class Columns:
    """The fields of a typed dict."""

    def __init__(self, row_type: Any) -> None:
        self._row_type = row_type

    @cached_property
    def _fields(self) -> dict[str, _Field]:
        hints = get_type_hints(self._row_type, include_extras=True)  # late: the annotations may not exist before
        return {name: _field(hint) for name, hint in hints.items()}

    @cached_property
    def _required(self) -> frozenset[str]:
        return frozenset(name for name, field in self._fields.items() if field.required)

    def normalized(self, rows: list[Any], *, owned: bool) -> list[Any] | None:
        """The rows with every default, or None where they are not seen to be valid; `rows` itself where nothing changed.

        Args:
            rows: at least one.
            owned: whether `rows` may be completed in place.
        """
        whole: list[Any] = []
        same = True
        for start in range(0, len(rows), _ROWS_PER_BATCH):
            given = rows[start : start + _ROWS_PER_BATCH]
            batch = self._batch(given, owned=owned)
            if batch is None:
                return None
            same = same and batch is given
            whole += batch
        return rows if same else whole

    def _batch(self, rows: list[Any], *, owned: bool) -> list[Any] | None:
        if set(map(type, rows)) != {dict} or len(set(map(len, rows))) != 1:
            return None
        names = rows[0].keys()  # every row has as many keys, and each of these: so it has no others
        if not self._required <= names <= self._fields.keys():
            return None
        same, columns = True, {}
        for name in names:
            try:
                column = [row[name] for row in rows]
            except KeyError:
                return None
            checked = self._fields[name].normalized(column, owned=owned)
            if checked is None:
                return None
            same = same and checked is column
            columns[name] = checked
        missing = {name: field.default for name, field in self._fields.items() if name not in names}
        if same and (owned or not missing):
            for name, default in missing.items():
                for row in rows:
                    row[name] = default()
            return rows
        for name, default in missing.items():
            columns[name] = [default() for _ in rows]
        ordered = [columns[name] for name in self._fields]
        return [dict(zip(self._fields, values, strict=True)) for values in zip(*ordered, strict=True)]


def _mentions_numbers(annotation: Any) -> bool:
    return annotation in (int, float) or any(_mentions_numbers(part) for part in get_args(annotation))


def _unseen(_column: list[Any]) -> bool:
    return False


def _field(hint: Any) -> _Field:
    if get_origin(hint) is NotRequired:
        (hint,) = get_args(hint)
    bare, default, required = hint, _constantly(None), True
    if get_origin(hint) is Annotated:
        bare = get_args(hint)[0]
        for extra in get_args(hint)[1:]:
            if isinstance(extra, FieldInfo) and extra.default_factory is not None:
                default, required = cast("Callable[[], Any]", extra.default_factory), False
            elif isinstance(extra, FieldInfo) and extra.default is not PydanticUndefined:
                default, required = _constantly(extra.default), False
    branches = [branch for branch in get_args(bare) if branch is not type(None)]
    nullable = type(None) in get_args(bare)
    inner = branches[0] if nullable and len(branches) == 1 else bare
    return _Field(hint, default, required, nullable, Columns(inner) if is_typeddict(inner) else None)


def _constantly(value: Any) -> Callable[[], Any]:
    return lambda: value
