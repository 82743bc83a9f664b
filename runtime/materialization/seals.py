"""What files looked like when their content was last known to be right.

A file that still has the same size, times and inode has the same bytes: its change time cannot be set back by a program.
The converse does not hold (a new hard link changes the change time too), so a difference is answered by hashing.
"""

from __future__ import annotations

import hashlib
import os
import stat
import uuid
from array import array
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

from contracts.limits import CHUNK_BYTES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from runtime.materialization.layout import Layout, PlacedFile

_FIELDS: Final = 4
_ABSENT: Final = (-1, 0, 0, 0)
_FORMAT_BITS: Final = 0o170000
_MAGIC: Final = b"mtr-seal-1 "


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """Four numbers for the data set's folder, then for each item's folder and each of its files, in the layout's order.

    Ten million files take 640 MB this way; an object each would take ten times as much.
    """

    numbers: array[int]

    def differing(self, other: Fingerprint) -> Iterator[int]:
        """The positions at which two fingerprints of one layout differ."""
        if self.numbers == other.numbers:
            return
        for at in range(0, len(self.numbers), _FIELDS):
            if self.numbers[at : at + _FIELDS] != other.numbers[at : at + _FIELDS]:
                yield at // _FIELDS


def observe(tree: Path, layout: Layout) -> Fingerprint:
    """What the files of `layout` under `tree` look like now. Nothing is followed, nothing is read."""
    numbers = array("q")
    try:
        root = os.open(tree, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        count = 1 + sum(1 + len(files) for files in layout.items)
        return Fingerprint(array("q", _ABSENT * count))
    try:
        found = os.fstat(root)
        numbers.extend((stat.S_IFMT(found.st_mode), found.st_mtime_ns, 0, found.st_ino))
        look, add = os.stat, numbers.extend
        for files in layout.items:
            folder = files[0].folder
            try:  # its modification time changes with every name that comes or goes; what it is not, its mode tells
                found = look(folder, dir_fd=root, follow_symlinks=False)
            except OSError:
                add(_ABSENT * (1 + len(files)))
                continue
            add((found.st_mode & _FORMAT_BITS, found.st_mtime_ns, 0, found.st_ino))
            for file in files:
                try:
                    found = look(f"{folder}/{file.name}", dir_fd=root, follow_symlinks=False)
                except OSError:
                    add(_ABSENT)
                else:
                    add((found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino))
    finally:
        os.close(root)
    return Fingerprint(numbers)


def positions(layout: Layout) -> Iterator[tuple[PlacedFile | str, int]]:
    """What each position of a fingerprint stands for: a folder's relative path (`""` is the root) or a file."""
    yield "", 0
    at = 1
    for files in layout.items:
        yield files[0].folder, at
        for step, file in enumerate(files, start=1):
            yield file, at + step
        at += 1 + len(files)


def damage(tree: Path, layout: Layout, suspects: set[int]) -> list[str]:
    """Of the suspect positions, the relative paths that are really wrong, found by hashing and listing.

    A file is wrong when it is missing, no regular file or has other bytes; a folder when it is none, and what should
    not be in it is wrong by itself.
    """
    found: list[str] = []
    expected: dict[str, set[str]] = {}
    wanted = [(what, at) for what, at in positions(layout) if at in suspects]
    if any(what == "" for what, _ in wanted):
        expected[""] = {files[0].folder for files in layout.items}
    for what, _ in wanted:
        if isinstance(what, str):
            names = expected.get(what) or _names_in(layout, what)
            found += _wrong_folder(tree, what, names)
        elif not holds(tree / what.folder / what.name, what.pinned.sha256):
            found.append(f"{what.folder}/{what.name}")
    return found


def _names_in(layout: Layout, folder: str) -> set[str]:
    files = layout.items[int(folder[:8])]  # a folder begins with its item's index
    return {file.name for file in files}


def _wrong_folder(tree: Path, folder: str, names: set[str]) -> list[str]:
    path = tree / folder if folder else tree
    try:
        if not stat.S_ISDIR(os.lstat(path).st_mode):
            return [folder or "."]
        present = {entry.name for entry in os.scandir(path)}
    except OSError:
        return [folder or "."]
    return [f"{folder}/{name}" if folder else name for name in sorted(present - names)]


def holds(path: Path | str, sha256: str) -> bool:
    """Whether `path` is a regular file, no link, with exactly these bytes."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError:
        return False
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return False
        return digest_of_descriptor(descriptor) == sha256
    except OSError:
        return False
    finally:
        os.close(descriptor)


def digest_of_descriptor(descriptor: int) -> str:
    """SHA-256 of what an open file holds from its current position on."""
    digest = hashlib.sha256()
    while chunk := os.read(descriptor, CHUNK_BYTES):
        digest.update(chunk)
    return digest.hexdigest()


def write_seal(path: Path, fingerprint: Fingerprint) -> None:
    """Afterwards `path` records the fingerprint and the running system, as a whole or as before."""
    partial = path.with_name(f"{path.name}.{uuid.uuid4().hex}.partial")
    partial.write_bytes(_MAGIC + _boot_id() + b"\n" + fingerprint.numbers.tobytes())
    partial.replace(path)


def read_seal(path: Path) -> tuple[Fingerprint | None, bool]:
    """What `path` records, `None` when it is unreadable, and whether this system has run since.

    After a crash of the machine a file's size and times may have reached the disk without its bytes.
    """
    try:
        content = path.read_bytes()
    except OSError:
        return None, False
    head, _, body = content.partition(b"\n")
    numbers = array("q")
    if not head.startswith(_MAGIC) or len(body) % (_FIELDS * numbers.itemsize):
        return None, False
    numbers.frombytes(body)
    return Fingerprint(numbers), head == _MAGIC + _boot_id()


@cache
def _boot_id() -> bytes:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_bytes().strip()
    except OSError:
        return b"unknown"
