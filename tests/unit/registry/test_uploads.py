"""Direct uploads: announced, sent, checked, registered once, and reaped when nobody completes them."""

from __future__ import annotations

import hashlib
import time
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from contracts.base import validate
from contracts.errors import (
    ArchiveRejectedError,
    ArchiveTooLargeError,
    ConflictError,
    DigestMismatchError,
    InvalidDocumentError,
    NotFoundError,
    StorageRefusedError,
    UploadExpiredError,
    UploadIncompleteError,
)
from contracts.limits import ABANDONED_UPLOAD_SECONDS, GIB, MIB, UPLOAD_SECONDS
from contracts.upload import UploadRequest
from runtime.registry.model_packages import ModelPackages
from runtime.registry.packages import Packages
from runtime.registry.uploads import Uploads, reap_uploads
from runtime.store.objects import ObjectStore
from tests.assets.hostile_zips import CODE, Entry, Zip, manifest_entry, model_zip

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from runtime.registry.uploads import BegunUpload
    from runtime.store.s3 import S3Settings
    from tests.assets.s3_server import S3Server

PREFIX = "training-code-runtime/uploads/"
CONTENT = Zip([manifest_entry(), Entry(b"train.py", CODE)]).build()


def uploads(store: ObjectStore, max_bytes: int = 5 * GIB) -> Uploads:
    return Uploads(store, Packages(store), ModelPackages(store), max_bytes)


def request(content: bytes = CONTENT, **changes: object) -> UploadRequest:
    return validate(
        UploadRequest,
        {
            "kind": "training_code_package",
            "archive_name": "digits.zip",
            "sha256": hashlib.sha256(content).hexdigest(),
            "size_bytes": len(content),
            **changes,
        },
    )


def send(store: ObjectStore, begun: BegunUpload, content: bytes = CONTENT) -> None:
    """As our own address does."""
    with store.spool() as spool:
        spool.write(content)
        uploads(store).keep(begun.upload, spool)


def put(begun: BegunUpload, content: bytes, **headers: str) -> int:
    """To the store itself, as a client does; answers the HTTP status."""
    assert begun.direct is not None
    asked = urllib.request.Request(begun.direct.url, content, {**begun.direct.headers, **headers}, method="PUT")
    try:
        with urllib.request.urlopen(asked, timeout=30) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as refused:
        with refused:
            return refused.code


def left(store: ObjectStore) -> list[str]:
    return sorted(
        key.partition("/")[2] for key in (each.removeprefix(PREFIX) for each in store.list("default", PREFIX))
    )


@pytest.fixture
def long_ago(any_store: ObjectStore, monkeypatch: pytest.MonkeyPatch) -> Callable[[float], BegunUpload]:
    """An upload that was begun so many seconds ago, whose bytes are there."""

    def begin(seconds: float) -> BegunUpload:
        now = time.time()
        with monkeypatch.context() as then:
            then.setattr("runtime.registry.uploads.time.time", lambda: now - seconds)
            begun = uploads(any_store).begin(request())
        any_store.publish_bytes(CONTENT, "default", begun.upload.content.key)
        return begun

    return begin


def test_a_completed_upload_is_registered(any_store: ObjectStore) -> None:
    begun = uploads(any_store).begin(request())
    send(any_store, begun)

    completion = uploads(any_store).complete(begun.upload.upload_id)

    found = Packages(any_store).find("digits", "0.1.0")
    assert completion.created
    assert completion.registration == found.registration
    assert found.registration["package_file_name"] == "digits.zip"
    assert any_store.read_verified(found.archive, max_bytes=MIB) == CONTENT


def test_a_model_package_is_uploaded_alike(any_store: ObjectStore) -> None:
    content = model_zip()
    begun = uploads(any_store).begin(request(content, kind="training_model_package"))
    send(any_store, begun, content)

    completion = uploads(any_store).complete(begun.upload.upload_id)

    found = ModelPackages(any_store).find(hashlib.sha256(content).hexdigest())
    assert completion.registration == found.registration


def test_completing_again_answers_the_same(any_store: ObjectStore) -> None:
    begun = uploads(any_store).begin(request())
    send(any_store, begun)
    first = uploads(any_store).complete(begun.upload.upload_id)

    assert uploads(any_store).complete(begun.upload.upload_id) == first


def test_nothing_but_the_answer_is_left_of_a_completed_upload(any_store: ObjectStore) -> None:
    begun = uploads(any_store).begin(request())
    send(any_store, begun)
    uploads(any_store).complete(begun.upload.upload_id)

    assert left(any_store) == ["completed.json", "upload.json"]


def test_completed_by_several_at_once_it_has_one_answer(any_store: ObjectStore) -> None:
    begun = uploads(any_store).begin(request())
    send(any_store, begun)

    with ThreadPoolExecutor(6) as pool:
        answers = list(pool.map(lambda _: uploads(any_store).complete(begun.upload.upload_id), range(6)))

    assert [answer.registration for answer in answers] == [answers[0].registration] * 6
    assert left(any_store) == ["completed.json", "upload.json"]


@pytest.mark.service
def test_the_store_takes_the_announced_bytes_itself(s3_store: ObjectStore) -> None:
    begun = uploads(s3_store).begin(request())

    assert put(begun, CONTENT) == 200
    assert uploads(s3_store).complete(begun.upload.upload_id).created


@pytest.mark.service
@pytest.mark.parametrize("content", [CONTENT[:-1] + b"x", CONTENT + b"x", b""])
def test_the_store_itself_refuses_other_bytes(s3_store: ObjectStore, content: bytes) -> None:
    begun = uploads(s3_store).begin(request())

    assert put(begun, content, **{"content-length": str(len(content))}) in (400, 403)
    with pytest.raises(UploadIncompleteError):
        uploads(s3_store).complete(begun.upload.upload_id)


@pytest.mark.service
def test_a_signature_is_for_one_key(s3_store: ObjectStore) -> None:
    begun = uploads(s3_store).begin(request())
    assert begun.direct is not None
    elsewhere = begun.direct.url.replace("/content?", "/upload.json?")
    asked = urllib.request.Request(elsewhere, CONTENT, dict(begun.direct.headers), method="PUT")

    with pytest.raises(urllib.error.HTTPError, match="403"):
        urllib.request.urlopen(asked, timeout=30)


@pytest.mark.service
def test_without_our_own_credentials_nothing_can_be_signed(s3_server: S3Server) -> None:
    settings: S3Settings = replace(s3_server.settings(), access_key="", secret_key="")

    with pytest.raises(StorageRefusedError, match="cannot be signed"):
        uploads(ObjectStore.s3(settings)).begin(request())


def test_local_folders_are_not_reached_from_outside(local_store: ObjectStore) -> None:
    assert uploads(local_store).begin(request()).direct is None


def test_an_upload_that_is_too_large_is_not_begun(any_store: ObjectStore) -> None:
    with pytest.raises(ArchiveTooLargeError, match="the limit is 10"):
        uploads(any_store, max_bytes=10).begin(request())

    assert left(any_store) == []


def test_more_than_one_put_takes_is_never_announced(local_store: ObjectStore) -> None:
    with pytest.raises(ArchiveTooLargeError):
        uploads(local_store, max_bytes=100 * GIB).begin(request(size_bytes=5 * GIB + 1))


def test_an_upload_without_bytes_is_incomplete(any_store: ObjectStore) -> None:
    begun = uploads(any_store).begin(request())

    with pytest.raises(UploadIncompleteError, match="has no bytes yet"):
        uploads(any_store).complete(begun.upload.upload_id)


def test_other_bytes_are_not_kept(local_store: ObjectStore) -> None:
    begun = uploads(local_store).begin(request())

    with pytest.raises(DigestMismatchError, match="announced were"):
        send(local_store, begun, CONTENT[:-1] + b"x")

    assert left(local_store) == ["upload.json"]


@pytest.mark.parametrize("content", [CONTENT[:-1] + b"x", CONTENT + b"x"])
def test_other_bytes_in_the_store_are_not_registered(any_store: ObjectStore, content: bytes) -> None:
    begun = uploads(any_store).begin(request())
    any_store.publish_bytes(content, "default", begun.upload.content.key)

    with pytest.raises(DigestMismatchError, match="announced were"):
        uploads(any_store).complete(begun.upload.upload_id)

    assert list(any_store.list("default", "training-code-runtime/packages/")) == []


def test_a_refused_archive_is_not_registered(any_store: ObjectStore) -> None:
    content = Zip([manifest_entry(), Entry(b"train.py", CODE), Entry(b".env", b"x")]).build()
    begun = uploads(any_store).begin(request(content))
    send(any_store, begun, content)

    with pytest.raises(ArchiveRejectedError, match=r"digits\.zip is refused"):
        uploads(any_store).complete(begun.upload.upload_id)

    assert list(any_store.list("default", "training-code-runtime/packages/")) == []


def test_a_version_that_is_taken_is_a_conflict(any_store: ObjectStore, tmp_path: Path) -> None:
    first = tmp_path / "first.zip"
    first.write_bytes(Zip([manifest_entry(), Entry(b"train.py", b"first = True\n")]).build())
    Packages(any_store).register(first, archive_name="first.zip")
    begun = uploads(any_store).begin(request())
    send(any_store, begun)

    with pytest.raises(ConflictError, match=r"digits 0\.1\.0 exists"):
        uploads(any_store).complete(begun.upload.upload_id)


def test_an_upload_has_a_day(any_store: ObjectStore, long_ago: Callable[[float], BegunUpload]) -> None:
    begun = long_ago(UPLOAD_SECONDS + 1)

    with pytest.raises(UploadExpiredError, match="expired at"):
        uploads(any_store).complete(begun.upload.upload_id)


def test_an_expired_upload_takes_no_bytes(any_store: ObjectStore, long_ago: Callable[[float], BegunUpload]) -> None:
    begun = long_ago(UPLOAD_SECONDS + 1)

    with pytest.raises(UploadExpiredError):
        uploads(any_store).expect(begun.upload.upload_id, begun.secret)


def test_our_own_address_is_known_by_its_secret(local_store: ObjectStore) -> None:
    begun = uploads(local_store).begin(request())

    assert uploads(local_store).expect(begun.upload.upload_id, begun.secret) == begun.upload


def test_another_secret_finds_no_upload(local_store: ObjectStore) -> None:
    begun = uploads(local_store).begin(request())

    with pytest.raises(NotFoundError):
        uploads(local_store).expect(begun.upload.upload_id, "guessed")


def test_a_completed_upload_takes_no_bytes(local_store: ObjectStore) -> None:
    begun = uploads(local_store).begin(request())
    send(local_store, begun)
    uploads(local_store).complete(begun.upload.upload_id)

    with pytest.raises(ConflictError, match="is completed"):
        uploads(local_store).expect(begun.upload.upload_id, begun.secret)


def test_the_secret_is_not_stored(local_store: ObjectStore) -> None:
    begun = uploads(local_store).begin(request())

    record = local_store.read_small("default", f"{PREFIX}{begun.upload.upload_id}/upload.json", max_bytes=MIB)
    assert begun.secret.encode() not in record


def test_an_upload_tells_how_far_it_is(any_store: ObjectStore) -> None:
    ours = uploads(any_store)
    begun = ours.begin(request())
    seen = [ours.state(begun.upload)[0]]
    send(any_store, begun)
    seen.append(ours.state(begun.upload)[0])
    ours.complete(begun.upload.upload_id)
    seen.append(ours.state(begun.upload)[0])

    assert seen == ["waiting", "received", "completed"]


def test_an_expired_upload_says_so(any_store: ObjectStore, long_ago: Callable[[float], BegunUpload]) -> None:
    begun = long_ago(UPLOAD_SECONDS + 1)

    assert uploads(any_store).state(begun.upload) == ("expired", None)


def test_nothing_is_left_of_an_abandoned_upload(any_store: ObjectStore) -> None:
    begun = uploads(any_store).begin(request())
    send(any_store, begun)

    uploads(any_store).abandon(begun.upload.upload_id)

    assert left(any_store) == []


@pytest.mark.parametrize("upload_id", ["", "x", "../../packages", "0190b5a0-0000-4000-8000-000000000000"])
def test_what_is_no_upload_is_not_found(local_store: ObjectStore, upload_id: str) -> None:
    with pytest.raises(NotFoundError):
        uploads(local_store).find(upload_id)


def test_an_upload_that_never_was_is_not_found(local_store: ObjectStore) -> None:
    with pytest.raises(NotFoundError):
        uploads(local_store).abandon("0190b5a0-0000-7000-8000-000000000000")


def test_a_record_that_is_none_is_refused(local_store: ObjectStore) -> None:
    upload_id = "0190b5a0-0000-7000-8000-000000000000"
    local_store.publish_bytes(b"[]", "default", f"{PREFIX}{upload_id}/upload.json")

    with pytest.raises(InvalidDocumentError):
        uploads(local_store).find(upload_id)


def test_an_upload_that_nobody_completes_is_reaped(
    any_store: ObjectStore, long_ago: Callable[[float], BegunUpload]
) -> None:
    begun = long_ago(ABANDONED_UPLOAD_SECONDS + 1)

    assert reap_uploads(any_store) == (begun.upload.upload_id,)
    assert left(any_store) == []


def test_a_younger_upload_is_left_alone(any_store: ObjectStore, long_ago: Callable[[float], BegunUpload]) -> None:
    long_ago(ABANDONED_UPLOAD_SECONDS - 60)

    assert reap_uploads(any_store) == ()
    assert left(any_store) == ["content", "upload.json"]


def test_bytes_that_were_sent_after_all_else_was_gone_are_reaped(
    any_store: ObjectStore, long_ago: Callable[[float], BegunUpload]
) -> None:
    begun = long_ago(ABANDONED_UPLOAD_SECONDS + 1)
    any_store.remove("default", f"{PREFIX}{begun.upload.upload_id}/upload.json")

    reap_uploads(any_store)

    assert left(any_store) == []


def test_what_an_upload_registered_is_not_reaped(
    any_store: ObjectStore, long_ago: Callable[[float], BegunUpload], monkeypatch: pytest.MonkeyPatch
) -> None:
    begun = long_ago(ABANDONED_UPLOAD_SECONDS + 1)
    monkeypatch.setattr("runtime.registry.uploads.UPLOAD_SECONDS", ABANDONED_UPLOAD_SECONDS + 600)
    uploads(any_store).complete(begun.upload.upload_id)

    reap_uploads(any_store)

    assert left(any_store) == []
    found = Packages(any_store).find("digits", "0.1.0")
    assert any_store.read_verified(found.archive, max_bytes=MIB) == CONTENT


def test_what_is_nobodys_upload_is_left_alone(local_store: ObjectStore) -> None:
    local_store.publish_bytes(b"mine", "default", f"{PREFIX}notes/readme.txt")

    assert reap_uploads(local_store) == ()
    assert left(local_store) == ["readme.txt"]
