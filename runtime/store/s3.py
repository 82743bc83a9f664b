"""Objects in S3, over one shared blocking OpenDAL operator a bucket.

How it came to this, measured: blocking calls in threads beat every asynchronous client here, and an asynchronous operator
aborted the interpreter at exit in 2 to 12 % of clean runs; one `read` is best up to 128 KiB, above that a stream into a
reused buffer. Reads have no retry layer: retrying them here costs nothing on the way and lets a broken stream go on
where it broke, pinned to the object it began with, under one deadline for the whole. Listings and uploads have one.
"""

from __future__ import annotations

import base64
import contextlib
import itertools
import random
import re
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NoReturn, TypeVar

import opendal
from opendal import exceptions as vendor
from opendal.layers import RetryLayer, TimeoutLayer

from contracts.errors import (
    ObjectChangedError,
    ObjectMissingError,
    RuntimeFault,
    StorageRefusedError,
    StorageUnavailableError,
)
from contracts.limits import (
    ABANDONED_WRITE_SECONDS,
    CHUNK_BYTES,
    MIB,
    SINGLE_PUT_BYTES,
    SMALL_OBJECT_BYTES,
    STORE_CALL_SECONDS,
    STORE_RETRY_SECONDS,
    STORE_SLOWEST_BYTES_PER_SECOND,
    STORE_STREAM_ALLOWANCE_SECONDS,
    STORE_WRITE_SECONDS,
    UPLOAD_PARTS_AT_ONCE,
)
from runtime.store.backend import DirectPut, ObjectStat
from runtime.store.parallel import NEAR_THREADS, for_each
from runtime.store.s3_administration import S3Administration

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping
    from pathlib import Path

    from opendal.file import File
    from opendal.types import Metadata

    from contracts.references import Pinned
    from runtime.store.spool import Spool

Answer = TypeVar("Answer")

_LISTED_PER_WANTED: Final = 8  # a listing is that much cheaper a key than a request
_LISTED_ANYWAY: Final = 1_000  # one page

_KIND: Final = re.compile(r"\A(\w+) \((temporary|persistent|permanent)\)")
_VENDOR_ERRORS: Final = (
    vendor.Error,
    vendor.Unexpected,
    vendor.Unsupported,
    vendor.ConfigInvalid,
    vendor.NotFound,
    vendor.PermissionDenied,
    vendor.IsADirectory,
    vendor.NotADirectory,
    vendor.AlreadyExists,
    vendor.IsSameFile,
    vendor.ConditionNotMatch,
    vendor.RateLimited,
    vendor.RangeNotSatisfied,
    vendor.Conflict,
    OSError,  # what OpenDAL's file objects raise, with the same text
)


@dataclass(frozen=True, slots=True)
class StoreDeadlines:
    """How long a store may take, in seconds.

    Attributes:
        call_seconds: one answer, or the next bytes of one.
        write_seconds: one part of an upload.
        retry_seconds: no new try is begun after so long without progress.
    """

    call_seconds: float = STORE_CALL_SECONDS
    write_seconds: float = STORE_WRITE_SECONDS
    retry_seconds: float = STORE_RETRY_SECONDS


@dataclass(frozen=True, slots=True)
class S3Settings:
    """Where the objects are.

    Attributes:
        endpoint: the server's URL; empty is the vendor's own for `region`.
        access_key: who we are; empty takes the credentials of the environment (an instance's role).
        secret_key: what we sign with.
        region: what requests are signed for.
        buckets: the real bucket of each logical one.
    """

    endpoint: str
    access_key: str
    secret_key: str
    region: str
    buckets: Mapping[str, str]

    def __repr__(self) -> str:
        """Without the secret: this ends up in tracebacks."""
        return f"S3Settings(endpoint={self.endpoint!r}, region={self.region!r}, buckets={dict(self.buckets)!r})"


class S3Backend:
    """Objects in the real buckets of `settings`."""

    keeps_spools: Final = False

    def __init__(self, settings: S3Settings, deadlines: StoreDeadlines, spool_folder: Path) -> None:
        self._settings, self._deadlines, self.spool_folder = settings, deadlines, spool_folder
        self._swept: set[str] = set()
        self._quick_operators: dict[str, opendal.Operator] = {}
        self._listing_operators: dict[str, opendal.Operator] = {}
        self._patient_operators: dict[str, opendal.Operator] = {}
        for real in set(settings.buckets.values()):
            plain = _operator(settings, real)
            self._quick_operators[real] = plain.layer(
                TimeoutLayer(timeout=deadlines.call_seconds, io_timeout=deadlines.call_seconds)
            )
            self._listing_operators[real] = self._quick_operators[real].layer(_retries())
            self._patient_operators[real] = plain.layer(
                TimeoutLayer(timeout=deadlines.write_seconds, io_timeout=deadlines.write_seconds)
            ).layer(_retries())
        self._administration = S3Administration(
            settings.endpoint or f"https://s3.{settings.region}.amazonaws.com",
            settings.region,
            settings.access_key,
            settings.secret_key,
            deadlines.call_seconds,
        )

    @property
    def identity(self) -> str:
        """The endpoint and the real buckets."""
        buckets = ",".join(f"{logical}={real}" for logical, real in sorted(self._settings.buckets.items()))
        return f"s3:{self._settings.endpoint}:{buckets}"

    def stat(self, bucket: str, key: str) -> ObjectStat:
        """One HEAD request."""
        reader = self._quick(bucket)
        return self._retried(lambda: _stat_of(reader.stat(key)), bucket, key)

    @property
    def reads_faster_when_known(self) -> bool:
        """Listed by the thousand."""
        return True

    @property
    def threads(self) -> int:
        """For a near server; a far one shows its latency and gets more."""
        return NEAR_THREADS

    def stat_many(self, bucket: str, keys: Collection[str]) -> dict[str, ObjectStat]:
        """A listing of what the keys have in common, or HEAD requests where that would list far more than was asked."""
        wanted = set(keys)
        found: dict[str, ObjectStat] = {}
        if not wanted:
            return found
        most = _LISTED_PER_WANTED * len(wanted) + _LISTED_ANYWAY
        for listed, (key, stat) in enumerate(self.list(bucket, _common_start(wanted))):
            if key in wanted:
                found[key] = stat
            if len(found) == len(wanted):
                return found
            if listed >= most:
                break
        else:
            return found

        def look(key: str) -> None:
            with contextlib.suppress(ObjectMissingError):
                found[key] = self.stat(bucket, key)

        for_each([key for key in wanted if key not in found], look)
        return found

    def read(
        self, bucket: str, key: str, *, expected_bytes: int, known: ObjectStat | None = None
    ) -> bytes | memoryview:
        """One GET request.

        A plain `read` would take an object of any size into memory, and a ranged one fails when the object is as long
        as expected; a stream with a buffer one byte too large does neither, and costs a fifth more. So a plain one is
        used where the object is certain to be the one whose size is known.
        """
        reader = self._quick(bucket)
        if known is not None and known.etag and known.size_bytes <= SMALL_OBJECT_BYTES:
            etag = known.etag
            return self._retried(lambda: reader.read(key, if_match=etag), bucket, key)

        def attempt() -> memoryview:
            buffer = memoryview(bytearray(expected_bytes + 1))
            filled = 0
            source = reader.open(key, "rb")
            while filled <= expected_bytes and (size := source.readinto(buffer[filled:])):
                filled += size
            return buffer[:filled]

        return self._retried(attempt, bucket, key)

    def chunks(self, bucket: str, key: str, *, etag: str | None = None, start: int = 0) -> Iterator[memoryview]:
        """One GET request, resumed where it breaks; never a mixture of two objects.

        1. Ask for the object's size and etag: the deadline follows from the one, every request is tied to the other.
        2. Stream into one buffer; whatever arrives resets the time within which a new try may begin.
        3. A break that may pass is answered by a new request from where the last one ended.
        4. An object that was replaced meanwhile is an error, not a continuation.
        """
        reader = self._quick(bucket)
        found = self.stat(bucket, key)
        etag = etag or found.etag
        deadline = time.monotonic() + STORE_STREAM_ALLOWANCE_SECONDS + found.size_bytes / STORE_SLOWEST_BYTES_PER_SECOND
        buffer = memoryview(bytearray(CHUNK_BYTES))
        position = start
        tries = _Tries(self._deadlines.retry_seconds)
        while True:
            try:
                source = reader.open(key, "rb", if_match=etag) if etag else reader.open(key, "rb")
                if position:
                    source.seek(position)
                while size := source.readinto(buffer):
                    position += size
                    tries.progressed()
                    yield buffer[:size]
                    if time.monotonic() > deadline:
                        raise StorageUnavailableError(
                            f"{bucket}/{key} comes too slowly: {position} of {found.size_bytes} bytes so far",
                            hint="Check the network to the store; then repeat.",
                            context={"bucket": bucket, "object_key": key, "received_bytes": position},
                        )
            except _VENDOR_ERRORS as error:
                tries.wait_or_raise(error, bucket, key)
            else:
                return

    def create(self, bucket: str, key: str, content: bytes) -> bool:
        """One conditional PUT, retried: an answer that was lost leaves our own bytes there, which then count as found."""
        operator = self._quick(bucket) if len(content) <= MIB else self._patient(bucket)

        def attempt() -> bool:
            try:
                operator.write(key, content, if_not_exists=True)
            except vendor.ConditionNotMatch:
                return False
            return True

        return self._retried(attempt, bucket, key)

    def stage(self, bucket: str, key: str) -> _MultipartWrite:
        """A multipart upload: its parts are nobody's object until it is completed, and completing it is conditional."""
        self._sweep_once(bucket)
        writer = self._patient(bucket)
        try:
            upload = writer.open(key, "wb", chunk=SINGLE_PUT_BYTES, concurrent=UPLOAD_PARTS_AT_ONCE, if_not_exists=True)
        except _VENDOR_ERRORS as error:
            _raise_for(error, bucket, key)
        return _MultipartWrite(upload, bucket, key, lambda: self._drop_pending(bucket, key))

    def adopt(self, spool: Spool, bucket: str, key: str) -> None:
        """Never: its bytes are on this machine.

        They could be sent while they are received, to a key of their own, and copied in the store once they were
        checked. But the checks read an archive from its end, so they would all be fetched again; and no server copies
        on the condition that the target does not exist. So they are received into a file, checked there and sent once.
        """

    def file_of(self, bucket: str, key: str) -> None:
        """None: objects are elsewhere."""

    def presign_put(self, pinned: Pinned, seconds: int) -> DirectPut:
        """Signed by ourselves: OpenDAL cannot bind a signature to a length and a digest, and so to the bytes announced.

        Raises:
            StorageRefusedError: the credentials are the environment's, which only OpenDAL finds.
        """
        if not self._settings.access_key:
            raise StorageRefusedError(
                "direct uploads cannot be signed: s3_access_key is empty",
                hint="Set s3_access_key and s3_secret_key, or send packages to /v1/registrations.",
                context={"bucket": pinned.bucket, "object_key": pinned.key},
            )
        headers = {
            "content-length": str(pinned.size_bytes),
            "x-amz-checksum-sha256": base64.b64encode(bytes.fromhex(pinned.sha256)).decode(),
        }
        real = self._settings.buckets[pinned.bucket]
        return DirectPut(self._administration.presigned("PUT", real, pinned.key, headers, seconds), headers)

    def list(self, bucket: str, prefix: str) -> Iterator[tuple[str, ObjectStat]]:
        """Pages of 1 000, each retried by itself: servers differ in their order, so a last key says nothing."""
        lister = self._listing_operators[self._settings.buckets[bucket]]
        tries = _Tries(self._deadlines.retry_seconds)
        while True:
            begun = False
            try:
                for entry in lister.list(prefix, recursive=True):
                    begun = True
                    if entry.metadata.is_file:
                        yield entry.path, _stat_of(entry.metadata)
            except _VENDOR_ERRORS as error:
                if begun:  # from the start again would give keys twice
                    _raise_for(error, bucket, prefix)
                tries.wait_or_raise(error, bucket, prefix)
            else:
                return

    def delete(self, bucket: str, key: str) -> None:
        """One DELETE request."""
        operator = self._quick(bucket)
        self._retried(lambda: operator.delete(key), bucket, key)

    def missing_buckets(self) -> tuple[str, ...]:
        """One HEAD request a bucket; none are named where the credentials are the environment's, which only OpenDAL finds."""
        if not self._settings.access_key:
            return ()
        real_buckets = sorted(set(self._settings.buckets.values()))
        return tuple(real for real in real_buckets if not self._administration.bucket_exists(real))

    def ensure_buckets(self) -> tuple[str, ...]:
        """Makes what is not there."""
        return tuple(real for real in self.missing_buckets() if self._administration.create_bucket(real))

    def check(self) -> None:
        """Every bucket exists and takes, gives and drops a probe."""
        for logical, real in self._settings.buckets.items():
            if self._settings.access_key and not self._administration.bucket_exists(real):
                raise _no_bucket(logical, real)
            probe = f"training-code-runtime/.check/{random.getrandbits(64):016x}"
            self.create(logical, probe, b"probe")
            self.read(logical, probe, expected_bytes=5)
            self.delete(logical, probe)

    def _sweep_once(self, bucket: str) -> None:
        """Aborts uploads of ours that were begun long ago and never finished: their parts are paid for until then.

        At the first large write to a bucket, so that nobody has to remember it. A server that does not list uploads
        keeps nobody from writing.
        """
        real = self._settings.buckets[bucket]
        if real in self._swept or not self._settings.access_key:
            return
        self._swept.add(real)
        with contextlib.suppress(RuntimeFault):
            for upload in self._administration.pending_uploads(real, "training-code-runtime/"):
                if time.time() - upload.started.timestamp() > ABANDONED_WRITE_SECONDS:
                    self._administration.abort_upload(real, upload)

    def _drop_pending(self, bucket: str, key: str) -> None:
        """The key exists, so every unfinished upload to it is lost already; parts would be paid for for ever."""
        real = self._settings.buckets[bucket]
        if not self._settings.access_key:  # the environment's credentials are OpenDAL's to find; the sweep is for keys
            return
        with contextlib.suppress(RuntimeFault):  # what is left over is swept later; it must not hide the outcome
            for upload in self._administration.pending_uploads(real, key):
                if upload.key == key:
                    self._administration.abort_upload(real, upload)

    def _quick(self, bucket: str) -> opendal.Operator:
        return self._quick_operators[self._settings.buckets[bucket]]

    def _patient(self, bucket: str) -> opendal.Operator:
        return self._patient_operators[self._settings.buckets[bucket]]

    def _retried(self, attempt: Callable[[], Answer], bucket: str, key: str) -> Answer:
        try:
            return attempt()
        except _VENDOR_ERRORS as error:
            tries = _Tries(self._deadlines.retry_seconds)
            tries.wait_or_raise(error, bucket, key)
        while True:
            try:
                return attempt()
            except _VENDOR_ERRORS as error:
                tries.wait_or_raise(error, bucket, key)


class _MultipartWrite:
    """An upload in parts. Dropping it leaves the parts pending, never an object.

    The file object is not used as a context manager: leaving one by an exception completes the upload, truncated.
    """

    def __init__(self, upload: File, bucket: str, key: str, drop_pending: Callable[[], None]) -> None:
        self._upload: File | None = upload
        self._bucket, self._key, self._drop_pending = bucket, key, drop_pending

    def write(self, chunk: bytes | memoryview) -> None:
        """Hands `chunk` on; a full part is sent."""
        if self._upload is None:
            raise RuntimeError("written to after commit")  # a defect of the caller, not a state of the world
        try:
            self._upload.write(bytes(chunk))
        except _VENDOR_ERRORS as error:
            _raise_for(error, self._bucket, self._key)

    def commit(self) -> bool:
        """Completes the upload on the condition that the key does not exist."""
        if self._upload is None:
            raise RuntimeError("committed twice")
        upload, self._upload = self._upload, None
        try:
            upload.close()
        except _VENDOR_ERRORS as error:
            if _classify(error)[0] == "ConditionNotMatch":
                self._drop_pending()
                return False
            _raise_for(error, self._bucket, self._key)
        return True

    def abandon(self) -> None:
        """Lets go of the upload without completing it."""
        self._upload = None


class _Tries:
    """Bounded retries: exponential pauses with jitter, none begun once `retry_seconds` went by without progress."""

    def __init__(self, retry_seconds: float) -> None:
        self._retry_seconds = retry_seconds
        self._last_progress = time.monotonic()
        self._pause = 0.1

    def progressed(self) -> None:
        self._last_progress = time.monotonic()
        self._pause = 0.1

    def wait_or_raise(self, error: BaseException, bucket: str, key: str) -> None:
        """Sleeps before the next try, or raises the typed error when there is to be none."""
        _, may_pass = _classify(error)
        pause = self._pause * random.uniform(0.5, 1.5)  # noqa: S311 - spreads clients apart
        if not may_pass or time.monotonic() + pause - self._last_progress > self._retry_seconds:
            _raise_for(error, bucket, key)
        time.sleep(pause)
        self._pause = min(self._pause * 2, 2.0)


def _operator(settings: S3Settings, real_bucket: str) -> opendal.Operator:
    options = {"bucket": real_bucket, "region": settings.region}
    if settings.endpoint:
        options["endpoint"] = settings.endpoint
    if settings.access_key:
        options |= {
            "access_key_id": settings.access_key,
            "secret_access_key": settings.secret_key,
            "disable_config_load": "true",  # ours alone: an AWS_PROFILE in the environment must not redirect us
            "disable_ec2_metadata": "true",
        }
    try:
        return opendal.Operator("s3", **options)
    except _VENDOR_ERRORS as error:
        raise StorageRefusedError(
            f"S3 cannot be set up for bucket {real_bucket}: {_first_line(error)}",
            hint="Check s3_endpoint, s3_region and the bucket names.",
            context={"bucket": real_bucket, "endpoint": settings.endpoint},
        ) from error


def _common_start(keys: Collection[str]) -> str:
    """What all keys start with, character by character: the first and the last in order have nothing more in common."""
    first, last = min(keys), max(keys)
    length = next((at for at, (one, other) in enumerate(zip(first, last, strict=False)) if one != other), len(first))
    return first[:length]


def _retries() -> RetryLayer:
    """For what is made of many requests, where only OpenDAL knows which to repeat: a page, a part.

    Three and a half seconds of pauses outlast a server's restart; a server that takes requests and answers none costs
    four times the deadline of one call.
    """
    return RetryLayer(max_times=3, factor=2.0, min_delay=0.5, max_delay=2.0)


def _stat_of(metadata: Metadata) -> ObjectStat:
    return ObjectStat(size_bytes=metadata.content_length, etag=metadata.etag or "", version=metadata.version)


def _classify(error: BaseException) -> tuple[str, bool]:
    """The vendor's kind of error, and whether the same call may succeed later."""
    match = _KIND.match(str(error))
    if match is None:
        return type(error).__name__, isinstance(error, OSError)
    # `persistent` is a temporary error that outlasted a retry layer; a server that starts up answers 500 permanently.
    return match[1], match[2] != "permanent" or '"InternalError"' in str(error)


def _raise_for(error: BaseException, bucket: str, key: str) -> NoReturn:
    raise _fault_for(error, bucket, key) from error


def _fault_for(error: BaseException, bucket: str, key: str) -> RuntimeFault:
    place = f"{bucket}/{key}"
    kind, _ = _classify(error)
    context: dict[str, object] = {"bucket": bucket, "object_key": key, "reason": _first_line(error)}
    match kind:
        case "NotFound":
            return ObjectMissingError(
                f"{place} is not in the store",
                hint="Upload the object, or correct the reference that names it.",
                context=context,
            )
        case "ConditionNotMatch":
            return ObjectChangedError(
                f"{place} changed while it was being read",
                hint="Stop what writes to it, then repeat the command.",
                context=context,
            )
        case "PermissionDenied":
            return StorageRefusedError(
                f"{place}: the store refuses access",
                hint="Check s3_access_key and s3_secret_key, this machine's clock, and what the key may do in the bucket.",
                context=context,
            )
        case "ConfigInvalid":
            return _no_bucket(bucket, None, context)
    return StorageUnavailableError(
        f"{place}: the store does not answer as it should: {_first_line(error)}",
        hint="Check s3_endpoint and that the server runs; then repeat: nothing is left half done.",
        context=context,
    )


def _no_bucket(logical: str, real: str | None, context: Mapping[str, object] | None = None) -> StorageRefusedError:
    name = f"bucket {real}, the real one of {logical}," if real else f"the real bucket of {logical}"
    return StorageRefusedError(
        f"{name} does not exist",
        hint=f"Run `mtr apply`, which makes the buckets, or correct s3_{logical}_bucket.",
        context=context or {"bucket": logical, "real_bucket": real},
    )


def _first_line(error: BaseException) -> str:
    """What happened, without the request's headers and the vendor's backtrace."""
    text = str(error)
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    source = next((after for line, after in itertools.pairwise(lines) if line == "Source:"), "")
    return f"{lines[0] if lines else type(error).__name__}{': ' + source if source else ''}"[:500]
