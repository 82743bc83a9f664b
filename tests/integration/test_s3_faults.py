"""What the store does when S3 goes away, hangs, comes back or refuses: a real server, really killed."""

from __future__ import annotations

import hashlib
import threading
import time
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from contracts.errors import ObjectChangedError, StorageRefusedError, StorageUnavailableError
from contracts.limits import MIB
from contracts.references import Pinned
from runtime.store.objects import ObjectStore
from runtime.store.s3 import S3Backend, S3Settings, StoreDeadlines
from tests.assets.s3_server import SECRET_KEY, S3Server

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.service

IMPATIENT = StoreDeadlines(call_seconds=1.0, write_seconds=1.0, retry_seconds=0.5)
PATIENT = StoreDeadlines(call_seconds=5.0, write_seconds=5.0, retry_seconds=60.0)
CONTENT = hashlib.sha256(b"content").digest() * (40 * MIB // 32)
PINNED = Pinned("default", "training-code-runtime/x/large.bin", hashlib.sha256(CONTENT).hexdigest(), len(CONTENT))
SMALL = Pinned("default", "training-code-runtime/x/small.bin", hashlib.sha256(b"small").hexdigest(), 5)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    """One of our own, since it is killed."""
    with S3Server(tmp_path_factory.mktemp("faults")) as server:
        yield server


@pytest.fixture
def settings(server: S3Server) -> S3Settings:
    settings = server.settings()
    ObjectStore.s3(settings).ensure_buckets()
    return settings


@pytest.fixture
def large_file(tmp_path: Path) -> Path:
    path = tmp_path / "large.bin"
    path.write_bytes(CONTENT)
    return path


class Restart:
    """Starts the server again in a thread: what happens to us meanwhile is what is tested."""

    def __init__(self, server: S3Server) -> None:
        self._thread = threading.Thread(target=server.start)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._thread.join()


def test_a_dead_server_is_unavailable_in_time_and_leaves_no_file(
    server: S3Server, settings: S3Settings, tmp_path: Path
) -> None:
    store = ObjectStore.s3(settings, IMPATIENT)
    folder = tmp_path / "folder"
    folder.mkdir()
    server.kill()
    began = time.monotonic()
    try:
        with pytest.raises(StorageUnavailableError, match="the store does not answer"):
            store.fetch_verified(PINNED, folder / "x")
        took = time.monotonic() - began
    finally:
        server.start()

    assert took < 5  # half a second of tries, and a busy machine
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize("call", ["read", "write", "list", "stat"])
def test_a_hanging_server_is_unavailable_within_its_deadline(server: S3Server, settings: S3Settings, call: str) -> None:
    store = ObjectStore.s3(settings, IMPATIENT)
    calls = {
        "read": lambda: store.read_verified(SMALL, max_bytes=10),
        "write": lambda: store.publish_bytes(b"small", SMALL.bucket, SMALL.key),
        "list": lambda: list(store.list("default", "")),
        "stat": lambda: store.stat(SMALL.bucket, SMALL.key),
    }
    server.freeze()
    began = time.monotonic()
    try:
        with pytest.raises(StorageUnavailableError):
            calls[call]()
        took = time.monotonic() - began
    finally:
        server.thaw()

    assert took < 10  # a listing tries four times, a second each, with pauses of 3.5 s between


def test_a_call_rides_over_a_restart(server: S3Server, settings: S3Settings) -> None:
    store = ObjectStore.s3(settings, PATIENT)
    store.publish_bytes(b"small", SMALL.bucket, SMALL.key)
    server.kill()

    with Restart(server):
        assert store.read_verified(SMALL, max_bytes=10) == b"small"


def test_a_write_rides_over_a_restart(server: S3Server, settings: S3Settings) -> None:
    store = ObjectStore.s3(settings, PATIENT)
    server.kill()

    with Restart(server):
        store.publish_bytes(b"small", SMALL.bucket, SMALL.key)

    assert store.read_verified(SMALL, max_bytes=10) == b"small"


def test_a_stream_goes_on_where_it_broke(server: S3Server, settings: S3Settings, large_file: Path) -> None:
    store = ObjectStore.s3(settings, PATIENT)
    store.publish_file(large_file, PINNED)
    chunks = store.chunks(PINNED.bucket, PINNED.key)
    digest = hashlib.sha256(next(chunks))
    server.kill()

    with Restart(server):
        for chunk in chunks:
            digest.update(chunk)

    assert digest.hexdigest() == PINNED.sha256


def test_a_stream_never_goes_on_with_another_object(server: S3Server, settings: S3Settings, large_file: Path) -> None:
    store = ObjectStore.s3(settings, PATIENT)
    store.publish_file(large_file, PINNED)
    chunks = store.chunks(PINNED.bucket, PINNED.key)
    next(chunks)
    other = ObjectStore.s3(settings)
    other._backend.delete(PINNED.bucket, PINNED.key)
    other.publish_bytes(bytes(len(CONTENT)), PINNED.bucket, PINNED.key)
    server.restart()

    with pytest.raises(ObjectChangedError, match="changed while it was being read"):
        for _ in chunks:
            pass


def test_an_upload_that_a_crash_broke_leaves_no_object_and_succeeds_again(
    server: S3Server, settings: S3Settings, large_file: Path
) -> None:
    store = ObjectStore.s3(settings, IMPATIENT)
    backend = store._backend
    assert isinstance(backend, S3Backend)
    staged = backend.stage(PINNED.bucket, PINNED.key)
    staged.write(CONTENT[: 20 * MIB])
    server.restart()
    staged.abandon()

    assert not store.exists(PINNED.bucket, PINNED.key)
    assert store.publish_file(large_file, PINNED) is True


def test_losing_a_race_leaves_no_upload_pending(server: S3Server, settings: S3Settings, large_file: Path) -> None:
    store = ObjectStore.s3(settings)
    backend = store._backend
    assert isinstance(backend, S3Backend)
    loser = backend.stage(PINNED.bucket, PINNED.key)
    loser.write(CONTENT)
    store.publish_file(large_file, PINNED)

    assert loser.commit() is False
    assert list(backend._administration.pending_uploads(settings.buckets["default"], PINNED.key)) == []


def test_an_upload_abandoned_long_ago_is_dropped_by_the_next_large_write(
    server: S3Server, settings: S3Settings, large_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    abandoned = ObjectStore.s3(settings)._backend
    assert isinstance(abandoned, S3Backend)
    staged = abandoned.stage("default", "training-code-runtime/x/abandoned")
    staged.write(CONTENT[: 20 * MIB])
    staged.abandon()
    real = settings.buckets["default"]
    assert len(list(abandoned._administration.pending_uploads(real, "training-code-runtime/"))) == 1
    monkeypatch.setattr("runtime.store.s3.ABANDONED_WRITE_SECONDS", -1.0)

    ObjectStore.s3(settings).publish_file(large_file, PINNED)

    assert list(abandoned._administration.pending_uploads(real, "training-code-runtime/")) == []


def test_a_wrong_secret_is_refused_without_being_shown(settings: S3Settings) -> None:
    store = ObjectStore.s3(replace(settings, secret_key="not-the-secret"))

    with pytest.raises(StorageRefusedError, match="the store refuses access") as caught:
        store.read_verified(SMALL, max_bytes=10)

    shown = f"{caught.value.to_document()} {caught.value!r} {caught.value.__cause__}"
    assert "not-the-secret" not in shown


def test_settings_do_not_show_their_secret(settings: S3Settings) -> None:
    assert SECRET_KEY not in repr(settings)


def test_a_bucket_that_is_not_there_is_named_with_the_remedy(settings: S3Settings) -> None:
    store = ObjectStore.s3(replace(settings, buckets={**settings.buckets, "models": "nowhere"}))

    with pytest.raises(StorageRefusedError, match="bucket of models does not exist") as caught:
        store.read_small("models", "a", max_bytes=1)

    assert "s3_models_bucket" in caught.value.hint


def test_the_check_names_the_bucket_that_is_not_there(settings: S3Settings) -> None:
    store = ObjectStore.s3(replace(settings, buckets={**settings.buckets, "models": "nowhere-too"}))

    with pytest.raises(StorageRefusedError, match="bucket nowhere-too, the real one of models, does not exist"):
        store.check()


def test_the_check_of_a_dead_server_says_where_it_looked(settings: S3Settings) -> None:
    store = ObjectStore.s3(replace(settings, endpoint="http://127.0.0.1:9"), IMPATIENT)

    with pytest.raises(StorageUnavailableError, match=r"http://127\.0\.0\.1:9"):
        store.check()


def test_buckets_that_are_missing_are_made_and_named(server: S3Server) -> None:
    settings = server.settings()

    assert ObjectStore.s3(settings).ensure_buckets() == tuple(sorted(settings.buckets.values()))


def test_two_logical_buckets_may_be_one_real_bucket(server: S3Server) -> None:
    settings = replace(server.settings(), buckets=dict.fromkeys(server.settings().buckets, "shared-bucket"))
    store = ObjectStore.s3(settings)

    assert store.ensure_buckets() == ("shared-bucket",)
    store.publish_bytes(b"x", "models", "a")
    assert store.read_small("datasets", "a", max_bytes=1) == b"x"


def test_asking_for_a_few_keys_among_very_many_lists_them_not(server: S3Server, settings: S3Settings) -> None:
    store = ObjectStore.s3(settings)
    store.for_each(range(1_500), lambda index: store.publish_bytes(b"", "datasets", f"d/{index:05}"))

    found = store.stat_many("datasets", ["d/00000", "d/01499", "d/none"])

    assert set(found) == {"d/00000", "d/01499"}
