"""Files that bytes are received into before it is known whether they may stay.

A spool is hashed while it is written and goes with its `with` block; what was published of it keeps a name of its own.
Its process holds a lock on it, which the kernel drops even when the process is killed: a spool that can be locked by
another is nobody's any more, and is removed at once, however young it is.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import threading
import uuid
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Final, Self

from contracts.errors import ObjectMissingError, StorageRefusedError
from contracts.limits import CHUNK_BYTES, FLUSHED_EARLY_BYTES

if TYPE_CHECKING:
    from collections.abc import Iterator
    from concurrent.futures import Future
    from pathlib import Path
    from types import TracebackType

_flushers: Final = ThreadPoolExecutor(4, "flush")
"""They wait for the disk."""


class Spool:
    """One file of bytes that were received, or are being received. One thread writes; any may discard it meanwhile.

    Attributes:
        path: where it is, as long as it is open.
        size_bytes: how many bytes it has by now.
    """

    def __init__(self, path: Path, descriptor: int, *, is_kept: bool = False) -> None:
        self.path = path
        self.size_bytes = 0
        self._is_kept = is_kept
        self._flushed_bytes = 0
        self._flush: Future[None] | None = None
        self._descriptor: int | None = descriptor
        self._digest = hashlib.sha256()
        self._in_use = (
            threading.Lock()
        )  # a descriptor that is closed while it is written to may be another file's by then

    @classmethod
    def create(cls, folder: Path, *, is_kept: bool = False) -> Self:
        """A new, empty one in `folder`, which is made when it is not there.

        Args:
            folder: where.
            is_kept: its file will be the object, as it lies; so the disk begins to take the bytes while they come.

        Raises:
            StorageRefusedError: the file system refuses.
        """
        with _refusals_named(folder):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            while True:
                path = folder / uuid.uuid4().hex
                descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o444)
                if _hold(path, descriptor):
                    return cls(path, descriptor, is_kept=is_kept)

    @classmethod
    def of_file(cls, folder: Path, file: Path) -> Self:
        """One that has the bytes of `file`, not copied but linked and hashed; both are on one file system.

        Args:
            folder: where its name is made.
            file: never written again.

        Raises:
            ObjectMissingError: there is no such file.
            StorageRefusedError: the file system refuses.
        """
        with _refusals_named(folder):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            while True:
                path = folder / uuid.uuid4().hex
                try:
                    os.link(file, path)
                except FileNotFoundError as error:
                    raise ObjectMissingError(
                        f"there is no file {file}",
                        hint="It was removed meanwhile: give its bytes again.",
                        context={"path": str(file)},
                    ) from error
                descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
                if _hold(path, descriptor):
                    break
            spool = cls(path, descriptor)
            try:
                spool._hash_all()
            except BaseException:
                spool.discard()
                raise
            return spool

    @property
    def sha256(self) -> str:
        """The digest of what it has by now, 64 lower-case hex digits."""
        return self._digest.hexdigest()

    def write(self, content: bytes | memoryview) -> None:
        """Appends `content`.

        Raises:
            StorageRefusedError: the disk is full, or refuses.
        """
        view = memoryview(content)
        with self._in_use, _refusals_named(self.path):
            while view:
                # ext4 on a recent Linux takes up to eight times as long for pieces of a megabyte: it looks for large pages.
                view = view[os.write(self._opened(), view[:CHUNK_BYTES]) :]
            self._digest.update(content)
            self.size_bytes += len(content)
            if self._is_kept and self.size_bytes - self._flushed_bytes >= FLUSHED_EARLY_BYTES:
                self._flush_early()

    def synchronize(self) -> None:
        """Afterwards a power cut does not take its bytes.

        Raises:
            StorageRefusedError: the disk refuses.
        """
        with self._in_use, _refusals_named(self.path):
            self._await_flush()
            os.fdatasync(self._opened())

    def discard(self) -> None:
        """Afterwards it has no name of its own; safe to call twice."""
        with self._in_use:
            if self._descriptor is None:
                return
            with contextlib.suppress(OSError):  # left over at worst, and then removed as a killed process's is
                self.path.unlink()
            with contextlib.suppress(OSError):  # nobody wants the bytes any more
                self._await_flush()
            os.close(self._descriptor)
            self._descriptor = None

    def _flush_early(self) -> None:
        """Afterwards the disk is taking what there is by now, unless it is busy with what there was before."""
        if self._flush is None or self._flush.done():
            self._await_flush()
            self._flushed_bytes = self.size_bytes
            self._flush = _flushers.submit(os.fdatasync, self._opened())

    def _await_flush(self) -> None:
        """Afterwards none is under way. The kernel tells of a failure once, so it must not be missed here."""
        if self._flush is not None:
            self._flush.result()

    def _hash_all(self) -> None:
        with open(self._opened(), "rb", buffering=0, closefd=False) as source:
            self._digest = hashlib.file_digest(source, "sha256")
        self.size_bytes = os.fstat(self._opened()).st_size

    def _opened(self) -> int:
        if self._descriptor is None:
            raise RuntimeError("used after it was discarded")  # a defect of the caller, not a state of the world
        return self._descriptor

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.discard()


def sweep(folder: Path) -> int:
    """Afterwards `folder` has no spool whose process is gone; answers how many it had."""
    removed = 0
    with contextlib.suppress(FileNotFoundError), os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_file(follow_symlinks=False) and _remove_if_nobodys(entry.path):
                removed += 1
    return removed


@contextlib.contextmanager
def _refusals_named(path: Path) -> Iterator[None]:
    """What the file system refuses inside of the `with` is raised as our error."""
    try:
        yield
    except OSError as error:
        raise StorageRefusedError(
            f"{path} cannot be written: {error.strerror}",
            hint="Free space on that disk (MTR_HOME), or let this user write there; then repeat.",
            context={"path": str(path), "reason": error.strerror},
        ) from error


def _hold(path: Path, descriptor: int) -> bool:
    """Whether the spool is ours now; a sweep may have come between its making and its lock, and then it is gone.

    The lock is a shared one: two spools of one file are two names of it.
    """
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        if path.exists():
            return True
    except BlockingIOError:
        pass
    path.unlink(missing_ok=True)
    os.close(descriptor)
    return False


def _remove_if_nobodys(path: str) -> bool:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.unlink(path)  # noqa: PTH108 - what `scandir` gives is text
    except OSError:
        return False
    finally:
        os.close(descriptor)
    return True
