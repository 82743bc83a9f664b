"""Pinning: what a snapshot promises about the bytes it names."""

from __future__ import annotations

import hashlib
import os
import sqlite3
import time
from typing import TYPE_CHECKING

import pytest

from contracts.base import validate
from contracts.dataset import DatasetSourceManifest
from contracts.errors import DigestMismatchError, NotFoundError, ObjectMissingError
from contracts.references import Pinned
from contracts.strict_json import dump_canonical
from runtime.registry.snapshots import PinProgress, Snapshots
from runtime.store.objects import ObjectStore
from tests.assets.datasets import content_of, source_of

if TYPE_CHECKING:
    from pathlib import Path

FILES = {f"photos/{index}.png": content_of(str(index), 200 + index) for index in range(12)}
LABELS = {"photos/3.txt": b"1 2 3", "photos/4.txt": b"4 5 6"}


def overwrite(store: ObjectStore, bucket: str, key: str, content: bytes) -> None:
    """As somebody with the store's credentials would, past all that we do."""
    store._backend.delete(bucket, key)
    store.publish_bytes(content, bucket, key)


def settle(store: ObjectStore, keys: list[str]) -> None:
    """Waits until the file system's clock has moved on since the files were written."""
    deadline = time.monotonic() + 20
    while not all(stat.settled for stat in store.stat_many("datasets", keys).values()):
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_snapshot_pins_the_digest_and_size_of_every_object(any_store: ObjectStore) -> None:
    pinned = Snapshots(any_store).pin(source_of(any_store, FILES, annotations=LABELS))

    found = {item["media"]["object_key"]: item["media"] for item in pinned.snapshot.items}
    assert {key: (found[key]["sha256"], found[key]["size_bytes"]) for key in FILES} == {
        key: (hashlib.sha256(content).hexdigest(), len(content)) for key, content in FILES.items()
    }
    assert pinned.snapshot.items[3]["annotation"] == {
        "bucket": "annotations",
        "object_key": "photos/3.txt",
        "sha256": hashlib.sha256(b"1 2 3").hexdigest(),
        "size_bytes": 5,
    }


def test_what_is_stored_is_the_canonical_document_under_its_own_digest(any_store: ObjectStore) -> None:
    pinned = Snapshots(any_store).pin(source_of(any_store, FILES))

    content = any_store.read_verified(pinned.object, max_bytes=100_000)
    assert content == dump_canonical(pinned.snapshot.to_document())
    assert pinned.object.key == f"training-code-runtime/dataset-snapshots/{hashlib.sha256(content).hexdigest()}.json"


def test_a_snapshot_counts_its_items_and_each_object_once(any_store: ObjectStore) -> None:
    source = source_of(any_store, FILES)
    document = source.to_document()
    document["items"].append({**document["items"][0], "item_id": "the same file again"})

    pinned = Snapshots(any_store).pin(validate(DatasetSourceManifest, document))

    assert (pinned.items, pinned.bytes) == (13, sum(map(len, FILES.values())))


def test_pinning_the_same_source_again_creates_nothing(any_store: ObjectStore) -> None:
    snapshots = Snapshots(any_store)
    first = snapshots.pin(source_of(any_store, FILES))
    again = snapshots.pin(source_of(any_store, FILES))

    assert (first.created, again.created, again.sha256) == (True, False, first.sha256)


def test_every_missing_object_is_named_at_once(any_store: ObjectStore) -> None:
    source = source_of(any_store, FILES)
    for key in ("photos/2.png", "photos/7.png"):
        any_store._backend.delete("datasets", key)

    with pytest.raises(ObjectMissingError, match="2 of 12 objects are not in the store") as caught:
        Snapshots(any_store).pin(source)

    assert [entry["object_key"] for entry in caught.value.context["missing"]] == ["photos/2.png", "photos/7.png"]


def test_a_source_that_states_another_digest_is_refused_with_the_item_named(any_store: ObjectStore) -> None:
    document = source_of(any_store, FILES).to_document()
    document["items"][5]["media"]["sha256"] = "0" * 64

    with pytest.raises(DigestMismatchError, match=r"datasets/photos/5\.png \(item photos/5\.png\)"):
        Snapshots(any_store).pin(validate(DatasetSourceManifest, document))


def test_a_source_that_states_another_size_is_refused(any_store: ObjectStore) -> None:
    document = source_of(any_store, FILES).to_document()
    document["items"][5]["media"]["size_bytes"] = 1

    with pytest.raises(DigestMismatchError, match="1 references state"):
        Snapshots(any_store).pin(validate(DatasetSourceManifest, document))


def test_a_source_that_states_the_right_digests_is_the_same_snapshot(any_store: ObjectStore) -> None:
    snapshots = Snapshots(any_store)
    first = snapshots.pin(source_of(any_store, FILES))

    again = snapshots.pin(validate(DatasetSourceManifest, first.snapshot.to_document()))

    assert again.sha256 == first.sha256


def test_what_is_unchanged_is_not_read_again(any_store: ObjectStore, tmp_path: Path) -> None:
    source = source_of(any_store, FILES)
    settle(any_store, list(FILES))
    first = Snapshots(any_store, evidence=tmp_path / "evidence").pin(source)

    again = Snapshots(any_store, evidence=tmp_path / "evidence").pin(source)

    assert (first.read_objects, again.read_objects, again.sha256) == (12, 0, first.sha256)


def test_first_evidence_is_always_the_bytes(any_store: ObjectStore, tmp_path: Path) -> None:
    document = Snapshots(any_store).pin(source_of(any_store, FILES)).snapshot.to_document()

    pinned = Snapshots(any_store, evidence=tmp_path / "new").pin(validate(DatasetSourceManifest, document))

    assert pinned.read_objects == 12


def test_a_changed_object_is_read_again_and_gets_its_new_digest(any_store: ObjectStore, tmp_path: Path) -> None:
    source = source_of(any_store, FILES)
    settle(any_store, list(FILES))
    snapshots = Snapshots(any_store, evidence=tmp_path / "evidence")
    first = snapshots.pin(source)
    changed = bytes(reversed(FILES["photos/6.png"]))
    overwrite(any_store, "datasets", "photos/6.png", changed)

    again = snapshots.pin(source)

    assert again.snapshot.items[6]["media"]["sha256"] == hashlib.sha256(changed).hexdigest()
    assert (again.read_objects, again.sha256 == first.sha256) == (1, False)


def test_evidence_about_one_store_is_not_used_for_another(local_store: ObjectStore, tmp_path: Path) -> None:
    other = ObjectStore.local(tmp_path / "other")
    source = source_of(local_store, FILES)
    source_of(other, FILES)
    settle(local_store, list(FILES))
    Snapshots(local_store, evidence=tmp_path / "evidence").pin(source)

    assert Snapshots(other, evidence=tmp_path / "evidence").pin(source).read_objects == 12


def test_a_file_changed_in_place_with_its_times_set_back_is_read_again(
    local_store: ObjectStore, tmp_path: Path
) -> None:
    source = source_of(local_store, FILES)
    settle(local_store, list(FILES))
    snapshots = Snapshots(local_store, evidence=tmp_path / "evidence")
    snapshots.pin(source)
    file = tmp_path / "store" / "datasets" / "photos" / "6.png"
    before = file.stat()
    file.chmod(0o644)
    file.write_bytes(bytes(len(FILES["photos/6.png"])))
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))

    assert snapshots.pin(source).read_objects == 1


def test_an_object_written_a_moment_ago_leaves_no_evidence(local_store: ObjectStore, tmp_path: Path) -> None:
    source = source_of(local_store, FILES)
    for key in FILES:
        os.utime(tmp_path / "store" / "datasets" / key, ns=(time.time_ns() + 10**12,) * 2)  # as if just written
    snapshots = Snapshots(local_store, evidence=tmp_path / "evidence")
    snapshots.pin(source)

    assert snapshots.pin(source).read_objects == 12


@pytest.mark.parametrize("content", [b"no database at all" * 100, b""])
def test_a_damaged_evidence_file_costs_a_full_read_and_nothing_else(
    local_store: ObjectStore, tmp_path: Path, content: bytes
) -> None:
    (tmp_path / "evidence").write_bytes(content)

    pinned = Snapshots(local_store, evidence=tmp_path / "evidence").pin(source_of(local_store, FILES))

    assert pinned.read_objects == 12


def test_evidence_of_another_layout_is_as_good_as_none(local_store: ObjectStore, tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "evidence") as database:
        database.execute("CREATE TABLE evidence (something TEXT)")
    database.close()

    pinned = Snapshots(local_store, evidence=tmp_path / "evidence").pin(source_of(local_store, FILES))

    assert pinned.read_objects == 12


def test_a_stored_snapshot_is_found_by_its_digest(any_store: ObjectStore) -> None:
    snapshots = Snapshots(any_store)
    pinned = snapshots.pin(source_of(any_store, FILES))

    found = snapshots.find(pinned.sha256)

    assert (found.object, found.items, found.bytes, found.snapshot) == (
        pinned.object,
        pinned.items,
        pinned.bytes,
        pinned.snapshot,
    )


@pytest.mark.parametrize("digest", ["0" * 64, "abc", "../../etc/passwd", ""])
def test_a_digest_that_names_nothing_says_so(any_store: ObjectStore, digest: str) -> None:
    with pytest.raises(NotFoundError, match="no dataset snapshot has the digest"):
        Snapshots(any_store).find(digest)


def test_a_snapshot_whose_document_was_overwritten_is_refused(any_store: ObjectStore) -> None:
    snapshots = Snapshots(any_store)
    pinned = snapshots.pin(source_of(any_store, FILES))
    overwrite(any_store, "default", pinned.object.key, b"{}")

    with pytest.raises(DigestMismatchError):
        snapshots.load(pinned.object)


def test_all_snapshots_are_listed_and_nothing_else(any_store: ObjectStore) -> None:
    snapshots = Snapshots(any_store)
    stored = {snapshots.pin(source_of(any_store, {key: FILES[key]})).object for key in ("photos/1.png", "photos/2.png")}
    any_store.publish_bytes(b"", "default", "training-code-runtime/dataset-snapshots/README.txt")

    assert set(snapshots.list()) == stored


def test_an_intact_snapshot_verifies(any_store: ObjectStore) -> None:
    snapshots = Snapshots(any_store)
    pinned = snapshots.pin(source_of(any_store, FILES, annotations=LABELS))

    report = snapshots.verify(pinned.sha256)

    assert (report.intact, report.objects, report.bytes) == (True, 14, pinned.bytes)


def test_verifying_reads_every_byte_and_names_all_damage(any_store: ObjectStore, tmp_path: Path) -> None:
    source = source_of(any_store, FILES)
    settle(any_store, list(FILES))
    snapshots = Snapshots(any_store, evidence=tmp_path / "evidence")
    pinned = snapshots.pin(source)
    overwrite(any_store, "datasets", "photos/1.png", b"!" + FILES["photos/1.png"][1:])
    any_store._backend.delete("datasets", "photos/9.png")

    report = snapshots.verify(pinned.sha256)

    assert [(damage.item_id, damage.key, damage.code) for damage in report.damaged] == [
        ("item photos/1.png", "photos/1.png", "digest_mismatch"),
        ("item photos/9.png", "photos/9.png", "object_missing"),
    ]


@pytest.mark.slow
def test_progress_ends_with_everything_read(local_store: ObjectStore) -> None:
    told: list[PinProgress] = []
    files = {f"many/{index}": content_of(str(index), 60_000) for index in range(1_000)}

    Snapshots(local_store).pin(source_of(local_store, files), on_progress=told.append)

    assert told
    assert (told[-1].total_objects, told[-1].done_objects > 0) == (1_000, True)


def test_a_snapshot_of_the_present_service_is_read(any_store: ObjectStore) -> None:
    """Its bytes count, not our way of writing them: a document without the optional fields."""
    document = {
        "protocol_version": "training-dataset-source-manifest/v1",
        "task_kind": "classification",
        "data_modalities": ["image"],
        "items": [
            {
                "item_id": "1",
                "media": {"bucket": "datasets", "object_key": "a/b.png", "sha256": "a" * 64, "size_bytes": 3},
            }
        ],
    }
    content = dump_canonical(document)
    sha256 = hashlib.sha256(content).hexdigest()
    key = f"training-code-runtime/dataset-snapshots/{sha256}.json"
    any_store.publish_bytes(content, "default", key)

    snapshot = Snapshots(any_store).load(Pinned("default", key, sha256, len(content)))

    assert snapshot.items[0]["media"]["sha256"] == "a" * 64
