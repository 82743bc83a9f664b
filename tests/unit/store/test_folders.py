"""What only local folders do: names that a file system cannot hold, leftovers, and files that nobody overwrites."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from contracts.errors import ConflictError, StorageRefusedError

if TYPE_CHECKING:
    from pathlib import Path

    from runtime.store.objects import ObjectStore


@pytest.mark.parametrize(("first", "second"), [("a", "a/b"), ("a/b", "a")])
def test_a_key_that_is_file_and_folder_at_once_is_a_conflict(local_store: ObjectStore, first: str, second: str) -> None:
    local_store.publish_bytes(b"first", "default", first)

    with pytest.raises(ConflictError, match="cannot be written"):
        local_store.publish_bytes(b"second", "default", second)


def test_a_part_too_long_for_a_file_name_is_refused(local_store: ObjectStore) -> None:
    with pytest.raises(StorageRefusedError, match="too long"):
        local_store.publish_bytes(b"", "default", "x" * 300)


def test_a_published_file_is_read_only(local_store: ObjectStore, tmp_path: Path) -> None:
    local_store.publish_bytes(b"x", "default", "a")

    assert (tmp_path / "store" / "default" / "a").stat().st_mode & 0o777 == 0o444


def test_nothing_is_left_staged(local_store: ObjectStore, tmp_path: Path) -> None:
    local_store.publish_bytes(b"x", "default", "a")
    with pytest.raises(ConflictError):
        local_store.publish_bytes(b"y", "default", "a")

    assert list((tmp_path / "store" / ".staging").iterdir()) == []


def test_what_a_killed_process_left_staged_goes_after_a_day(local_store: ObjectStore, tmp_path: Path) -> None:
    staging = tmp_path / "store" / ".staging"
    staging.mkdir(parents=True)
    (staging / "old").write_bytes(b"")
    os.utime(staging / "old", (0, 0))
    (staging / "of-another-process").write_bytes(b"")

    local_store.publish_bytes(b"x", "default", "a")

    assert [path.name for path in staging.iterdir()] == ["of-another-process"]


def test_the_staging_folder_is_no_bucket(local_store: ObjectStore) -> None:
    local_store.publish_bytes(b"x", "default", "a")

    assert list(local_store.list("default", "")) == ["a"]


def test_a_local_object_can_be_shown_as_a_file(local_store: ObjectStore, tmp_path: Path) -> None:
    assert local_store.local_path("models", "a/b.onnx") == tmp_path / "store" / "models" / "a" / "b.onnx"
