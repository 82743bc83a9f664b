"""What is given out of the store, whole and in parts."""

from __future__ import annotations

import hashlib
import os
import time
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from contracts.errors import DigestMismatchError, ObjectMissingError
from contracts.limits import CHUNK_BYTES
from contracts.references import Pinned
from runtime.store.downloads import Downloads
from runtime.store.objects import ObjectStore

if TYPE_CHECKING:
    from pathlib import Path

CONTENT = os.urandom(3 * CHUNK_BYTES + 1000)


def stored(store: ObjectStore, content: bytes = CONTENT, key: str = "a/model.onnx") -> Pinned:
    store.publish_bytes(content, "models", key)
    return Pinned("models", key, hashlib.sha256(content).hexdigest(), len(content))


def age(path: Path) -> None:
    """Afterwards a later change of the file is certain to show in its etag."""
    long_ago = time.time() - 60
    os.utime(path, (long_ago, long_ago))
    deadline = time.monotonic() + 10
    while time.time_ns() - path.stat().st_ctime_ns < 100_000_000:
        assert time.monotonic() < deadline
        time.sleep(0.02)


def tamper(path: Path, content: bytes) -> None:
    path.chmod(0o644)
    path.write_bytes(content)


def test_whole(any_store: ObjectStore) -> None:
    pinned = stored(any_store)

    assert b"".join(Downloads(any_store).open(pinned)) == CONTENT


@pytest.mark.slow
@pytest.mark.parametrize("again", [False, True], ids=["first read", "once it was found right"])
@pytest.mark.parametrize(
    ("start", "end"),
    [
        (0, 1),
        (7, CHUNK_BYTES),
        (CHUNK_BYTES, 2 * CHUNK_BYTES),
        (CHUNK_BYTES - 1, 2 * CHUNK_BYTES + 1),
        (5, None),
        (len(CONTENT) - 1, None),
    ],
)
def test_a_part(any_store: ObjectStore, start: int, end: int | None, *, again: bool) -> None:
    pinned, downloads = stored(any_store), Downloads(any_store)
    path = any_store.local_path(pinned.bucket, pinned.key)
    if again:
        if path is not None:
            age(path)
        assert b"".join(downloads.open(pinned)) == CONTENT

    assert b"".join(downloads.open(pinned, start, end)) == CONTENT[start:end]


@settings(max_examples=50)
@given(data=st.data())
def test_any_part_of_a_changed_object_is_never_given_out_to_its_end(tmp_path_factory, data) -> None:
    store = ObjectStore.local(tmp_path_factory.mktemp("store"))
    pinned = stored(store)
    changed = bytearray(CONTENT)
    changed[data.draw(st.integers(0, len(CONTENT) - 1))] ^= 1
    tamper(store.local_path(pinned.bucket, pinned.key), bytes(changed))
    start = data.draw(st.integers(0, len(CONTENT) - 1))
    end = data.draw(st.integers(start + 1, len(CONTENT)))

    got: list[bytes] = []
    with pytest.raises(DigestMismatchError):
        got.extend(Downloads(store).open(pinned, start, end))
    assert sum(map(len, got)) < end - start


def test_an_object_that_was_found_right_and_then_changed_is_refused(local_store: ObjectStore) -> None:
    pinned, downloads = stored(local_store), Downloads(local_store)
    path = local_store.local_path(pinned.bucket, pinned.key)
    age(path)
    assert b"".join(downloads.open(pinned)) == CONTENT
    tamper(path, b"x" * len(CONTENT))

    with pytest.raises(DigestMismatchError):
        b"".join(downloads.open(pinned, 10, 20))


def test_a_part_of_what_was_found_right_is_read_alone(local_store: ObjectStore, monkeypatch) -> None:
    pinned, downloads = stored(local_store), Downloads(local_store)
    age(local_store.local_path(pinned.bucket, pinned.key))
    assert b"".join(downloads.open(pinned)) == CONTENT
    read = []
    plain = local_store.chunks

    def counted(*args, **kwargs):
        for chunk in plain(*args, **kwargs):
            read.append(len(chunk))
            yield chunk

    monkeypatch.setattr(local_store, "chunks", counted)
    b"".join(downloads.open(pinned, len(CONTENT) - 10))

    assert read == [10]


def test_another_size_is_refused_before_a_byte_goes_out(local_store: ObjectStore) -> None:
    pinned = stored(local_store)
    tamper(local_store.local_path(pinned.bucket, pinned.key), CONTENT + b"x")

    with pytest.raises(DigestMismatchError, match="is not what was pinned"):
        Downloads(local_store).open(pinned)


def test_a_missing_object_is_said_at_once(any_store: ObjectStore) -> None:
    with pytest.raises(ObjectMissingError):
        Downloads(any_store).open(Pinned("models", "nothing", "0" * 64, 1))


def test_an_empty_object_is_given_out_whole(any_store: ObjectStore) -> None:
    assert b"".join(Downloads(any_store).open(stored(any_store, b""))) == b""
