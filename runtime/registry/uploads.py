"""Direct uploads: a client sends a package's bytes to the store, and they are registered once they were checked.

An upload is three objects under `training-code-runtime/uploads/<id>/`: `upload.json`, what was announced; `content`, the
bytes; `completed.json`, the answer. No table knows of it. Its id tells when it was begun, so a listing is enough to find
what was abandoned, including bytes that somebody sends again after everything else of the upload is gone.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import secrets
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, Literal
from uuid import UUID

from contracts.base import validate
from contracts.errors import (
    ArchiveTooLargeError,
    ConflictError,
    DigestMismatchError,
    InvalidDocumentError,
    NotFoundError,
    ObjectMissingError,
    ObjectTooLargeError,
    UploadExpiredError,
    UploadIncompleteError,
)
from contracts.limits import ABANDONED_UPLOAD_SECONDS, MAX_DIRECT_UPLOAD_BYTES, MAX_RECORD_BYTES, UPLOAD_SECONDS
from contracts.references import Pinned
from contracts.strict_json import dump_canonical, parse
from contracts.upload import UploadRequest

if TYPE_CHECKING:
    from runtime.registry.model_packages import ModelPackages
    from runtime.registry.packages import Packages
    from runtime.store.backend import DirectPut
    from runtime.store.objects import ObjectStore
    from runtime.store.spool import Spool

BUCKET: Final = "default"
PREFIX: Final = "training-code-runtime/uploads/"

_RECORD, _CONTENT, _COMPLETED = "upload.json", "content", "completed.json"

UploadState = Literal["waiting", "received", "completed", "expired"]


@dataclass(frozen=True, slots=True)
class Upload:
    """One upload, as it was announced.

    Attributes:
        upload_id: a UUID that begins with the time.
        request: what is uploaded.
        secret_sha256: the digest of what our own upload address bears.
    """

    upload_id: str
    request: UploadRequest
    secret_sha256: str

    @property
    def expires_at(self) -> datetime:
        """Until when its bytes are taken and it can be completed."""
        return datetime.fromtimestamp(_begun_at(self.upload_id) + UPLOAD_SECONDS, UTC)

    @property
    def content(self) -> Pinned:
        """Where its bytes belong."""
        return Pinned(BUCKET, _key(self.upload_id, _CONTENT), self.request.sha256, self.request.size_bytes)


@dataclass(frozen=True, slots=True)
class BegunUpload:
    """An upload, with what its client must know and nobody else.

    Attributes:
        upload: the upload.
        direct: the request that takes its bytes to the store; None where the store is this machine's own.
        secret: what our own address must bear then.
    """

    upload: Upload
    direct: DirectPut | None
    secret: str


@dataclass(frozen=True, slots=True)
class Completion:
    """What registering an upload came to: `created`, and the registration in its wire form."""

    created: bool
    registration: dict[str, Any]

    def to_document(self) -> dict[str, Any]:
        """The answer of the registration endpoints."""
        return {"created": self.created, "registration": self.registration}


class Uploads:
    """The uploads of one store.

    Every method may raise `StorageUnavailableError`, and is safe to call again then.

    Args:
        store: where they are.
        packages: where code packages are registered.
        model_packages: where model packages are.
        max_bytes: of one package.
    """

    def __init__(self, store: ObjectStore, packages: Packages, model_packages: ModelPackages, max_bytes: int) -> None:
        self._store, self._packages, self._model_packages = store, packages, model_packages
        self._max_bytes = min(max_bytes, MAX_DIRECT_UPLOAD_BYTES)

    def begin(self, request: UploadRequest) -> BegunUpload:
        """Afterwards there is an upload that takes exactly the announced bytes until it expires.

        Raises:
            ArchiveTooLargeError: they are too many.
        """
        if request.size_bytes > self._max_bytes:
            raise ArchiveTooLargeError(
                f"{request.archive_name or 'the archive'} has {request.size_bytes} bytes, the limit is {self._max_bytes}",
                hint="Leave data out of the package: data belongs in a data set.",
                context={"size_bytes": request.size_bytes, "limit_bytes": self._max_bytes},
            )
        secret = secrets.token_urlsafe(32)
        upload = Upload(_new_id(), request, hashlib.sha256(secret.encode()).hexdigest())
        direct = self._store.presign_put(upload.content, seconds=int(UPLOAD_SECONDS))
        record = {"request": request.to_document(), "secret_sha256": upload.secret_sha256}
        self._store.publish_bytes(dump_canonical(record), BUCKET, _key(upload.upload_id, _RECORD))
        return BegunUpload(upload, direct, secret)

    def find(self, upload_id: str) -> Upload:
        """The upload of this id.

        Raises:
            NotFoundError: there is none, or it was reaped.
            InvalidDocumentError: its record is unreadable.
        """
        try:
            _begun_at(upload_id)
            content = self._store.read_small(BUCKET, _key(upload_id, _RECORD), max_bytes=MAX_RECORD_BYTES)
        except (ValueError, ObjectMissingError) as error:
            raise _no_upload(upload_id) from error
        record = parse(content, contract="upload")
        if not isinstance(record, dict) or not isinstance(record.get("request"), dict):
            raise InvalidDocumentError.of("upload", [{"path": "request", "message": "must be an object"}])
        return Upload(upload_id, validate(UploadRequest, record["request"]), str(record.get("secret_sha256")))

    def state(self, upload: Upload) -> tuple[UploadState, Completion | None]:
        """How far it has come; with the answer that completed it."""
        completed = self._completed(upload)
        if completed is not None:
            return "completed", completed
        if _is_expired(upload):
            return "expired", None
        return ("received" if self._store.exists(BUCKET, upload.content.key) else "waiting"), None

    def expect(self, upload_id: str, secret: str) -> Upload:
        """The upload, if its bytes may be sent to our own address now; asked before they are received.

        Raises:
            NotFoundError: there is none, or the secret is not its.
            UploadExpiredError: its time is over.
            ConflictError: it is completed.
        """
        upload = self.find(upload_id)
        if not hmac.compare_digest(hashlib.sha256(secret.encode()).hexdigest(), upload.secret_sha256):
            raise _no_upload(upload_id)
        if self._completed(upload) is not None:
            raise ConflictError(
                f"upload {upload_id} is completed",
                hint="Begin a new upload for other bytes.",
                context={"upload_id": upload_id},
            )
        _require_time(upload)
        return upload

    def keep(self, upload: Upload, received: Spool) -> None:
        """Afterwards the bytes wait to be completed.

        Raises:
            DigestMismatchError: they are not those that were announced; nothing is kept.
        """
        _require_announced(upload, received)
        self._store.publish_file(received, upload.content)

    def complete(self, upload_id: str) -> Completion:
        """Afterwards the package is registered, and nothing but the answer is left of the upload.

        1. Where it is completed already, that answer is the answer.
        2. Take the bytes as they are now; what is sent afterwards changes nothing of them.
        3. Compare them with what was announced.
        4. Register them, by all rules of the registry.
        5. Write the answer down, then drop the bytes.

        Raises:
            NotFoundError: there is no such upload.
            UploadExpiredError: its time is over.
            UploadIncompleteError: its bytes are not there.
            DigestMismatchError: other bytes are there.
            ArchiveRejectedError, ArchiveTooLargeError, InvalidDocumentError, ConflictError: as the registry.
        """
        upload = self.find(upload_id)
        completed = self._completed(upload)  # 1
        if completed is not None:
            return completed
        _require_time(upload)
        try:
            with self._store.spool_object(
                BUCKET, upload.content.key, max_bytes=upload.request.size_bytes
            ) as content:  # 2
                _require_announced(upload, content)  # 3
                registry = self._packages if upload.request.kind == "training_code_package" else self._model_packages
                registered = registry.register(content, archive_name=upload.request.archive_name)  # 4
        except ObjectTooLargeError as error:
            raise _other_bytes(upload, f"more than {upload.request.size_bytes} bytes") from error
        except ObjectMissingError as error:
            completed = self._completed(upload)  # by another call, which dropped them since
            if completed is not None:
                return completed
            raise UploadIncompleteError(
                f"upload {upload_id} has no bytes yet",
                hint="PUT them to the upload's url first.",
                context={"upload_id": upload_id, "expires_at": upload.expires_at.isoformat()},
            ) from error
        completion = Completion(registered.created, registered.registration)
        with contextlib.suppress(ConflictError):  # 5; of two calls at once, the first one's answer stands
            self._store.publish_bytes(dump_canonical(completion.to_document()), BUCKET, _key(upload_id, _COMPLETED))
        self._store.remove(BUCKET, upload.content.key)
        return self._completed(upload) or completion

    def abandon(self, upload_id: str) -> None:
        """Afterwards nothing is left of the upload; what it registered stays.

        Raises:
            NotFoundError: there is no such upload.
        """
        self.find(upload_id)
        for name in (_CONTENT, _COMPLETED, _RECORD):  # the record last: until then it can be repeated
            self._store.remove(BUCKET, _key(upload_id, name))

    def _completed(self, upload: Upload) -> Completion | None:
        try:
            content = self._store.read_small(BUCKET, _key(upload.upload_id, _COMPLETED), max_bytes=MAX_RECORD_BYTES)
        except ObjectMissingError:
            return None
        said = parse(content, contract="upload")
        return Completion(said["created"], said["registration"])


def reap_uploads(store: ObjectStore) -> tuple[str, ...]:
    """Afterwards nothing is left of uploads that were begun long ago, nor of what killed processes were receiving here.

    What they registered stays. Safe at any time, also twice at once.

    Returns:
        The ids of the uploads that went.
    """
    store.sweep_spools()
    reaped = set()
    for key in list(store.list(BUCKET, PREFIX)):
        upload_id = key.removeprefix(PREFIX).partition("/")[0]
        try:
            age_seconds = time.time() - _begun_at(upload_id)
        except ValueError:
            continue  # nobody's upload: not ours to remove
        if age_seconds > ABANDONED_UPLOAD_SECONDS:
            store.remove(BUCKET, key)
            reaped.add(upload_id)
    return tuple(sorted(reaped))


def _key(upload_id: str, name: str) -> str:
    return f"{PREFIX}{upload_id}/{name}"


def _new_id() -> str:
    """A UUID of version 7: milliseconds since 1970, then 74 random bits."""
    milliseconds, chance = int(time.time() * 1000), secrets.randbits(74)
    return str(UUID(int=milliseconds << 80 | 7 << 76 | (chance >> 62) << 64 | 2 << 62 | chance & (1 << 62) - 1))


def _begun_at(upload_id: str) -> float:
    """Seconds since 1970.

    Raises:
        ValueError: it is no id of ours.
    """
    parsed = UUID(upload_id)
    if parsed.version != 7 or str(parsed) != upload_id:
        raise ValueError(upload_id)
    return (parsed.int >> 80) / 1000


def _is_expired(upload: Upload) -> bool:
    return datetime.now(UTC) >= upload.expires_at


def _require_time(upload: Upload) -> None:
    if _is_expired(upload):
        raise UploadExpiredError(
            f"upload {upload.upload_id} expired at {upload.expires_at:%Y-%m-%d %H:%M:%S} UTC",
            hint="Begin a new upload.",
            context={"upload_id": upload.upload_id, "expires_at": upload.expires_at.isoformat()},
        )


def _require_announced(upload: Upload, received: Spool) -> None:
    if (received.sha256, received.size_bytes) != (upload.request.sha256, upload.request.size_bytes):
        raise _other_bytes(upload, f"{received.size_bytes} bytes of digest {received.sha256}")


def _other_bytes(upload: Upload, found: str) -> DigestMismatchError:
    request = upload.request
    return DigestMismatchError(
        f"upload {upload.upload_id} has {found}; announced were {request.size_bytes} of digest {request.sha256}",
        hint="Send exactly the announced bytes, or begin a new upload for these.",
        context={
            "upload_id": upload.upload_id,
            "expected_sha256": request.sha256,
            "expected_bytes": request.size_bytes,
            "found": found,
        },
    )


def _no_upload(upload_id: str) -> NotFoundError:
    return NotFoundError(
        f"there is no upload {upload_id[:80]} with this address",
        hint="`POST /v1/uploads` begins one; its url is valid for a day.",
        context={"upload_id": upload_id[:80]},
    )
