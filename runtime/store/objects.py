"""The object store: what is read is exactly what was pinned, what is written is there whole, once, or not at all."""

from __future__ import annotations

import contextlib
import hashlib
import os
import tempfile
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Self, TypeVar

from contracts.errors import (
    ArtifactMissingError,
    ConflictError,
    DigestMismatchError,
    ObjectMissingError,
    ObjectTooLargeError,
    RuntimeFault,
    StorageRefusedError,
    StorageUnavailableError,
)
from contracts.limits import CHUNK_BYTES, SINGLE_PUT_BYTES, SMALL_OBJECT_BYTES
from contracts.references import Pinned
from runtime.store.backend import Backend, ObjectStat, require_address
from runtime.store.folders import FolderBackend
from runtime.store.parallel import for_each
from runtime.store.spool import Spool, sweep

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator

    from runtime.settings import Settings
    from runtime.store.backend import DirectPut
    from runtime.store.s3 import S3Settings, StoreDeadlines

Item = TypeVar("Item")

_PUBLISH_TRIES = 3  # an upload that another's cleanup took away begins again; a third time it is no accident


class ObjectStore:
    """Four logical buckets: `default`, `datasets`, `models`, `annotations`. Safe to share between threads.

    Every method may raise `StorageUnavailableError` (safe to call again) and `StorageRefusedError` (the operator has
    to do something first), and `InvalidDocumentError` for a bucket or key that is none.
    """

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._spools_swept = False

    @classmethod
    def local(cls, root: Path) -> Self:
        """A store of local folders under `root`, made when first written to."""
        return cls(FolderBackend(root))

    @classmethod
    def s3(
        cls, settings: S3Settings, deadlines: StoreDeadlines | None = None, *, spool_folder: Path | None = None
    ) -> Self:
        """A store in S3 buckets, which must exist (`ensure_buckets`).

        Args:
            settings: where they are.
            deadlines: how long it may take.
            spool_folder: where what is received waits to be checked and sent; one of the system's by default.
        """
        from runtime.store.s3 import S3Backend, StoreDeadlines  # noqa: PLC0415 - 40 ms that a local store need not pay

        folder = spool_folder or Path(tempfile.gettempdir()) / f"mtr-spool-{os.getuid()}"
        return cls(S3Backend(settings, deadlines or StoreDeadlines(), folder))

    @property
    def identity(self) -> str:
        """Names the place; two stores of the same identity hold the same objects."""
        return self._backend.identity

    # --- reading ---------------------------------------------------------------------------------------------------

    def fetch_verified(
        self, pinned: Pinned, destination: Path | str, *, known: ObjectStat | None = None, into_staging: bool = False
    ) -> None:
        """Afterwards `destination` holds the pinned bytes; on an error it is as it was before.

        Args:
            pinned: what is fetched.
            destination: a file in an existing folder; replaced if it is there.
            known: what `stat_many` said of it; saves a fifth of the processor time of a small object.
            into_staging: the folder is the caller's alone and goes as a whole when anything fails. Then the file is
                made under its own name, which must be free, and read-only: renaming each of many small files costs a
                fifth of the time.

        Raises:
            DigestMismatchError: the object has other bytes than were pinned; nothing is kept.
            ObjectMissingError: there is no such object.
        """
        require_address(pinned.bucket, pinned.key)
        target = os.fspath(destination)
        partial = target if into_staging else f"{target}.{uuid.uuid4().hex[:12]}.partial"
        kept = False
        try:
            descriptor = _create(partial, 0o444 if into_staging else 0o644)
            try:
                self._copy_verified(pinned, descriptor, target, known)
            finally:
                os.close(descriptor)
            if not into_staging:
                os.replace(partial, target)  # noqa: PTH105 - strings, not Path objects: this runs per object
            kept = True
        except OSError as error:
            raise _no_room(target, error) from error
        finally:
            if not kept:
                with contextlib.suppress(OSError):
                    os.unlink(partial)  # noqa: PTH108 - see above

    def _copy_verified(self, pinned: Pinned, descriptor: int, target: str, known: ObjectStat | None) -> None:
        if pinned.size_bytes <= SMALL_OBJECT_BYTES:
            content = self._backend.read(pinned.bucket, pinned.key, expected_bytes=pinned.size_bytes, known=known)
            _require_pinned(pinned, hashlib.sha256(content).hexdigest(), len(content))
            _write_all(descriptor, content, target)
            return
        for chunk in self._verified_chunks(pinned):
            _write_all(descriptor, chunk, target)

    def _verified_chunks(self, pinned: Pinned) -> Iterator[memoryview]:
        """The object's bytes; after the last one it is certain that they were the pinned ones."""
        digest, size = hashlib.sha256(), 0
        for chunk in self._backend.chunks(pinned.bucket, pinned.key):
            size += len(chunk)
            if size > pinned.size_bytes:  # stop paying for an object that cannot be right
                break
            digest.update(chunk)
            yield chunk
        _require_pinned(pinned, digest.hexdigest(), size)

    def read_verified(self, pinned: Pinned, *, max_bytes: int) -> bytes:
        """The pinned bytes, in memory.

        Raises:
            ObjectTooLargeError: more than `max_bytes` are pinned; nothing is read.
            DigestMismatchError: the object has other bytes than were pinned.
            ObjectMissingError: there is no such object.
        """
        require_address(pinned.bucket, pinned.key)
        if pinned.size_bytes > max_bytes:
            raise _too_large(pinned.bucket, pinned.key, pinned.size_bytes, max_bytes)
        if pinned.size_bytes <= SMALL_OBJECT_BYTES:
            content = bytes(self._backend.read(pinned.bucket, pinned.key, expected_bytes=pinned.size_bytes))
            _require_pinned(pinned, hashlib.sha256(content).hexdigest(), len(content))
            return content
        return b"".join(map(bytes, self._verified_chunks(pinned)))

    def read_small(self, bucket: str, key: str, *, max_bytes: int) -> bytes:
        """A record's bytes, which nothing pins: only for what is itself looked up by name.

        Raises:
            ObjectTooLargeError: it has more than `max_bytes`; no more than that is read.
            ObjectMissingError: there is no such object.
        """
        require_address(bucket, key)
        if max_bytes <= SMALL_OBJECT_BYTES:
            content = bytes(self._backend.read(bucket, key, expected_bytes=max_bytes))
            if len(content) > max_bytes:
                raise _too_large(bucket, key, len(content), max_bytes)
            return content
        parts, size = [], 0
        for chunk in self._backend.chunks(bucket, key):
            size += len(chunk)
            if size > max_bytes:
                raise _too_large(bucket, key, size, max_bytes)
            parts.append(bytes(chunk))
        return b"".join(parts)

    def chunks(self, bucket: str, key: str, *, etag: str | None = None, start: int = 0) -> Iterator[memoryview]:
        """The object's bytes in order, unverified; a view is valid until the next one is asked for.

        Args:
            bucket: logical bucket.
            key: object key.
            etag: what `stat` said; another object is refused.
            start: the first byte that is wanted, below the object's size.

        Raises:
            ObjectMissingError: there is no such object.
            ObjectChangedError: it was replaced while it was being read, or is no longer that of `etag`.
        """
        require_address(bucket, key)
        yield from self._backend.chunks(bucket, key, etag=etag, start=start)

    def measure(self, bucket: str, key: str, *, known: ObjectStat | None = None) -> Pinned:
        """Reads and hashes every byte, and pins what was found.

        Args:
            bucket: logical bucket.
            key: object key.
            known: what `stat` or `list_stats` said; then the bytes are certain to be those of that etag, and a small
                object takes one request.

        Raises:
            ObjectMissingError: there is no such object.
            ObjectChangedError: it was replaced while it was being read, or is no longer what `known` says.
        """
        require_address(bucket, key)
        etag = known.etag if known else None
        if known and known.size_bytes <= SMALL_OBJECT_BYTES:
            content = self._backend.read(bucket, key, expected_bytes=known.size_bytes, known=known)
            return Pinned(bucket, key, hashlib.sha256(content).hexdigest(), len(content))
        digest, size = hashlib.sha256(), 0
        for chunk in self._backend.chunks(bucket, key, etag=etag):
            digest.update(chunk)
            size += len(chunk)
        return Pinned(bucket, key, digest.hexdigest(), size)

    def stat(self, bucket: str, key: str) -> ObjectStat:
        """Size and etag, without reading.

        Raises:
            ObjectMissingError: there is no such object.
        """
        require_address(bucket, key)
        return self._backend.stat(bucket, key)

    def stat_many(self, bucket: str, keys: Collection[str]) -> dict[str, ObjectStat]:
        """What is known of each key without reading it; a missing object has no entry.

        On S3 a listing, which tells a thousand keys at once, as long as it does not list too much else.
        """
        for key in keys:
            require_address(bucket, key)
        return self._backend.stat_many(bucket, keys)

    def survey(self, pinned: Iterable[Pinned]) -> dict[tuple[str, str], ObjectStat]:
        """By bucket and key, what `fetch_verified` is quicker for knowing; empty where that would gain nothing."""
        if not self._backend.reads_faster_when_known:
            return {}
        keys: dict[str, list[str]] = {}
        for each in pinned:
            keys.setdefault(each.bucket, []).append(each.key)
        return {
            (bucket, key): stat
            for bucket, wanted in keys.items()
            for key, stat in self.stat_many(bucket, wanted).items()
        }

    def exists(self, bucket: str, key: str) -> bool:
        """Whether the key is there."""
        try:
            self.stat(bucket, key)
        except ObjectMissingError:
            return False
        return True

    def list(self, bucket: str, prefix: str) -> Iterator[str]:
        """Every key that starts with `prefix`, in no particular order: servers differ."""
        for key, _ in self.list_stats(bucket, prefix):
            yield key

    def list_stats(self, bucket: str, prefix: str) -> Iterator[tuple[str, ObjectStat]]:
        """Every key that starts with `prefix`, in no particular order, with what a listing tells about it."""
        require_address(bucket, prefix.rstrip("/") or "all")
        return self._backend.list(bucket, prefix)

    def for_each(
        self, items: Iterable[Item], work: Callable[[Item], None], *, on_tick: Callable[[], None] | None = None
    ) -> None:
        """Calls `work` for every item, in as many threads as this store is worth; see `runtime.store.parallel`."""
        for_each(items, work, threads=self._backend.threads, on_tick=on_tick)

    # --- receiving -------------------------------------------------------------------------------------------------

    def spool(self) -> Spool:
        """A file to receive bytes into, for a `with`; `publish_file` makes it an object, here without a second writing.

        Raises:
            StorageRefusedError: this machine's disk refuses.
        """
        if not self._spools_swept:
            self._spools_swept = True
            self.sweep_spools()
        return Spool.create(self._backend.spool_folder, is_kept=self._backend.keeps_spools)

    def spool_object(self, bucket: str, key: str, *, max_bytes: int) -> Spool:
        """A spool of the object's bytes as they are now, for a `with`: fetched, or linked where they are a file.

        Raises:
            ObjectTooLargeError: it has more than `max_bytes`; no more than that is read.
            ObjectMissingError: there is no such object.
            ObjectChangedError: it was replaced while it was being read.
        """
        size = self.stat(bucket, key).size_bytes
        if size > max_bytes:
            raise _too_large(bucket, key, size, max_bytes)
        file = self._backend.file_of(bucket, key)
        if file is not None:
            return Spool.of_file(self._backend.spool_folder, file)
        spool = self.spool()
        try:
            for chunk in self._backend.chunks(bucket, key):
                spool.write(chunk)
                if spool.size_bytes > max_bytes:  # replaced by a larger one since it was looked at
                    raise _too_large(bucket, key, spool.size_bytes, max_bytes)  # noqa: TRY301 - one way out
        except BaseException:
            spool.discard()
            raise
        return spool

    def sweep_spools(self) -> int:
        """Afterwards nothing is left of what killed processes were receiving; answers how many files that were."""
        return sweep(self._backend.spool_folder)

    def presign_put(self, pinned: Pinned, *, seconds: int) -> DirectPut | None:
        """A PUT that somebody without credentials may send to the store itself, of exactly the pinned bytes.

        None for a store of local folders, which nobody reaches from outside.

        Args:
            pinned: where, and what.
            seconds: how long it is valid.
        """
        require_address(pinned.bucket, pinned.key)
        return self._backend.presign_put(pinned, seconds)

    # --- writing ---------------------------------------------------------------------------------------------------

    def publish_file(self, source: Path | Spool, pinned: Pinned) -> bool:
        """Afterwards the key holds the pinned bytes; nobody ever saw a part of them there.

        1. Open the file once, not following a symbolic link, so that what is hashed is what is sent.
        2. Stage its bytes where nobody sees them, hashing and counting on the way.
        3. Compare with what was announced; on a difference, drop them.
        4. Publish on the condition that the key does not exist.
        5. Where it exists, read the winner and compare digests.

        Args:
            source: a regular file, or a spool of this store, whose bytes need not be hashed, nor in local folders
                written, a second time.
            pinned: where it goes and what it is.

        Returns:
            True when this call made the object, False when it was there with the same bytes.

        Raises:
            ConflictError: the key holds other bytes; they stay.
            DigestMismatchError: the file is not what was announced; nothing was published.
            ArtifactMissingError: the file is not there, or is a symbolic link.
        """
        require_address(pinned.bucket, pinned.key)
        if pinned.size_bytes > SINGLE_PUT_BYTES and self._holds(pinned):
            return False  # looking first costs a request; sending it all in vain costs the object
        for remaining in reversed(range(_PUBLISH_TRIES)):
            try:
                if self._publish(source, pinned):
                    return True
            except ObjectMissingError:  # another's cleanup dropped our parts, since it found the key taken
                if not remaining:
                    raise
            if self._holds(pinned):
                return False
        raise _taken(pinned)  # taken away between the conditional put and the look: somebody deletes here

    def _publish(self, source: Path | Spool, pinned: Pinned) -> bool:
        if isinstance(source, Spool):
            _require_announced(source.path, pinned, source.sha256, source.size_bytes)
            adopted = self._backend.adopt(source, pinned.bucket, pinned.key)
            if adopted is not None:
                return adopted
            source = source.path
        descriptor = _open_source(source)
        try:
            if pinned.size_bytes <= SINGLE_PUT_BYTES:
                content = _read_all(descriptor, pinned.size_bytes + 1, source)
                _require_announced(source, pinned, hashlib.sha256(content).hexdigest(), len(content))
                return self._backend.create(pinned.bucket, pinned.key, content)
            staged = self._backend.stage(pinned.bucket, pinned.key)
            try:
                digest, size = hashlib.sha256(), 0
                while chunk := _read_some(descriptor, source):
                    size += len(chunk)
                    if size > pinned.size_bytes:
                        break
                    staged.write(chunk)
                    digest.update(chunk)
                _require_announced(source, pinned, digest.hexdigest(), size)
                return staged.commit()
            finally:
                staged.abandon()
        finally:
            os.close(descriptor)

    def publish_bytes(self, content: bytes, bucket: str, key: str) -> bool:
        """Afterwards the key holds `content`, by a conditional put.

        Of several writers of at most `SINGLE_PUT_BYTES` exactly one is told True: let a small record decide. (Of a
        larger object's writers two may be, where the server completes uploads without looking.)

        Returns:
            True when this call made the object, False when it was there with the same bytes.

        Raises:
            ConflictError: the key holds other bytes; they stay.
        """
        require_address(bucket, key)
        pinned = Pinned(bucket, key, hashlib.sha256(content).hexdigest(), len(content))
        for remaining in reversed(range(_PUBLISH_TRIES)):
            try:
                if self._put(content, bucket, key):
                    return True
            except ObjectMissingError:  # as in publish_file
                if not remaining:
                    raise
            if self._holds(pinned):
                return False
        raise _taken(pinned)

    def remove(self, bucket: str, key: str) -> None:
        """Afterwards there is no such object. For what is certain to be nobody's: what is registered stays for ever."""
        require_address(bucket, key)
        self._backend.delete(bucket, key)

    def _put(self, content: bytes, bucket: str, key: str) -> bool:
        if len(content) <= SINGLE_PUT_BYTES:
            return self._backend.create(bucket, key, content)
        staged = self._backend.stage(bucket, key)
        try:
            for start in range(0, len(content), SINGLE_PUT_BYTES):
                staged.write(memoryview(content)[start : start + SINGLE_PUT_BYTES])
            return staged.commit()
        finally:
            staged.abandon()

    def _holds(self, pinned: Pinned) -> bool:
        """Whether the key holds the pinned bytes, every one read; False when there is no such key.

        Raises:
            ConflictError: it holds others.
        """
        try:
            found = self._backend.stat(pinned.bucket, pinned.key)
            if found.size_bytes == pinned.size_bytes:
                for _ in self._verified_chunks(pinned):
                    pass
                return True
        except ObjectMissingError:
            return False
        except DigestMismatchError as error:
            raise _conflict(pinned, f"digest {error.context['found_sha256']}") from error
        raise _conflict(pinned, f"{found.size_bytes} bytes")

    # --- the place itself --------------------------------------------------------------------------------------------

    def missing_buckets(self) -> tuple[str, ...]:
        """The real names of the buckets that do not exist, which `ensure_buckets` would make."""
        return self._backend.missing_buckets()

    def ensure_buckets(self) -> tuple[str, ...]:
        """Afterwards every bucket exists; returns the names of those that were made."""
        return self._backend.ensure_buckets()

    def check(self) -> None:
        """Returns when every bucket exists and an object can be written, read and removed in it."""
        self._backend.check()

    def local_path(self, bucket: str, key: str) -> Path | None:
        """Where a person finds the object as a file; None when it is not on this machine. To show, never to open."""
        require_address(bucket, key)
        if isinstance(self._backend, FolderBackend):
            return self._backend.root / bucket / key
        return None


def open_store(settings: Settings) -> ObjectStore:
    """The store that `settings` name. Nothing is asked of it yet."""
    if not settings.uses_s3:
        return ObjectStore.local(settings.store_root)
    from runtime.store.s3 import S3Settings  # noqa: PLC0415 - see ObjectStore.s3

    return ObjectStore.s3(
        S3Settings(
            endpoint=settings.s3_endpoint,
            access_key=settings.s3_access_key.get_secret_value(),
            secret_key=settings.s3_secret_key.get_secret_value(),
            region=settings.s3_region,
            buckets=settings.buckets,
        ),
        spool_folder=settings.home / "spool",
    )


def _create(path: str, mode: int) -> int:
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)


def _write_all(descriptor: int, content: bytes | memoryview, target: str) -> None:
    written = _write(descriptor, content, target)
    if written != len(content):  # rare: a signal, or a disk about to be full
        view = memoryview(content)[written:]
        while view:
            view = view[_write(descriptor, view, target) :]


def _write(descriptor: int, content: bytes | memoryview, target: str) -> int:
    try:
        return os.write(descriptor, content)
    except OSError as error:
        raise _no_room(target, error) from error


def _open_source(source: Path) -> int:
    try:
        return os.open(source, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError as error:
        raise ArtifactMissingError(
            f"{source} cannot be read: {error.strerror}",
            hint="The file must be regular, readable and no symbolic link.",
            context={"path": str(source), "reason": error.strerror},
        ) from error


def _read_some(descriptor: int, source: Path) -> bytes:
    try:
        return os.read(descriptor, CHUNK_BYTES)
    except OSError as error:
        raise ArtifactMissingError(
            f"{source} cannot be read: {error.strerror}",
            hint="The file must be regular and readable; look at the disk when it is.",
            context={"path": str(source), "reason": error.strerror},
        ) from error


def _read_all(descriptor: int, max_bytes: int, source: Path) -> bytes:
    parts, size = [], 0
    while size < max_bytes and (chunk := _read_some(descriptor, source)):
        parts.append(chunk)
        size += len(chunk)
    return b"".join(parts)


def _require_pinned(pinned: Pinned, found: str, size: int) -> None:
    if size != pinned.size_bytes or found != pinned.sha256:
        longer = " or more" if size > pinned.size_bytes else ""
        raise DigestMismatchError(
            f"{pinned.bucket}/{pinned.key} is not what was pinned: {size}{longer} bytes with digest {found[:12]}…, "
            f"pinned were {pinned.size_bytes} with {pinned.sha256[:12]}…",
            hint="The object was overwritten after registration: restore it, or register the new content as a new version.",
            context={
                "bucket": pinned.bucket,
                "object_key": pinned.key,
                "expected_sha256": pinned.sha256,
                "found_sha256": found,
                "expected_bytes": pinned.size_bytes,
                "found_bytes": size,
            },
        )


def _require_announced(source: Path, pinned: Pinned, found: str, size: int) -> None:
    if size != pinned.size_bytes or found != pinned.sha256:
        raise DigestMismatchError(
            f"{source} is not what was announced for {pinned.bucket}/{pinned.key}: its digest is {found[:12]}…",
            hint="The file changed after it was measured: stop what writes to it, then repeat.",
            context={
                "path": str(source),
                "expected_sha256": pinned.sha256,
                "found_sha256": found,
                "expected_bytes": pinned.size_bytes,
                "found_bytes": size,
            },
        )


def _conflict(pinned: Pinned, found: str) -> ConflictError:
    return ConflictError(
        f"{pinned.bucket}/{pinned.key} exists with {found}, not {pinned.size_bytes} bytes of digest {pinned.sha256}",
        hint="What is stored is never overwritten: use another name or version.",
        context={"bucket": pinned.bucket, "object_key": pinned.key, "expected_sha256": pinned.sha256, "found": found},
    )


def _taken(pinned: Pinned) -> StorageUnavailableError:
    return StorageUnavailableError(
        f"{pinned.bucket}/{pinned.key} appears and disappears while it is being written",
        hint="Something deletes objects there: stop it, then repeat.",
        context={"bucket": pinned.bucket, "object_key": pinned.key},
    )


def _too_large(bucket: str, key: str, size: int, max_bytes: int) -> ObjectTooLargeError:
    return ObjectTooLargeError(
        f"{bucket}/{key} has {size} bytes or more; at most {max_bytes} are read into memory here",
        hint="Check that the reference names the right object.",
        context={"bucket": bucket, "object_key": key, "size_bytes": size, "max_bytes": max_bytes},
    )


def _no_room(target: str, error: OSError) -> RuntimeFault:
    return StorageRefusedError(
        f"{target} cannot be written: {error.strerror}",
        hint="Free space on that disk, or let this user write there; then repeat.",
        context={"path": target, "reason": error.strerror},
    )
