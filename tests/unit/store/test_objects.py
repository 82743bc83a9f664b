"""The promises of the object store, the same on local folders and on S3."""

from __future__ import annotations

import hashlib
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from contracts.errors import (
    ArtifactMissingError,
    ConflictError,
    DigestMismatchError,
    InvalidDocumentError,
    ObjectChangedError,
    ObjectMissingError,
    ObjectTooLargeError,
)
from contracts.limits import MIB, SINGLE_PUT_BYTES, SMALL_OBJECT_BYTES
from contracts.references import Pinned

if TYPE_CHECKING:
    from pathlib import Path

    from runtime.store.objects import ObjectStore

KEY = "training-code-runtime/x/ü b+c%20/1.bin"
SMALL, STREAMED, IN_PARTS = 20_000, SMALL_OBJECT_BYTES + 1, SINGLE_PUT_BYTES + 3 * MIB + 7


def content_of(size: int, seed: int = 1) -> bytes:
    return (hashlib.sha256(str(seed).encode()).digest() * (size // 32 + 1))[:size]


def pinned(content: bytes, key: str = KEY) -> Pinned:
    return Pinned("default", key, hashlib.sha256(content).hexdigest(), len(content))


def file_of(folder: Path, content: bytes, name: str = "source.bin") -> Path:
    path = folder / name
    path.write_bytes(content)
    return path


@pytest.mark.parametrize("size", [0, 1, SMALL, STREAMED, IN_PARTS])
def test_a_published_file_is_fetched_back_byte_for_byte(any_store: ObjectStore, tmp_path: Path, size: int) -> None:
    content = content_of(size)

    assert any_store.publish_file(file_of(tmp_path, content), pinned(content)) is True
    any_store.fetch_verified(pinned(content), tmp_path / "fetched.bin")

    assert (tmp_path / "fetched.bin").read_bytes() == content


@pytest.mark.parametrize("size", [0, SMALL, STREAMED, IN_PARTS])
def test_publishing_the_same_bytes_again_says_that_nothing_was_created(
    any_store: ObjectStore, tmp_path: Path, size: int
) -> None:
    source = file_of(tmp_path, content_of(size))
    any_store.publish_file(source, pinned(content_of(size)))

    assert any_store.publish_file(source, pinned(content_of(size))) is False


@pytest.mark.parametrize("size", [SMALL, IN_PARTS])
def test_other_bytes_under_a_taken_key_are_a_conflict_and_the_first_stay(
    any_store: ObjectStore, tmp_path: Path, size: int
) -> None:
    first, second = content_of(size, 1), content_of(size, 2)
    any_store.publish_file(file_of(tmp_path, first), pinned(first))

    with pytest.raises(ConflictError, match="exists with digest"):
        any_store.publish_file(file_of(tmp_path, second), pinned(second))

    assert any_store.read_verified(pinned(first), max_bytes=size) == first


@pytest.mark.parametrize("size", [SMALL, IN_PARTS])
def test_a_file_that_is_not_what_was_announced_is_not_published(
    any_store: ObjectStore, tmp_path: Path, size: int
) -> None:
    announced = pinned(content_of(size, 1))

    with pytest.raises(DigestMismatchError, match="is not what was announced"):
        any_store.publish_file(file_of(tmp_path, content_of(size, 2)), announced)

    assert not any_store.exists("default", KEY)


@pytest.mark.parametrize("size", [SMALL, IN_PARTS])
def test_a_file_longer_than_announced_is_not_published(any_store: ObjectStore, tmp_path: Path, size: int) -> None:
    with pytest.raises(DigestMismatchError):
        any_store.publish_file(file_of(tmp_path, content_of(size) + b"!"), pinned(content_of(size)))

    assert not any_store.exists("default", KEY)


def test_a_symbolic_link_is_not_published(any_store: ObjectStore, tmp_path: Path) -> None:
    file_of(tmp_path, b"secret", "target")
    (tmp_path / "link").symlink_to("target")

    with pytest.raises(ArtifactMissingError, match="cannot be read"):
        any_store.publish_file(tmp_path / "link", pinned(b"secret"))


@pytest.mark.parametrize("size", [SMALL, STREAMED])
@pytest.mark.parametrize("change", ["flipped", "shorter", "longer"])
def test_an_object_that_is_not_what_was_pinned_is_refused_and_nothing_is_kept(
    any_store: ObjectStore, tmp_path: Path, size: int, change: str
) -> None:
    content = content_of(size)
    stored = {"flipped": b"\xff" + content[1:], "shorter": content[:-1], "longer": content + b"!"}[change]
    any_store.publish_bytes(stored, "default", KEY)
    folder = tmp_path / "folder"
    folder.mkdir()

    with pytest.raises(DigestMismatchError, match="is not what was pinned"):
        any_store.fetch_verified(pinned(content), folder / "fetched")

    assert list(folder.iterdir()) == []


def test_a_failed_fetch_leaves_the_file_that_was_there(any_store: ObjectStore, tmp_path: Path) -> None:
    any_store.publish_bytes(b"other", "default", KEY)
    destination = file_of(tmp_path, b"before")

    with pytest.raises(DigestMismatchError):
        any_store.fetch_verified(pinned(b"right"), destination)

    assert destination.read_bytes() == b"before"


def test_a_missing_object_is_named(any_store: ObjectStore, tmp_path: Path) -> None:
    with pytest.raises(ObjectMissingError, match="default/training-code-runtime/x/"):
        any_store.fetch_verified(pinned(b"never stored"), tmp_path / "fetched")


@pytest.mark.parametrize("read", ["stat", "measure", "read_small"])
def test_every_way_to_read_names_a_missing_object(any_store: ObjectStore, read: str) -> None:
    options = {"max_bytes": 10} if read == "read_small" else {}

    with pytest.raises(ObjectMissingError):
        getattr(any_store, read)("models", "not/there", **options)


@pytest.mark.parametrize("size", [SMALL, STREAMED])
def test_read_verified_refuses_other_bytes(any_store: ObjectStore, size: int) -> None:
    any_store.publish_bytes(content_of(size, 1), "default", KEY)

    with pytest.raises(DigestMismatchError):
        any_store.read_verified(pinned(content_of(size, 2)), max_bytes=size)


def test_read_verified_reads_nothing_when_more_is_pinned_than_may_be_read(any_store: ObjectStore) -> None:
    with pytest.raises(ObjectTooLargeError, match="at most 10"):
        any_store.read_verified(pinned(b"eleven byte"), max_bytes=10)


@pytest.mark.parametrize(("size", "limit"), [(11, 10), (STREAMED + 1, STREAMED)])
def test_a_record_over_its_limit_is_refused(any_store: ObjectStore, size: int, limit: int) -> None:
    any_store.publish_bytes(content_of(size), "default", KEY)

    with pytest.raises(ObjectTooLargeError):
        any_store.read_small("default", KEY, max_bytes=limit)


@pytest.mark.parametrize("limit", [10, STREAMED])
def test_a_record_at_its_limit_is_read(any_store: ObjectStore, limit: int) -> None:
    any_store.publish_bytes(content_of(limit), "default", KEY)

    assert any_store.read_small("default", KEY, max_bytes=limit) == content_of(limit)


@pytest.mark.parametrize("size", [0, SMALL, STREAMED, IN_PARTS])
def test_measuring_pins_what_is_there(any_store: ObjectStore, tmp_path: Path, size: int) -> None:
    expected = pinned(content_of(size))
    any_store.publish_file(file_of(tmp_path, content_of(size)), expected)

    assert any_store.measure("default", KEY) == expected


@pytest.mark.parametrize("size", [SMALL, STREAMED])
def test_measuring_a_known_object_refuses_another(any_store: ObjectStore, size: int) -> None:
    any_store.publish_bytes(content_of(size, 1), "default", "one")
    any_store.publish_bytes(content_of(size, 2), "default", "two")

    with pytest.raises(ObjectChangedError):
        any_store.measure("default", "two", known=any_store.stat("default", "one"))


def test_publishing_a_record_twice_creates_it_once(any_store: ObjectStore) -> None:
    assert [any_store.publish_bytes(b"{}", "default", KEY) for _ in range(2)] == [True, False]


def test_a_different_record_is_a_conflict_and_the_first_stays(any_store: ObjectStore) -> None:
    any_store.publish_bytes(b"first", "default", KEY)

    with pytest.raises(ConflictError, match="exists with"):
        any_store.publish_bytes(b"later", "default", KEY)

    assert any_store.read_small("default", KEY, max_bytes=10) == b"first"


def test_of_many_writers_of_one_record_exactly_one_wins(any_store: ObjectStore) -> None:
    together = threading.Barrier(8)

    def write(number: int) -> bool | None:
        together.wait()
        try:
            return any_store.publish_bytes(b"writer %d" % number, "default", KEY)
        except ConflictError:
            return None

    with ThreadPoolExecutor(8) as threads:
        outcomes = list(threads.map(write, range(8)))

    assert sorted(outcomes, key=str) == [None] * 7 + [True]
    assert any_store.read_small("default", KEY, max_bytes=20) == b"writer %d" % outcomes.index(True)


def test_many_writers_of_one_large_object_all_end_with_it_whole(any_store: ObjectStore, tmp_path: Path) -> None:
    content = content_of(IN_PARTS)
    source = file_of(tmp_path, content)
    together = threading.Barrier(4)

    def write(_: int) -> bool:
        together.wait()
        return any_store.publish_file(source, pinned(content))

    with ThreadPoolExecutor(4) as threads:
        outcomes = list(threads.map(write, range(4)))

    assert any(outcomes)
    assert any_store.measure("default", KEY) == pinned(content)


@pytest.mark.parametrize(
    ("prefix", "expected"),
    [
        ("a", ["a!/x", "a/b-1", "a/b/1", "a/c/2"]),
        ("a/b", ["a/b-1", "a/b/1"]),
        ("a/b/", ["a/b/1"]),
        ("", ["a!/x", "a/b-1", "a/b/1", "a/c/2", "b/1"]),
        ("zz/", []),
    ],
)
def test_listing_gives_every_key_that_starts_with_a_prefix(
    any_store: ObjectStore, prefix: str, expected: list[str]
) -> None:
    for key in ("a/c/2", "a/b-1", "a/b/1", "a!/x", "b/1"):
        any_store.publish_bytes(key.encode(), "models", key)

    assert sorted(any_store.list("models", prefix)) == expected


def test_listing_an_empty_bucket_gives_nothing(any_store: ObjectStore) -> None:
    assert list(any_store.list("annotations", "training-code-runtime/")) == []


def test_a_listing_tells_what_stat_tells(any_store: ObjectStore) -> None:
    any_store.publish_bytes(b"12345", "models", "a/b")

    [(key, listed)] = any_store.list_stats("models", "a/")

    assert (key, listed.size_bytes, listed.etag) == ("a/b", 5, any_store.stat("models", "a/b").etag)


@pytest.mark.parametrize("key", ["", "/etc/passwd", "../x", "a/../../x", "a//b", "a/", "a\\b", "a\0b", "."])
def test_a_key_that_is_no_relative_path_is_refused(any_store: ObjectStore, key: str) -> None:
    with pytest.raises(InvalidDocumentError, match="object_key"):
        any_store.publish_bytes(b"", "default", key)


def test_an_unknown_bucket_is_refused(any_store: ObjectStore) -> None:
    with pytest.raises(InvalidDocumentError, match="bucket"):
        any_store.read_small("secrets", "a", max_bytes=1)


def test_a_store_with_its_buckets_passes_its_check(any_store: ObjectStore) -> None:
    any_store.ensure_buckets()

    any_store.check()

    assert [list(any_store.list(bucket, "")) for bucket in ("default", "datasets", "models", "annotations")] == [[]] * 4


def test_buckets_that_exist_are_not_made_again(any_store: ObjectStore) -> None:
    any_store.ensure_buckets()

    assert any_store.ensure_buckets() == ()


def test_a_staging_fetch_leaves_nothing_when_it_fails(any_store: ObjectStore, tmp_path: Path) -> None:
    any_store.publish_bytes(b"other", "default", KEY)
    folder = tmp_path / "staging"
    folder.mkdir()

    with pytest.raises(DigestMismatchError):
        any_store.fetch_verified(pinned(b"right"), folder / "x", into_staging=True)

    assert list(folder.iterdir()) == []
