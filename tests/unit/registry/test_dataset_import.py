"""Importing: stored by content, nothing twice, pinned at the end, named if asked."""

from __future__ import annotations

import hashlib
import json

import pytest

from contracts.errors import AdmissionError, DatasetUnreadableError, NotFoundError
from contracts.references import Pinned
from runtime.ledger import Ledger
from runtime.registry.dataset_import import import_dataset
from runtime.registry.dataset_names import DatasetNames
from runtime.registry.snapshots import Snapshots
from runtime.store.objects import ObjectStore
from tests.assets.local_datasets import class_folders, coco, png, write, yolo


class Counting(ObjectStore):
    """The real store, which counts what it is asked to store."""

    sent = 0

    def publish_bytes(self, content: bytes, bucket: str, key: str) -> bool:
        self.sent += key.startswith("imports/")
        return super().publish_bytes(content, bucket, key)

    def publish_file(self, source, pinned: Pinned) -> bool:
        self.sent += 1
        return super().publish_file(source, pinned)


@pytest.fixture
def store(tmp_path) -> Counting:
    return Counting.local(tmp_path / "store")


@pytest.fixture
def ledger(tmp_path):
    with Ledger.open(f"sqlite:///{tmp_path}/ledger.db") as opened:
        yield opened


def test_a_data_set_is_stored_and_pinned(any_store, tmp_path) -> None:
    root = class_folders(tmp_path / "data", splits=("train", "test"))

    imported = import_dataset(root, store=any_store, snapshots=Snapshots(any_store))

    assert (imported.items, imported.created, imported.uploaded_items) == (8, True, 8)
    assert imported.splits == {"train": 4, "test": 4}
    snapshot = Snapshots(any_store).load(imported.object)
    assert snapshot.class_names == ("cat", "dog")
    item = next(item for item in snapshot.items if item["item_id"] == "train/cat/0.png")
    content = png("train/cat/0")
    sha256 = hashlib.sha256(content).hexdigest()
    assert item["media"] == Pinned("datasets", f"imports/{sha256}.png", sha256, len(content)).to_document()
    assert item["metadata"] == {"class_name": "cat", "file_name": "0.png", "class_index": 0}
    assert imported.bytes == sum(item["media"]["size_bytes"] for item in snapshot.items)


def test_a_second_import_sends_nothing_and_is_the_same_snapshot(any_store, tmp_path) -> None:
    root = class_folders(tmp_path / "data")
    first = import_dataset(root, store=any_store, snapshots=Snapshots(any_store))

    again = import_dataset(root, store=any_store, snapshots=Snapshots(any_store))

    assert (again.sha256, again.created, again.uploaded_items) == (first.sha256, False, 0)


def test_a_second_import_does_not_even_try_to_send(store, tmp_path) -> None:
    root = class_folders(tmp_path / "data")
    import_dataset(root, store=store, snapshots=Snapshots(store))
    store.sent = 0

    import_dataset(root, store=store, snapshots=Snapshots(store))

    assert store.sent == 0


def test_only_what_is_new_is_sent(store, tmp_path) -> None:
    root = class_folders(tmp_path / "data")
    import_dataset(root, store=store, snapshots=Snapshots(store))
    write(root / "cat/new.png", png("new"))

    again = import_dataset(root, store=store, snapshots=Snapshots(store))

    assert (again.items, again.created, again.uploaded_items) == (5, True, 1)


def test_the_same_folder_elsewhere_is_the_same_snapshot(store, tmp_path) -> None:
    one = import_dataset(class_folders(tmp_path / "a"), store=store, snapshots=Snapshots(store))
    other = import_dataset(class_folders(tmp_path / "b"), store=store, snapshots=Snapshots(store))

    assert one.sha256 == other.sha256


def test_equal_images_of_two_items_are_one_object(store, tmp_path) -> None:
    root = class_folders(tmp_path / "data", count=1)
    write(root / "cat/copy.png", (root / "cat/0.png").read_bytes())

    imported = import_dataset(root, store=store, snapshots=Snapshots(store))

    assert imported.items == 3
    assert len(list(store.list("datasets", "imports/"))) == 2


def test_label_files_of_a_yolo_data_set_are_its_annotations(store, tmp_path) -> None:
    imported = import_dataset(yolo(tmp_path / "data"), store=store, snapshots=Snapshots(store))

    snapshot = Snapshots(store).load(imported.object)
    first, second, _ = snapshot.items
    content = b"0 0.5 0.5 0.2 0.2\n1 0.1 0.1 0.1 0.1\n"
    assert first["annotation"]["bucket"] == "annotations"
    assert first["annotation"]["sha256"] == hashlib.sha256(content).hexdigest()
    assert first["annotation"]["object_key"].endswith(".txt")
    assert second["annotation"] is None
    assert imported.uploaded_items == 5


def test_each_image_of_a_coco_data_set_gets_its_own_annotation(store, tmp_path) -> None:
    imported = import_dataset(coco(tmp_path / "data"), store=store, snapshots=Snapshots(store))

    first, _ = Snapshots(store).load(imported.object).items
    reference = first["annotation"]
    stored = store.read_verified(
        Pinned(reference["bucket"], reference["object_key"], reference["sha256"], reference["size_bytes"]),
        max_bytes=10_000,
    )
    assert [annotation["class_name"] for annotation in json.loads(stored)["annotations"]] == ["dog", "car"]


def test_a_large_file_is_streamed_and_stored(store, tmp_path) -> None:
    root = class_folders(tmp_path / "data", count=1)
    large = png("large") + bytes(9 * 1024 * 1024)
    write(root / "cat/large.png", large)

    imported = import_dataset(root, store=store, snapshots=Snapshots(store))

    sizes = {item["item_id"]: item["media"]["size_bytes"] for item in Snapshots(store).load(imported.object).items}
    assert sizes["cat/large.png"] == len(large)


def test_nothing_is_stored_of_a_data_set_with_something_wrong_in_it(store, tmp_path) -> None:
    root = class_folders(tmp_path / "data")
    write(root / "dog/broken.png", b"")

    with pytest.raises(DatasetUnreadableError, match=r"dog/broken\.png: is empty"):
        import_dataset(root, store=store, snapshots=Snapshots(store))

    assert store.sent == 0


def test_progress_tells_items_done_and_in_all(store, tmp_path) -> None:
    told = []

    import_dataset(
        class_folders(tmp_path / "data", count=5),
        store=store,
        snapshots=Snapshots(store),
        progress=lambda done, total: told.append((done, total)),
    )

    assert told[-1] == (10, 10)
    assert told == sorted(told)


def test_a_name_points_at_the_imported_snapshot(store, ledger, tmp_path) -> None:
    snapshots = Snapshots(store)
    imported = import_dataset(
        class_folders(tmp_path / "data"), store=store, snapshots=snapshots, name="pets", ledger=ledger
    )
    names = DatasetNames(ledger, snapshots)

    assert names.find("pets").object == imported.object
    assert names.resolve("pets").snapshot == names.resolve(imported.sha256).snapshot
    assert [found.name for found in names.list()] == ["pets"]


def test_a_name_that_nobody_gave_is_not_found_and_the_others_are_listed(store, ledger) -> None:
    names = DatasetNames(ledger, Snapshots(store))
    names.set("pets", "a" * 64, Pinned("default", "a.json", "a" * 64, 1))

    with pytest.raises(NotFoundError, match='no data set "trucks"; there are: pets'):
        names.resolve("trucks")


@pytest.mark.parametrize("name", ["", "a b", "a/b", "a" * 64, "x" * 129])
def test_a_name_that_could_be_mistaken_is_refused_before_anything_is_stored(store, ledger, tmp_path, name) -> None:
    with pytest.raises(AdmissionError, match="cannot name a data set"):
        import_dataset(
            class_folders(tmp_path / "data"), store=store, snapshots=Snapshots(store), name=name, ledger=ledger
        )

    assert store.sent == 0
