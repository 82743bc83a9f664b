"""Files that are received: hashed as they arrive, gone with their block, published without being copied."""

from __future__ import annotations

import errno
import hashlib
import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from contracts.errors import (
    ConflictError,
    DigestMismatchError,
    ObjectMissingError,
    ObjectTooLargeError,
    StorageRefusedError,
)
from contracts.limits import SINGLE_PUT_BYTES
from contracts.references import Pinned
from runtime.store import spool as spools
from runtime.store.objects import ObjectStore
from runtime.store.spool import Spool, sweep

if TYPE_CHECKING:
    from pathlib import Path

SMALL, LARGE = b"bytes", bytes(SINGLE_PUT_BYTES) + b"end"


def pinned(content: bytes, key: str = "a/b.zip") -> Pinned:
    return Pinned("default", key, hashlib.sha256(content).hexdigest(), len(content))


@pytest.mark.parametrize("content", [b"", SMALL, LARGE])
def test_what_is_received_is_published_under_its_digest(any_store: ObjectStore, content: bytes) -> None:
    with any_store.spool() as spool:
        spool.write(content[:3])
        spool.write(memoryview(content)[3:])
        created = any_store.publish_file(spool, pinned(content))

    assert created
    assert any_store.measure("default", "a/b.zip") == pinned(content)


def test_a_local_store_takes_the_file_as_it_is(local_store: ObjectStore, tmp_path: Path) -> None:
    with local_store.spool() as spool:
        spool.write(SMALL)
        inode = spool.path.stat().st_ino
        local_store.publish_file(spool, pinned(SMALL))

    assert (tmp_path / "store" / "default" / "a" / "b.zip").stat().st_ino == inode


def test_a_published_spool_is_read_only(local_store: ObjectStore, tmp_path: Path) -> None:
    with local_store.spool() as spool:
        local_store.publish_file(spool, pinned(b""))

    assert (tmp_path / "store" / "default" / "a" / "b.zip").stat().st_mode & 0o777 == 0o444


@pytest.mark.parametrize("content", [SMALL, LARGE])
def test_the_same_bytes_again_are_not_made_again(any_store: ObjectStore, content: bytes) -> None:
    any_store.publish_bytes(content, "default", "a/b.zip")

    with any_store.spool() as spool:
        spool.write(content)
        assert not any_store.publish_file(spool, pinned(content))


def test_other_bytes_are_a_conflict_and_change_nothing(any_store: ObjectStore) -> None:
    any_store.publish_bytes(b"other", "default", "a/b.zip")

    with any_store.spool() as spool:
        spool.write(SMALL)
        with pytest.raises(ConflictError):
            any_store.publish_file(spool, pinned(SMALL))

    assert any_store.read_small("default", "a/b.zip", max_bytes=9) == b"other"


def test_what_was_announced_otherwise_is_not_published(any_store: ObjectStore) -> None:
    with any_store.spool() as spool:
        spool.write(SMALL)
        with pytest.raises(DigestMismatchError):
            any_store.publish_file(spool, pinned(b"other"))

    assert list(any_store.list("default", "a/")) == []


def test_a_spool_goes_with_its_block(any_store: ObjectStore) -> None:
    def receive() -> None:
        with any_store.spool() as spool:
            spool.write(SMALL)
            paths.append(spool.path)
            raise ConnectionResetError

    paths: list[Path] = []
    with pytest.raises(ConnectionResetError):
        receive()

    assert not paths[0].exists()


def test_the_spool_of_an_object_has_its_bytes_and_digest(any_store: ObjectStore) -> None:
    any_store.publish_bytes(LARGE, "default", "uploaded")

    with any_store.spool_object("default", "uploaded", max_bytes=len(LARGE)) as spool:
        found = (spool.path.read_bytes(), spool.sha256, spool.size_bytes)

    assert found == (LARGE, hashlib.sha256(LARGE).hexdigest(), len(LARGE))


def test_the_spool_of_an_object_is_published_under_another_key(any_store: ObjectStore) -> None:
    any_store.publish_bytes(SMALL, "default", "uploaded")

    with any_store.spool_object("default", "uploaded", max_bytes=9) as spool:
        any_store.publish_file(spool, pinned(SMALL))
    any_store.remove("default", "uploaded")

    assert list(any_store.list("default", "")) == ["a/b.zip"]


def test_two_spools_of_one_object_do_not_hinder_each_other(local_store: ObjectStore) -> None:
    local_store.publish_bytes(SMALL, "default", "uploaded")

    with (
        local_store.spool_object("default", "uploaded", max_bytes=9) as first,
        local_store.spool_object("default", "uploaded", max_bytes=9) as second,
    ):
        assert first.path.read_bytes() == second.path.read_bytes() == SMALL


def test_an_object_that_is_too_large_is_not_spooled(any_store: ObjectStore) -> None:
    any_store.publish_bytes(SMALL, "default", "uploaded")

    with pytest.raises(ObjectTooLargeError):
        any_store.spool_object("default", "uploaded", max_bytes=4)


def test_an_object_that_is_not_there_has_no_spool(any_store: ObjectStore) -> None:
    with pytest.raises(ObjectMissingError):
        any_store.spool_object("default", "uploaded", max_bytes=4)


def test_a_file_that_goes_before_it_is_linked_has_no_spool(tmp_path: Path) -> None:
    with pytest.raises(ObjectMissingError):
        Spool.of_file(tmp_path / "spool", tmp_path / "gone")

    assert list((tmp_path / "spool").iterdir()) == []


def test_a_folder_that_cannot_be_made_is_a_typed_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")

    with pytest.raises(StorageRefusedError, match="cannot be written"):
        Spool.create(tmp_path / "file" / "spool")


def test_a_sweep_leaves_what_is_being_received(tmp_path: Path) -> None:
    with Spool.create(tmp_path) as spool:
        spool.write(SMALL)

        assert sweep(tmp_path) == 0
        assert spool.path.read_bytes() == SMALL


def test_what_a_killed_process_was_receiving_goes_when_the_next_one_starts(tmp_path: Path) -> None:
    receiving = (
        "import sys, time; from pathlib import Path; from runtime.store.spool import Spool\n"
        "spool = Spool.create(Path(sys.argv[1])); spool.write(b'half'); print('ready', flush=True); time.sleep(60)"
    )
    folder = tmp_path / "store" / ".spool"
    child = subprocess.Popen([sys.executable, "-c", receiving, str(folder)], stdout=subprocess.PIPE)
    assert child.stdout is not None
    with child.stdout:
        child.stdout.readline()
        os.kill(child.pid, signal.SIGKILL)
        child.wait(30)
    assert len(list(folder.iterdir())) == 1

    with ObjectStore.local(tmp_path / "store").spool() as spool:
        assert list(folder.iterdir()) == [spool.path]


def test_a_folder_that_is_not_there_has_nothing_to_sweep(tmp_path: Path) -> None:
    assert sweep(tmp_path / "none") == 0


def test_a_spool_that_was_discarded_is_used_no_more(tmp_path: Path) -> None:
    spool = Spool.create(tmp_path)
    spool.discard()
    spool.discard()

    with pytest.raises(RuntimeError, match="after it was discarded"):
        spool.write(SMALL)


def test_a_disk_that_refused_early_is_not_believed_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel tells of a failed write once, and may answer the next wait for the same bytes with a success."""
    answers = iter([OSError(errno.EIO, "Input/output error")])

    def fdatasync(_: int) -> None:
        for answer in answers:
            raise answer

    monkeypatch.setattr(spools, "FLUSHED_EARLY_BYTES", len(SMALL))
    monkeypatch.setattr(os, "fdatasync", fdatasync)
    with Spool.create(tmp_path, is_kept=True) as spool:
        spool.write(SMALL)
        with pytest.raises(StorageRefusedError, match="Input/output error"):
            spool.synchronize()
    assert list(tmp_path.iterdir()) == []


def test_only_what_stays_on_this_disk_is_flushed_early(
    any_store: ObjectStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flushed: list[int] = []
    monkeypatch.setattr(spools, "FLUSHED_EARLY_BYTES", len(SMALL))
    monkeypatch.setattr(os, "fdatasync", flushed.append)
    with any_store.spool() as spool:
        spool.write(SMALL)
        is_kept = spool.path.is_relative_to(tmp_path / "store")
    assert bool(flushed) == is_kept
