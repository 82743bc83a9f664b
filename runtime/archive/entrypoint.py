"""Whether a package's entry file clearly lacks the function that its manifest names. Reads it, and never runs it.

What is said here is advice, no rule: such a package is accepted everywhere, and fails when it runs. So whatever could
define the name while the file runs keeps this silent: a star import, `globals()`, a module's `__getattr__`, syntax that
this Python does not know.
"""

from __future__ import annotations

import ast
import difflib
import warnings
from typing import TYPE_CHECKING, Final

from contracts.limits import MAX_ENTRY_FILE_BYTES
from runtime.archive.extraction import read_member
from runtime.archive.violations import printable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from contracts.package import PackageManifest

_DYNAMIC_NAMES: Final = frozenset(
    {"globals", "locals", "vars", "exec", "eval", "setattr", "__import__", "__builtins__"}
)
_DYNAMIC_ATTRIBUTES: Final = frozenset({"modules", "f_globals", "__dict__", "__globals__", "__setattr__"})
"""Of `sys`, of frames, of modules and functions: ways to the names of a module."""
_DEFINITIONS: Final = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


class _TooLargeError(Exception):
    """The entry file is larger than what is read for a piece of advice."""


def missing_symbol(archive: Path, manifest: PackageManifest) -> str | None:
    """What to tell the author when the entry file clearly lacks `entrypoint_symbol`; `None` when it may have it.

    Args:
        archive: an inspected code package.
        manifest: its manifest.

    Raises:
        ArchiveRejectedError: the archive is no longer what was inspected. Likewise `ArchiveTooLargeError` and
            `NotFoundError`.
    """
    content = bytearray()

    def take(piece: bytes) -> None:
        content.extend(piece)
        if len(content) > MAX_ENTRY_FILE_BYTES:
            raise _TooLargeError

    try:
        read_member(archive, manifest.entrypoint, take)
    except _TooLargeError:
        return None
    found = names_without(bytes(content), manifest.entrypoint_symbol)
    if found is None:
        return None
    close = difflib.get_close_matches(manifest.entrypoint_symbol, found, n=1)
    hint = f"; did you mean {printable(close[0])}?" if close else ""
    return (
        f"entrypoint_symbol: {printable(manifest.entrypoint)} defines nothing called "
        f"{printable(manifest.entrypoint_symbol)}{hint}"
    )


def note_missing_symbol(archive: Path, manifest: PackageManifest, note: Callable[[str], None]) -> None:
    """Afterwards the author has been warned, by `note`, of an entry file that clearly lacks the function."""
    said = missing_symbol(archive, manifest)
    if said:
        note(f"warning: {said}")


def names_without(source: bytes, symbol: str) -> list[str] | None:
    """What a module's source defines, sorted, when `symbol` is clearly not among it; `None` when it may be.

    Args:
        source: of the module.
        symbol: the name that is looked for.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of the package's author, about escapes and the like
            tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):  # another Python may read it
        return None
    if any(_is_dynamic(node, symbol) for node in ast.walk(tree)):
        return None
    defined = {name for node in _module_level(tree) for name in _bound(node)}
    return None if {symbol, "__getattr__"} & defined else sorted(defined)


def _is_dynamic(node: ast.AST, symbol: str) -> bool:
    """Whether this could define names of the module that are not written there, or `symbol` from within a function."""
    match node:
        case ast.Name(id=name):
            return name in _DYNAMIC_NAMES
        case ast.Attribute(attr=name):
            return name in _DYNAMIC_ATTRIBUTES
        case ast.ImportFrom(names=names):
            return any(one.name == "*" or one.name in _DYNAMIC_NAMES | _DYNAMIC_ATTRIBUTES for one in names)
        case ast.Global(names=names):
            return symbol in names
    return False


def _module_level(tree: ast.Module) -> Iterator[ast.AST]:
    """Every node that runs in the module's own scope: not what functions and classes have inside."""
    waiting: list[ast.AST] = [tree]
    while waiting:
        node = waiting.pop()
        yield node
        for name, value in ast.iter_fields(node):
            if isinstance(node, (*_DEFINITIONS, ast.Lambda)) and name == "body":
                continue
            waiting += [one for one in (value if isinstance(value, list) else [value]) if isinstance(one, ast.AST)]


def _bound(node: ast.AST) -> list[str]:
    """The names that a node defines."""
    match node:
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            return [name]
        case ast.Name(id=name, ctx=ast.Store()):
            return [name]
        case ast.alias(name=name, asname=other):
            return [other or name.partition(".")[0]]
        case ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
            return [name]
        case ast.MatchMapping(rest=str(name)):
            return [name]
    return []
