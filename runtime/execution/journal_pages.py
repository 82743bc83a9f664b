"""A journal read in pages, each entry with the position after it, so that whoever stopped anywhere goes on exactly there."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import orjson

from contracts.limits import JOURNAL_PAGE_BYTES, MAX_TOLD_ENTRY_BYTES

if TYPE_CHECKING:
    from pathlib import Path

TOO_LONG: Final = "too_long"
"""The kind of what stands for an entry that is longer than `MAX_TOLD_ENTRY_BYTES`; its `bytes` says how long it is."""


@dataclass(frozen=True, slots=True)
class Page:
    """Some entries that follow one another.

    Attributes:
        entries: each with the position after it.
        position: where the next page begins.
        more: whether something was written behind it already.
    """

    entries: list[tuple[int, dict[str, Any]]]
    position: int
    more: bool


def read_page(path: Path, position: int) -> Page:
    """The entries from `position` on, about `JOURNAL_PAGE_BYTES` of them; none where there is no file or nothing new.

    A line that is still being written, or was never finished, is no entry yet. Lines that are none are left out.

    Args:
        path: the journal.
        position: 0, or where another page ended.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return Page([], position, more=False)
    try:
        size = os.fstat(descriptor).st_size
        content = _whole_lines(descriptor, position)
        if content is None:
            return _long_line(descriptor, position, size)
    finally:
        os.close(descriptor)
    entries = []
    for line in content.split(b"\n")[:-1]:
        position += len(line) + 1
        if (entry := _entry(line)) is not None:
            entries.append((position, entry))
    return Page(entries, position, more=position < size and bool(content))


def is_position(path: Path, position: int) -> bool:
    """Whether a page of this journal can end at `position`."""
    if position == 0:
        return True
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        # Behind the end there is nothing to read, and what the client names may be beyond what a file can have.
        return 0 < position <= os.fstat(descriptor).st_size and os.pread(descriptor, 1, position - 1) == b"\n"
    finally:
        os.close(descriptor)


def _whole_lines(descriptor: int, position: int) -> bytes | None:
    """The whole lines from `position` on, one at least where there is one; `None` where it is too long to be told."""
    content = os.pread(descriptor, JOURNAL_PAGE_BYTES, position)
    while content and b"\n" not in content:
        if len(content) > MAX_TOLD_ENTRY_BYTES:
            return None
        further = os.pread(descriptor, JOURNAL_PAGE_BYTES, position + len(content))
        if not further:
            return b""
        content += further
    return content[: content.rfind(b"\n") + 1]


def _long_line(descriptor: int, position: int, size: int) -> Page:
    at = position + MAX_TOLD_ENTRY_BYTES
    while chunk := os.pread(descriptor, JOURNAL_PAGE_BYTES, at):
        found = chunk.find(b"\n")
        if found >= 0:
            after = at + found + 1
            return Page([(after, {"kind": TOO_LONG, "bytes": after - position})], after, more=after < size)
        at += len(chunk)
    return Page([], position, more=False)  # it is still being written


def _entry(line: bytes) -> dict[str, Any] | None:
    try:
        entry = orjson.loads(line)
    except orjson.JSONDecodeError:
        return None  # the line of a writer that was killed
    return entry if isinstance(entry, dict) else None
