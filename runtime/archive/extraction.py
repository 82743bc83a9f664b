"""Unpacking an archive into a folder, so that either all of it is there or nothing is.

1. The structure is checked again, whatever was inspected before: the file may be another one by now.
2. Everything is written into a new folder beside the destination, which nobody else knows.
3. Each file is created by a descriptor of its folder, never through a link, and never over something that exists.
4. Each member is held to its declared size and checksum while it is written.
5. The finished folder takes the destination's name in one step.
"""

from __future__ import annotations

import errno
import os
import posixpath
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Self

from contracts.errors import ConflictError, NotFoundError
from runtime.archive.content import ContentError, unpack
from runtime.archive.disk import refusals_named
from runtime.archive.inspection import require_total
from runtime.archive.limits import CONTRACT_LIMITS, ArchiveLimits
from runtime.archive.source import open_archive
from runtime.archive.structure import read_structure
from runtime.archive.violations import Violations

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import TracebackType

    from runtime.archive.source import ArchiveSource
    from runtime.archive.structure import Member

_FOLDER_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE_MODE = 0o644
_FOLDER_MODE = 0o755


def extract(path: Path, destination: Path, limits: ArchiveLimits = CONTRACT_LIMITS) -> None:
    """Afterwards `destination` is a folder with exactly the archive's files (mode 0644), or it is as it was.

    Args:
        path: the ZIP file.
        destination: a folder that is not there yet, or is empty, in an existing folder.
        limits: what reading the archive may cost; the contract's by default.

    Raises:
        ArchiveRejectedError: the archive breaks rules; `context["violations"]` lists all that could be found.
        ArchiveTooLargeError: it is over a size limit, packed or unpacked.
        ConflictError: `destination` has something in it already.
        NotFoundError: there is no readable file at `path`, or `destination` may not be written.
        WorkspaceLimitError: the disk is full.
    """
    with open_archive(path, limits.max_packed_bytes) as source:
        violations = Violations(source.name)
        members = read_structure(source, limits, violations)  # 1
        violations.raise_if_any()
        require_total(source, members, limits)
        with refusals_named(destination):
            staging = Path(
                tempfile.mkdtemp(prefix=f".{destination.name}.", suffix=".partial", dir=destination.parent)
            )  # 2
        try:
            with refusals_named(destination):
                _write_all(source, members, staging, violations)
            violations.raise_if_any()
            source.require_unchanged()
            staging.chmod(_FOLDER_MODE)
            _take_name(staging, destination)  # 5
        finally:
            shutil.rmtree(staging, ignore_errors=True)  # gone already when it took the destination's name


def read_member(
    path: Path, member_path: str, write: Callable[[bytes], object], limits: ArchiveLimits = CONTRACT_LIMITS
) -> None:
    """Hands the member's bytes to `write`, in order; it is certain that they were exactly those when this returns.

    Args:
        path: the ZIP file.
        member_path: the member's path in the archive, as a manifest names it.
        write: takes one piece after the other.
        limits: what reading the archive may cost; the contract's by default.

    Raises:
        ArchiveRejectedError: the archive breaks rules, or the member's bytes are not what it declares.
        ArchiveTooLargeError: it is over a size limit, packed or unpacked.
        NotFoundError: the archive has no such file, or there is no readable archive at `path`.
    """
    with open_archive(path, limits.max_packed_bytes) as source:
        violations = Violations(source.name)
        members = read_structure(source, limits, violations)
        violations.raise_if_any()
        require_total(source, members, limits)
        wanted = posixpath.normpath(member_path)
        member = next((one for one in members if one.path == wanted and not one.is_folder), None)
        if member is None:
            raise NotFoundError(
                f"{source.name} has no file {member_path}",
                hint="`mtr package inspect FILE` shows the manifest that names the files.",
                context={"archive": source.name, "member": member_path},
            )
        try:
            for piece in unpack(source, member):
                write(piece)
        except ContentError as error:
            violations.add(member.path, str(error))
        violations.raise_if_any()
        source.require_unchanged()


def _write_all(source: ArchiveSource, members: Sequence[Member], root: Path, violations: Violations) -> None:
    with _OpenFolders(root) as folders:
        for member in sorted(members, key=lambda member: member.path.split("/")):  # a folder's files lie together
            if member.is_folder:
                folders.enter(member.path)
                _pass(source, member, violations)
                continue
            parent, _, name = member.path.rpartition("/")
            descriptor = os.open(name, _FILE_FLAGS, _FILE_MODE, dir_fd=folders.enter(parent))  # 3
            with open(descriptor, "wb", buffering=0) as out:  # noqa: PTH123 - a descriptor, not a path
                os.fchmod(descriptor, _FILE_MODE)  # whatever the umask
                try:
                    for piece in unpack(source, member):  # 4
                        _write(out.fileno(), piece)
                except ContentError as error:
                    violations.add(member.path, str(error))


def _pass(source: ArchiveSource, member: Member, violations: Violations) -> None:
    try:
        for _ in unpack(source, member):
            pass
    except ContentError as error:
        violations.add(member.path, str(error))


def _write(descriptor: int, content: bytes) -> None:
    view = memoryview(content)
    while view:
        view = view[os.write(descriptor, view) :]


class _OpenFolders:
    """Descriptors of the folders between the root and the one being written to, at most one for each level."""

    def __init__(self, root: Path) -> None:
        self._root = os.open(root, _FOLDER_FLAGS)
        self._open: list[tuple[str, int]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _traceback: TracebackType | None
    ) -> None:
        self._close_from(0)
        os.close(self._root)

    def enter(self, path: str) -> int:
        """The descriptor of the folder `path` under the root, which is made when it is not there."""
        wanted = path.split("/") if path else []
        shared = 0
        while shared < min(len(wanted), len(self._open)) and self._open[shared][0] == wanted[shared]:
            shared += 1
        self._close_from(shared)
        for name in wanted[shared:]:
            parent = self._open[-1][1] if self._open else self._root
            try:
                os.mkdir(name, _FOLDER_MODE, dir_fd=parent)
            except FileExistsError:
                descriptor = os.open(name, _FOLDER_FLAGS, dir_fd=parent)
            else:
                descriptor = os.open(name, _FOLDER_FLAGS, dir_fd=parent)
                os.fchmod(descriptor, _FOLDER_MODE)
            self._open.append((name, descriptor))
        return self._open[-1][1] if self._open else self._root

    def _close_from(self, level: int) -> None:
        for _, descriptor in reversed(self._open[level:]):
            os.close(descriptor)
        del self._open[level:]


def _take_name(staging: Path, destination: Path) -> None:
    try:
        staging.rename(destination)
    except OSError as error:
        if error.errno not in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR):
            raise
        raise _occupied(destination) from error


def _occupied(destination: Path) -> ConflictError:
    return ConflictError(
        f"{destination} is there already",
        hint="Give a place that does not exist yet, or remove what is there.",
        context={"path": str(destination)},
    )
