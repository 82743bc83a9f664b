"""Our sections of the platform's YAML document, or one reason why it cannot be used.

The document belongs to the platform; other services keep their sections in it. So only what is ours is looked at
closely, and a fault in another section is not ours to find. What the whole of it may cost is bounded: its size, depth
and what its aliases stand for when they are written out.

Plain scalars mean what they say. `true` and `false` are truth values, decimal numbers are numbers, `null`, `~` and
nothing are nothing; every other plain scalar is text. So `on`, `yes` and `True` switch nothing on, `010` is not 8, and a
key that looks like a date stays a key.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, Any, Final

import yaml

from contracts.errors import InvalidSettingsError
from contracts.limits import (
    MAX_PLATFORM_SETTINGS_BYTES,
    MAX_PLATFORM_SETTINGS_DEPTH,
    MAX_PLATFORM_SETTINGS_NODES,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

RUNTIME_SECTION: Final = "model-training-runtime"
OLDER_RUNTIME_SECTION: Final = "training-code-runtime"
STORAGE_SECTION: Final = "local-s3-config"
SECTIONS: Final = (RUNTIME_SECTION, OLDER_RUNTIME_SECTION, STORAGE_SECTION)

_TAG: Final = "tag:yaml.org,2002:"
_Parser: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""libyaml where this machine's PyYAML has it: a tenth of the time."""


class _Loader(_Parser):  # type: ignore[misc]  # which of two classes it is, is known when it runs
    """Safe, and with no other implicit types than those named above."""

    yaml_implicit_resolvers: dict[str, Any] = {}  # noqa: RUF012 - the library's own protocol


def _truth(_loader: _Loader, node: yaml.ScalarNode) -> bool | str:
    """Only the two literals, also where somebody wrote `!!bool yes`."""
    text = str(node.value)
    return {"true": True, "false": False}.get(text, text)


for _name, _first, _pattern in (
    ("bool", ["t", "f"], r"true|false"),
    ("null", ["~", "n", ""], r"~|null|"),
    ("int", list("-+0123456789"), r"[-+]?(0|[1-9][0-9]{0,17})"),
    ("float", list("-+.0123456789"), r"[-+]?([0-9]{1,18}\.[0-9]{0,18}|\.[0-9]{1,18}|[0-9]{1,18}(?=[eE]))([eE][-+]?[0-9]{1,3})?"),
    ("merge", ["<"], r"<<"),
):  # fmt: skip
    _Loader.add_implicit_resolver(_TAG + _name, re.compile(rf"(?:{_pattern})\Z", re.ASCII), _first)
_Loader.add_constructor(_TAG + "bool", _truth)


def read_document(content: bytes) -> dict[str, Any]:
    """The sections of `SECTIONS` that the document has, as plain values; an empty document has none.

    Raises:
        InvalidSettingsError: it cannot be used; the message says why and where, and quotes nothing of it.
    """
    if len(content) > MAX_PLATFORM_SETTINGS_BYTES:
        raise _unusable(f"it is larger than {MAX_PLATFORM_SETTINGS_BYTES} bytes")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise _unusable(f"byte {error.start} is not UTF-8") from error
    try:
        _bound_events(text)
        loader = _Loader(text)
        try:
            root = loader.get_single_node()
            return {} if root is None or _is_nothing(root) else dict(_sections(loader, root))
        finally:
            loader.dispose()
    except yaml.YAMLError as error:
        raise _unusable(_where(error)) from error
    except (ValueError, OverflowError, RecursionError) as error:  # a tag such as !!int before something else
        raise _unusable("a value is not of the type that its tag says") from error


def _bound_events(text: str) -> None:
    """Refuses before anything recursive is done with it."""
    depth = 0
    for count, event in enumerate(yaml.parse(text, Loader=_Loader)):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        if depth > MAX_PLATFORM_SETTINGS_DEPTH:
            raise _too_deep(event)
        if count > MAX_PLATFORM_SETTINGS_NODES:
            raise _unusable(f"it has more than {MAX_PLATFORM_SETTINGS_NODES} values")


def _is_nothing(node: yaml.Node) -> bool:
    return bool(node.tag == _TAG + "null")


def _sections(loader: _Loader, root: yaml.Node) -> Iterator[tuple[str, Any]]:
    if not isinstance(root, yaml.MappingNode):
        raise _unusable("it is no table of sections", root)
    _refuse_twice(root, "")
    weighed: dict[int, tuple[int, int]] = {}
    for key, value in root.value:
        if isinstance(key, yaml.ScalarNode) and key.value in SECTIONS:
            weight, _ = _weigh(value, weighed)
            if weight > MAX_PLATFORM_SETTINGS_NODES:
                raise _unusable(f"{key.value} has more than {MAX_PLATFORM_SETTINGS_NODES} values", value)
            _refuse_twice_within(value, key.value, set())
            yield key.value, loader.construct_document(value)


def _weigh(node: yaml.Node, weighed: dict[int, tuple[int, int]]) -> tuple[int, int]:
    """How many nodes `node` is when its aliases are written out, and how deep."""
    if isinstance(node, yaml.ScalarNode):
        return 1, 1
    if id(node) in weighed:
        weight, height = weighed[id(node)]
        if not height:
            raise _unusable("it contains itself", node)
        return weight, height
    weighed[id(node)] = (0, 0)  # open: met again before it is done, it is below itself
    below = [part for entry in node.value for part in (entry if isinstance(entry, tuple) else (entry,))]
    parts = [_weigh(part, weighed) for part in below]
    weight = 1 + sum(weight for weight, _ in parts)
    height = 1 + max((height for _, height in parts), default=0)
    if height > MAX_PLATFORM_SETTINGS_DEPTH:
        raise _too_deep(node)
    weighed[id(node)] = (weight, height)
    return weight, height


def _refuse_twice_within(node: yaml.Node, path: str, seen: set[int]) -> None:
    if isinstance(node, yaml.ScalarNode) or id(node) in seen:
        return
    seen.add(id(node))
    if isinstance(node, yaml.MappingNode):
        _refuse_twice(node, f"{path}.")
        for key, value in node.value:
            _refuse_twice_within(value, f"{path}.{key.value if isinstance(key, yaml.ScalarNode) else '?'}", seen)
    else:
        for entry in node.value:
            _refuse_twice_within(entry, path, seen)


def _refuse_twice(node: yaml.MappingNode, prefix: str) -> None:
    """A second `enabled` below the first would silently win."""
    names = Counter(
        key.value for key, _ in node.value if isinstance(key, yaml.ScalarNode) and key.tag != _TAG + "merge"
    )
    twice = [name for name, count in names.items() if count > 1 and (prefix or name in SECTIONS)]
    if twice:
        raise _unusable(f"{prefix}{twice[0]} is given twice", node)


def _where(error: yaml.YAMLError) -> str:
    """The parser's reason and the line; never the line's text, which may hold a secret."""
    if not isinstance(error, yaml.MarkedYAMLError):
        return "it has a character that YAML does not allow"
    mark = error.problem_mark or error.context_mark
    return f"{error.problem or error.context}{f', line {mark.line + 1}' if mark else ''}"


def _too_deep(at: yaml.Node | yaml.Event) -> InvalidSettingsError:
    return _unusable(f"it is deeper than {MAX_PLATFORM_SETTINGS_DEPTH} levels", at)


def _unusable(reason: str, at: yaml.Node | yaml.Event | None = None) -> InvalidSettingsError:
    mark = at.start_mark if at is not None else None
    where = f", line {mark.line + 1}" if mark else ""
    return InvalidSettingsError(
        f"the platform's settings document cannot be used: {reason}{where}",
        hint="Correct the document in Nacos; what was decided by the last good one stays until then.",
        context={"reason": f"{reason}{where}"},
    )
