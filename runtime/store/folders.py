"""Objects as files: one folder a bucket, with the same promises as the remote store.

OpenDAL costs eight times a native call on small local files, so this place is written against the operating system.
A published file is read-only and never written again: it is made under `.staging` and linked to its key, and `link`,
unlike `rename`, fails when the key exists. That is the conditional put.
"""

from __future__ import annotations

import contextlib
import errno
import os
import time
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Final, NoReturn

from contracts.errors import (
    ConflictError,
    ObjectChangedError,
    ObjectMissingError,
    RuntimeFault,
    StorageRefusedError,
    StorageUnavailableError,
)
from contracts.limits import ABANDONED_WRITE_SECONDS, CHUNK_BYTES
from runtime.store.backend import LOGICAL_BUCKETS, ObjectStat

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from contracts.references import Pinned
    from runtime.store.spool import Spool

STAGING_FOLDER: Final = ".staging"
SPOOL_FOLDER: Final = ".spool"
OBJECT_MODE: Final = 0o444

TICK_NS: Final = 50_000_000
"""Linux stamps files with the time of the last timer tick (4 or 10 ms); twice-written files can look alike within it."""
COARSE_TICK_NS: Final = 2_500_000_000
"""File systems that store whole seconds, FAT's two at worst."""


class FolderBackend:
    """Objects under `root`, one folder a logical bucket, made on first use."""

    def __init__(self, root: Path) -> None:
        self.root = root.absolute()
        self._buckets: Mapping[str, str] = {bucket: os.fspath(self.root / bucket) for bucket in LOGICAL_BUCKETS}
        self._staging = os.fspath(self.root / STAGING_FOLDER)
        self._swept = False

    @property
    def identity(self) -> str:
        """The root folder."""
        return f"file:{self.root}"

    def path(self, bucket: str, key: str) -> str:
        """Where an object's file is, or would be."""
        return f"{self._buckets[bucket]}/{key}"

    def stat(self, bucket: str, key: str) -> ObjectStat:
        """Size and an etag of inode, times and size."""
        now = time.time_ns()
        try:
            found = os.stat(self.path(bucket, key))  # noqa: PTH116 - strings, not Path objects: this runs per object
        except OSError as error:
            _raise_for(error, bucket, key)
        if not _is_regular(found.st_mode):
            raise _missing(bucket, key)
        return _stat_of(found, now)

    @property
    def reads_faster_when_known(self) -> bool:
        """A look at a file costs as much as reading a small one."""
        return False

    @property
    def threads(self) -> int:
        """One: the calls are short and fight for the interpreter, where a second processor would gain less than that."""
        return 1

    def stat_many(self, bucket: str, keys: Collection[str]) -> dict[str, ObjectStat]:
        """One `stat` each."""
        found = {}
        for key in keys:
            with contextlib.suppress(ObjectMissingError):
                found[key] = self.stat(bucket, key)
        return found

    def read(self, bucket: str, key: str, *, expected_bytes: int, known: ObjectStat | None = None) -> bytes:
        """The whole file, or its first `expected_bytes + 1` bytes."""
        try:
            descriptor = os.open(self.path(bucket, key), os.O_RDONLY | os.O_CLOEXEC)
            try:
                if known is not None:
                    _require_etag(descriptor, known.etag, bucket, key)
                content = os.read(descriptor, expected_bytes + 1)
                if len(content) in (0, expected_bytes, expected_bytes + 1):
                    return content
                parts = [content]  # a read of a regular file is short only at its end or near a signal
                while content and sum(map(len, parts)) <= expected_bytes:
                    content = os.read(descriptor, expected_bytes + 1 - sum(map(len, parts)))
                    parts.append(content)
                return b"".join(parts)
            finally:
                os.close(descriptor)
        except OSError as error:
            _raise_for(error, bucket, key)

    def chunks(self, bucket: str, key: str, *, etag: str | None = None, start: int = 0) -> Iterator[memoryview]:
        """The file's bytes through one buffer."""
        buffer = memoryview(bytearray(CHUNK_BYTES))
        try:
            with open(self.path(bucket, key), "rb", buffering=0) as source:  # noqa: PTH123 - see stat
                if etag is not None:
                    _require_etag(source.fileno(), etag, bucket, key)
                source.seek(start)
                while size := source.readinto(buffer):
                    yield buffer[:size]
        except OSError as error:
            _raise_for(error, bucket, key)

    def create(self, bucket: str, key: str, content: bytes) -> bool:
        """Writes beside, then links to the key."""
        write = self.stage(bucket, key)
        try:
            write.write(content)
            return write.commit()
        finally:
            write.abandon()

    def stage(self, bucket: str, key: str) -> _StagedFile:
        """A file under `.staging` of the same root, hence on the same file system."""
        path = f"{self._staging}/{uuid.uuid4().hex}"
        try:
            self._sweep_once()
            try:
                descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, OBJECT_MODE)
            except FileNotFoundError:
                os.makedirs(self._staging, exist_ok=True)  # noqa: PTH103 - see stat
                descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, OBJECT_MODE)
        except OSError as error:
            _raise_for(error, bucket, key)
        return _StagedFile(descriptor, path, self.path(bucket, key), bucket, key)

    @property
    def spool_folder(self) -> Path:
        """Beside the buckets, hence on the same file system."""
        return self.root / SPOOL_FOLDER

    @property
    def keeps_spools(self) -> bool:
        """Always."""
        return True

    def adopt(self, spool: Spool, bucket: str, key: str) -> bool:
        """One more name for the file: its bytes were written when they arrived and are not written again."""
        try:
            spool.synchronize()
        except OSError as error:
            _raise_for(error, bucket, key)
        return _link(os.fspath(spool.path), self.path(bucket, key), bucket, key)

    def file_of(self, bucket: str, key: str) -> Path:
        """The object is a file."""
        return Path(self.path(bucket, key))

    def presign_put(self, pinned: Pinned, seconds: int) -> None:
        """None: nobody reaches this machine's folders from outside."""

    def _sweep_once(self) -> None:
        """Removes what killed processes left staged; at the first write, so that nobody has to remember it."""
        if self._swept:
            return
        self._swept = True
        with contextlib.suppress(FileNotFoundError):
            for left in os.scandir(self._staging):
                with contextlib.suppress(FileNotFoundError):
                    if time.time() - left.stat(follow_symlinks=False).st_mtime > ABANDONED_WRITE_SECONDS:
                        os.unlink(left.path)  # noqa: PTH108 - see stat

    def list(self, bucket: str, prefix: str) -> Iterator[tuple[str, ObjectStat]]:
        """Walks the folder that the prefix names and keeps what starts with it."""
        root = self._buckets[bucket]
        folder = prefix.rpartition("/")[0]
        now = time.time_ns()
        try:
            yield from _walk(root, folder, prefix, now)
        except OSError as error:
            _raise_for(error, bucket, prefix)

    def delete(self, bucket: str, key: str) -> None:
        """Unlinks the file; its folders stay."""
        try:
            os.unlink(self.path(bucket, key))  # noqa: PTH108 - see stat
        except FileNotFoundError:
            return
        except OSError as error:
            _raise_for(error, bucket, key)

    def missing_buckets(self) -> tuple[str, ...]:
        """None: a folder is made with its first object."""
        return ()

    def ensure_buckets(self) -> tuple[str, ...]:
        """Makes the folders, so that a first look at an empty store finds four buckets."""
        made = []
        for bucket, folder in self._buckets.items():
            try:
                os.makedirs(folder)  # noqa: PTH103 - see stat
                made.append(bucket)
            except FileExistsError:
                continue
            except OSError as error:
                _raise_for(error, bucket, "")
        return tuple(made)

    def check(self) -> None:
        """Writes, links, reads and removes a probe in every bucket."""
        for bucket in LOGICAL_BUCKETS:
            probe = f".check/{uuid.uuid4().hex}"
            self.create(bucket, probe, b"probe")
            self.read(bucket, probe, expected_bytes=5)
            self.delete(bucket, probe)
            with contextlib.suppress(OSError):
                os.rmdir(f"{self._buckets[bucket]}/.check")  # noqa: PTH106 - see stat


class _StagedFile:
    """A write that becomes the object by one `link`."""

    def __init__(self, descriptor: int, path: str, target: str, bucket: str, key: str) -> None:
        self._descriptor: int | None = descriptor
        self._path: str | None = path
        self._target, self._bucket, self._key = target, bucket, key

    def write(self, chunk: bytes | memoryview) -> None:
        """Appends; short writes are continued."""
        if self._descriptor is None:
            raise RuntimeError("written to after commit")  # a defect of the caller, not a state of the world
        view = memoryview(chunk)
        try:
            while view:
                view = view[os.write(self._descriptor, view) :]
        except OSError as error:
            _raise_for(error, self._bucket, self._key)

    def commit(self) -> bool:
        """Synchronizes the data, then links: after a power cut the key has all of its bytes or is not there."""
        if self._descriptor is None or self._path is None:
            raise RuntimeError("committed twice")
        try:
            os.fdatasync(self._descriptor)
            self._close()
        except OSError as error:
            _raise_for(error, self._bucket, self._key)
        return _link(self._path, self._target, self._bucket, self._key)

    def abandon(self) -> None:
        """Removes the staged name; the object, if it was committed, keeps its own."""
        self._close()
        if self._path is not None:
            with contextlib.suppress(OSError):  # left over at worst: `.staging` is never read
                os.unlink(self._path)  # noqa: PTH108 - see stat
            self._path = None

    def _close(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


def _link(path: str, target: str, bucket: str, key: str) -> bool:
    """Gives the file the key's name; False when the key exists."""
    try:
        try:
            os.link(path, target)
        except FileNotFoundError:
            os.makedirs(os.path.dirname(target), exist_ok=True)  # noqa: PTH103, PTH120 - strings, as everywhere here
            os.link(path, target)
    except FileExistsError:
        if os.path.isfile(target):  # noqa: PTH113 - see above
            return False
        raise _shadowed(bucket, key) from None
    except NotADirectoryError:
        raise _shadowed(bucket, key) from None
    except OSError as error:
        _raise_for(error, bucket, key)
    return True


def _walk(root: str, folder: str, prefix: str, now: int) -> Iterator[tuple[str, ObjectStat]]:
    try:
        entries = list(os.scandir(f"{root}/{folder}"))
    except (FileNotFoundError, NotADirectoryError):
        return
    for entry in entries:
        key = f"{folder}/{entry.name}" if folder else entry.name
        if entry.is_dir(follow_symlinks=False):
            below = f"{key}/"
            if below.startswith(prefix) or prefix.startswith(below):
                yield from _walk(root, key, prefix, now)
        elif key.startswith(prefix):
            with contextlib.suppress(FileNotFoundError):  # deleted since it was listed
                yield key, _stat_of(entry.stat(), now)


def _stat_of(found: os.stat_result, now_ns: int) -> ObjectStat:
    newest = max(found.st_mtime_ns, found.st_ctime_ns)
    tick = COARSE_TICK_NS if found.st_ctime_ns % 1_000_000 == 0 else TICK_NS
    return ObjectStat(
        size_bytes=found.st_size,
        etag=f"{found.st_ino:x}-{found.st_mtime_ns:x}-{found.st_ctime_ns:x}-{found.st_size:x}",
        settled=now_ns - newest > tick,
    )


def _require_etag(descriptor: int, etag: str, bucket: str, key: str) -> None:
    if _stat_of(os.fstat(descriptor), 0).etag != etag:
        raise ObjectChangedError(
            f"{bucket}/{key} changed while it was being read",
            hint="Stop what writes to it, then repeat the command.",
            context={"bucket": bucket, "object_key": key},
        )


def _is_regular(mode: int) -> bool:
    return mode & 0o170000 == 0o100000


def _missing(bucket: str, key: str) -> ObjectMissingError:
    return ObjectMissingError(
        f"{bucket}/{key} is not in the store",
        hint="Upload the object, or correct the reference that names it.",
        context={"bucket": bucket, "object_key": key},
    )


def _shadowed(bucket: str, key: str) -> ConflictError:
    return ConflictError(
        f"{bucket}/{key} cannot be written: a part of the key is an object, or the key is a folder of others",
        hint="Choose another key: local folders cannot hold an object `a` beside an object `a/b`.",
        context={"bucket": bucket, "object_key": key},
    )


def _raise_for(error: OSError, bucket: str, key: str) -> NoReturn:
    raise _fault_for(error, bucket, key) from error


def _fault_for(error: OSError, bucket: str, key: str) -> RuntimeFault:
    place = f"{bucket}/{key}"
    reason = os.strerror(error.errno) if error.errno else str(error)
    context = {"bucket": bucket, "object_key": key, "reason": reason}
    match error.errno:
        case errno.ENOENT | errno.ENOTDIR | errno.EISDIR:
            return _missing(bucket, key)
        case errno.ENOSPC | errno.EDQUOT:
            return StorageRefusedError(
                f"no room for {place}: {reason}",
                hint="Free space where the store lies (MTR_HOME), or move it to a larger disk; then repeat.",
                context=context,
            )
        case errno.EACCES | errno.EPERM | errno.EROFS:
            return StorageRefusedError(
                f"{place}: {reason}",
                hint="Let this user read and write the store's folder (MTR_HOME); then repeat.",
                context=context,
            )
        case errno.ENAMETOOLONG:
            return StorageRefusedError(
                f"{place} has a part too long for this file system",
                hint="Use a shorter key, or an S3 store.",
                context=context,
            )
    return StorageUnavailableError(
        f"{place}: {reason}", hint="Check the disk that holds the store; then repeat.", context=context
    )
