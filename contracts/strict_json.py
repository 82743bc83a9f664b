"""JSON as the contracts mean it: one value, no key twice, only finite numbers; and the one way to write it for a digest."""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections import Counter
from typing import TYPE_CHECKING, Any, Final

import jiter
import orjson

from contracts.errors import InvalidDocumentError
from contracts.limits import MAX_DOCUMENT_DEPTH, MAX_REREAD_BYTES

if TYPE_CHECKING:
    from collections.abc import Iterator

_ENTRIES_PER_CHUNK = 1_000
_SHOWN_KEY_CHARACTERS = 100
_PLAIN_KEY = re.compile(r"[\w$-]+")
_MAX_DIGITS: Final = 4_300
"""Of an integer; Python neither reads nor writes longer ones."""
_TOO_LARGE: Final = 10**_MAX_DIGITS
_TWICE: Final = object()
"""Stands for the value of a key that is given twice."""
_ENCODER = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def parse(content: bytes | str, *, contract: str = "JSON") -> Any:
    """The one JSON value that `content` holds; every number in it is finite and no object has a key twice.

    Args:
        content: UTF-8 without a byte order mark.
        contract: what the document was meant to be; named in the error.

    Raises:
        InvalidDocumentError: not JSON, a key given twice, `NaN`, `Infinity` or a number such as `1e400`, or nested
            deeper than `MAX_DOCUMENT_DEPTH`.
    """
    value = parse_unchecked(content, contract=contract)
    found = list(value_violations(value))
    if found:
        raise InvalidDocumentError.of(contract, found)
    return value


def parse_unchecked(content: bytes | str, *, contract: str = "JSON") -> Any:
    """As `parse`, but a number such as `1e400` is still infinite and nesting is bounded by the parser alone.

    For callers that check every value afterwards anyway: walking a document of 10 000 items costs more than parsing it.

    Raises:
        InvalidDocumentError: as `parse`.
    """
    try:
        # surrogatepass: a lone surrogate in a str must reach the parser, which refuses it, not end here untyped
        data = content.encode("utf-8", "surrogatepass") if isinstance(content, str) else content
        return jiter.from_json(data, allow_inf_nan=False, catch_duplicate_keys=True, cache_mode="keys")
    except ValueError as error:
        said = str(error)
        message = f"a key is given twice: {said}" if "duplicate key" in said else f"is not JSON: {said}"
        found = _located_violations(data) or [{"path": "", "message": message}]
        raise InvalidDocumentError.of(contract, found) from error


def _located_violations(data: bytes) -> list[dict[str, str]]:
    """What a text breaks that is JSON but for its values and keys, each with its path; nothing where it is no JSON.

    The strict parser knows only a line and a column, which help nobody who has the document and not the text.
    """
    if len(data) > MAX_REREAD_BYTES:
        return []
    try:
        value = json.loads(data.decode(), object_pairs_hook=_marked_pairs, parse_int=_bounded_integer)
    except (ValueError, RecursionError):
        return []
    return list(value_violations(value))


def _marked_pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    named = dict(pairs)
    if len(named) != len(pairs):
        counts = Counter(name for name, _ in pairs)
        named.update((name, _TWICE) for name, count in counts.items() if count > 1)
    return named


def _bounded_integer(digits: str) -> int:
    return int(digits) if len(digits) <= _MAX_DIGITS else _TOO_LARGE


def value_violations(value: Any) -> Iterator[dict[str, str]]:
    """What keeps a Python value from being a JSON value of the contracts, each `{"path", "message"}`.

    Walks without recursion, so that no nesting reaches the stack's end.
    """
    waiting: list[tuple[Any, tuple[str | int, ...]]] = [(value, ())]
    while waiting:
        current, at = waiting.pop()
        if current is None or isinstance(current, bool):
            continue
        if isinstance(current, str):
            if not current.isascii() and not _is_unicode(current):
                yield {"path": join_path(at), "message": "holds half of a surrogate pair, which is no text"}
        elif isinstance(current, int):
            if not -_TOO_LARGE < current < _TOO_LARGE:
                yield {"path": join_path(at), "message": f"has more than {_MAX_DIGITS} digits"}
        elif isinstance(current, float):
            if not math.isfinite(current):
                yield {"path": join_path(at), "message": "is not a finite number"}
        elif isinstance(current, (dict, list, tuple)):
            if len(at) >= MAX_DOCUMENT_DEPTH:
                yield {"path": join_path(at[:3]), "message": f"is nested deeper than {MAX_DOCUMENT_DEPTH} levels"}
                continue
            entries = list(current.items() if isinstance(current, dict) else enumerate(current))
            for name, entry in reversed(entries):  # so that violations come in the document's order
                if isinstance(current, dict) and not (isinstance(name, str) and (name.isascii() or _is_unicode(name))):
                    yield {"path": join_path(at), "message": f"has the key {name!r}, which is no text"}
                else:
                    waiting.append((entry, (*at, name)))
        elif current is _TWICE:
            yield {"path": join_path(at), "message": "is given twice"}
        else:
            yield {"path": join_path(at), "message": f"is a Python {type(current).__name__}, which JSON cannot carry"}


def join_path(at: tuple[str | int, ...]) -> str:
    """A path people read: `items[3].media.sha256`; a name that is not plain is quoted, `parameters["a b"]`."""
    path = ""
    for step in at:
        if isinstance(step, int):
            path += f"[{step}]"
        elif len(step) <= _SHOWN_KEY_CHARACTERS and _PLAIN_KEY.fullmatch(step):
            path += f".{step}" if path else step
        else:
            shown = step if len(step) <= _SHOWN_KEY_CHARACTERS else step[:_SHOWN_KEY_CHARACTERS] + "…"
            path += f"[{json.dumps(shown, ensure_ascii=False)}]"
    return path


def dump(value: Any) -> bytes:
    """`value` as compact JSON, quickly: what `parse` accepts, integers of any length included, is written again.

    Raises:
        TypeError: `value` holds something that JSON has no form for.
        ValueError: `value` holds a number that is not finite, or text that is not Unicode.
    """
    try:
        return orjson.dumps(value)
    except orjson.JSONEncodeError:  # it writes no integers of more than 64 bits, which free maps may hold
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()


def dump_canonical(value: Any) -> bytes:
    """The bytes that a digest is taken of: sorted keys, separators `,` and `:`, UTF-8 unescaped.

    Raises:
        ValueError: `value` holds a number that is not finite, or text that is not Unicode.
    """
    return b"".join(canonical_chunks(value))


def canonical_chunks(value: Any) -> Iterator[bytes]:
    """`dump_canonical` in pieces: the long lists of a top-level object are written by and by, so that the encoded form of a data set never lies in memory as a whole."""
    if not isinstance(value, dict):
        yield _ENCODER.encode(value).encode()
        return
    before = "{"
    for name in sorted(value):
        yield f"{before}{_ENCODER.encode(name)}:".encode()
        before = ","
        entries = value[name]
        if isinstance(entries, (list, tuple)) and len(entries) > _ENTRIES_PER_CHUNK:
            for start in range(0, len(entries), _ENTRIES_PER_CHUNK):
                part = _ENCODER.encode(entries[start : start + _ENTRIES_PER_CHUNK])
                yield f"{',' if start else '['}{part[1:-1]}".encode()
            yield b"]"
        else:
            yield _ENCODER.encode(entries).encode()
    yield b"}" if before == "," else b"{}"


def digest_of(value: Any) -> str:
    """SHA-256, 64 lower-case hex digits, of `dump_canonical(value)`."""
    digest = hashlib.sha256()
    for chunk in canonical_chunks(value):
        digest.update(chunk)
    return digest.hexdigest()


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
