"""The cache: right bytes, copied once, bounded, and never believed after somebody touched it."""

from __future__ import annotations

import hashlib
import os
import shutil
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from contracts.base import validate
from contracts.dataset import DatasetManifest
from contracts.errors import DigestMismatchError, ObjectMissingError, PolicyError, StorageUnavailableError
from contracts.limits import GIB
from contracts.references import Pinned
from runtime.materialization.cache import Cache, MaterializationProgress
from tests.assets.datasets import content_of, pinned_dataset

if TYPE_CHECKING:
    from collections.abc import Iterator

    from runtime.registry.snapshots import PinnedSnapshot
    from runtime.store.objects import ObjectStore

FILES = {f"photos/{index}.png": content_of(str(index), 1_000) for index in range(10)}
LABELS = {"photos/3.txt": b"1 2 3"}


@pytest.fixture
def cache(tmp_path: Path) -> Cache:
    return Cache(tmp_path / "cache", GIB)


def materialized(cache: Cache, pinned: PinnedSnapshot, store: ObjectStore):
    return cache.materialize(pinned.snapshot, pinned.sha256, store)


def files_below(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def objects_in(cache: Cache) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (cache.root / "objects").rglob("*") if path.is_file()}


class CountingStore:
    """A real store that counts what is fetched from it."""

    def __init__(self, store: ObjectStore) -> None:
        self._store, self.fetched = store, 0
        self._lock = threading.Lock()

    def fetch_verified(self, *args, **kwargs) -> None:
        with self._lock:
            self.fetched += 1
        self._store.fetch_verified(*args, **kwargs)

    def __getattr__(self, name: str):
        return getattr(self._store, name)


def test_a_dataset_lies_where_its_manifest_says_byte_for_byte(any_store: ObjectStore, cache: Cache) -> None:
    pinned = pinned_dataset(any_store, FILES, annotations=LABELS)

    with materialized(cache, pinned, any_store) as dataset:
        found = {
            item["item_id"]: (dataset.tree.parent / item["media_path"]).read_bytes()
            for item in dataset.manifest["items"]
        }
        label = (dataset.tree.parent / dataset.manifest["items"][3]["annotation_path"]).read_bytes()

    assert found == {f"item {key}": content for key, content in FILES.items()}
    assert label == b"1 2 3"


def test_the_manifest_is_a_valid_one(local_store: ObjectStore, cache: Cache) -> None:
    pinned = pinned_dataset(local_store, FILES, annotations=LABELS)

    with materialized(cache, pinned, local_store) as dataset:
        manifest = validate(DatasetManifest, dataset.manifest)

    assert manifest.to_document() == dataset.manifest


def test_a_second_materialization_fetches_nothing(any_store: ObjectStore, cache: Cache) -> None:
    pinned = pinned_dataset(any_store, FILES)
    store = CountingStore(any_store)
    with materialized(cache, pinned, store) as first:
        pass

    with materialized(cache, pinned, store) as second:
        pass

    assert (first.downloaded_items, first.cached_items) == (10, 0)
    assert (second.downloaded_items, second.cached_items, store.fetched) == (0, 10, 10)


def test_a_second_materialization_copies_nothing(local_store: ObjectStore, cache: Cache) -> None:
    pinned = pinned_dataset(local_store, FILES)
    with materialized(cache, pinned, local_store) as dataset:
        before = dataset.fingerprint()

    with materialized(cache, pinned, local_store) as dataset:
        assert dataset.fingerprint() == before


def test_a_changed_dataset_fetches_only_what_is_new(local_store: ObjectStore, cache: Cache) -> None:
    with materialized(cache, pinned_dataset(local_store, FILES), local_store):
        pass
    larger = pinned_dataset(local_store, {**FILES, "photos/new.png": b"new"})

    with materialized(cache, larger, local_store) as dataset:
        assert (dataset.downloaded_items, dataset.cached_items, dataset.downloaded_bytes) == (1, 10, 3)


def test_the_cache_keeps_each_content_once(local_store: ObjectStore, cache: Cache) -> None:
    twins = {f"photos/{index}.png": b"all the same" for index in range(50)}

    with materialized(cache, pinned_dataset(local_store, twins), local_store) as dataset:
        assert dataset.items == 50

    assert list(objects_in(cache).values()) == [b"all the same"]


def test_many_threads_share_one_materialization(any_store: ObjectStore, cache: Cache) -> None:
    pinned = pinned_dataset(any_store, FILES)
    store = CountingStore(any_store)
    together = threading.Barrier(6)

    def use(_: int) -> dict[str, bytes]:
        together.wait()
        with materialized(cache, pinned, store) as dataset:
            return files_below(dataset.tree)

    with ThreadPoolExecutor(6) as threads:
        seen = list(threads.map(use, range(6)))

    assert all(files == seen[0] for files in seen)
    assert (len(seen[0]), store.fetched) == (10, 10)


def test_a_damaged_object_in_the_store_is_refused_and_no_tree_appears(any_store: ObjectStore, cache: Cache) -> None:
    pinned = pinned_dataset(any_store, FILES)
    any_store._backend.delete("datasets", "photos/4.png")
    any_store.publish_bytes(b"!" * 1_000, "datasets", "photos/4.png")

    with pytest.raises(DigestMismatchError), materialized(cache, pinned, any_store):
        pass

    assert list((cache.root / "trees").iterdir()) == []
    assert list((cache.root / "staging").iterdir()) == []


def test_a_missing_object_in_the_store_is_named(any_store: ObjectStore, cache: Cache) -> None:
    pinned = pinned_dataset(any_store, FILES)
    any_store._backend.delete("datasets", "photos/4.png")

    with pytest.raises(ObjectMissingError, match=r"photos/4\.png"), materialized(cache, pinned, any_store):
        pass


def test_a_repaired_store_continues_from_what_was_fetched(local_store: ObjectStore, cache: Cache) -> None:
    pinned = pinned_dataset(local_store, FILES)
    local_store._backend.delete("datasets", "photos/9.png")
    with pytest.raises(ObjectMissingError), materialized(cache, pinned, local_store):
        pass
    local_store.publish_bytes(FILES["photos/9.png"], "datasets", "photos/9.png")

    with materialized(cache, pinned, local_store) as dataset:
        assert (dataset.downloaded_items, dataset.cached_items) == (1, 9)


# --- what a package may do to the files ------------------------------------------------------------------------------


def overwrite_in_place(file: Path) -> None:
    """The worst case: same length, times set back, through the hard link that the cache shares."""
    before = file.stat()
    file.chmod(0o644)
    with file.open("r+b") as opened:
        opened.write(bytes(before.st_size))
    file.chmod(0o444)
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))


def replace_by_another(file: Path) -> None:
    content = bytes(file.stat().st_size)
    file.unlink()
    file.write_bytes(content)


def replace_by_a_link(file: Path) -> None:
    file.unlink()
    file.symlink_to("/etc/hostname")


def replace_by_a_folder(file: Path) -> None:
    file.unlink()
    file.mkdir()


def replace_by_a_pipe(file: Path) -> None:
    file.unlink()
    os.mkfifo(file)


TAMPERINGS = [
    overwrite_in_place,
    Path.unlink,
    replace_by_another,
    replace_by_a_link,
    replace_by_a_folder,
    replace_by_a_pipe,
]


def first_file(tree: Path) -> Path:
    return min(path for path in tree.rglob("*") if path.is_file())


@pytest.mark.parametrize("tamper", TAMPERINGS)
def test_a_tampered_file_is_named(local_store: ObjectStore, cache: Cache, tamper) -> None:
    with materialized(cache, pinned_dataset(local_store, FILES), local_store) as dataset:
        before = dataset.fingerprint()
        tamper(first_file(dataset.tree))

        assert dataset.changed_files(before) == ["00000000_item_photos_0.png/0.png"]


@pytest.mark.parametrize("tamper", TAMPERINGS)
def test_the_next_execution_gets_the_right_bytes_after_a_tampering_that_nobody_reported(
    local_store: ObjectStore, cache: Cache, tamper
) -> None:
    pinned = pinned_dataset(local_store, FILES)
    with materialized(cache, pinned, local_store) as dataset:
        tamper(first_file(dataset.tree))

    with materialized(cache, pinned, local_store) as dataset:
        assert sorted(files_below(dataset.tree).values()) == sorted(FILES.values())


@pytest.mark.parametrize("tamper", TAMPERINGS)
def test_another_dataset_that_shares_a_tampered_object_gets_the_right_bytes(
    local_store: ObjectStore, cache: Cache, tamper
) -> None:
    with materialized(cache, pinned_dataset(local_store, FILES), local_store) as dataset:
        tamper(first_file(dataset.tree))
    other = pinned_dataset(local_store, {"photos/0.png": FILES["photos/0.png"]})

    with materialized(cache, other, local_store) as dataset:
        assert first_file(dataset.tree).read_bytes() == FILES["photos/0.png"]


def test_a_reported_tampering_leaves_no_wrong_object(local_store: ObjectStore, cache: Cache) -> None:
    with materialized(cache, pinned_dataset(local_store, FILES), local_store) as dataset:
        before = dataset.fingerprint()
        overwrite_in_place(first_file(dataset.tree))
        dataset.changed_files(before)

    assert {name for name, content in objects_in(cache).items() if hashlib.sha256(content).hexdigest() != name} == set()


def test_an_added_file_is_named_and_gone_for_the_next_execution(local_store: ObjectStore, cache: Cache) -> None:
    pinned = pinned_dataset(local_store, FILES)
    with materialized(cache, pinned, local_store) as dataset:
        before = dataset.fingerprint()
        (first_file(dataset.tree).parent / "extra").write_bytes(b"poison")
        (dataset.tree / "extra").mkdir()
        assert dataset.changed_files(before) == ["extra", "00000000_item_photos_0.png/extra"]

    with materialized(cache, pinned, local_store) as dataset:
        assert len(files_below(dataset.tree)) == 10
        assert not (dataset.tree / "extra").exists()


def test_a_removed_tree_is_named_and_made_again(local_store: ObjectStore, cache: Cache) -> None:
    pinned = pinned_dataset(local_store, FILES)
    with materialized(cache, pinned, local_store) as dataset:
        before = dataset.fingerprint()
        shutil.rmtree(dataset.tree)
        assert len(dataset.changed_files(before)) == 21  # the root, ten folders, ten files

    with materialized(cache, pinned, local_store) as dataset:
        assert len(files_below(dataset.tree)) == 10


def test_a_folder_swapped_for_a_link_is_not_followed(local_store: ObjectStore, cache: Cache, tmp_path: Path) -> None:
    pinned = pinned_dataset(local_store, FILES)
    (tmp_path / "elsewhere").mkdir()
    with materialized(cache, pinned, local_store) as dataset:
        shutil.rmtree(dataset.tree)
        dataset.tree.symlink_to(tmp_path / "elsewhere")

    with materialized(cache, pinned, local_store) as dataset:
        assert not dataset.tree.is_symlink()
        assert len(files_below(dataset.tree)) == 10
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_files_that_nobody_touched_are_unchanged(local_store: ObjectStore, cache: Cache) -> None:
    with materialized(cache, pinned_dataset(local_store, FILES), local_store) as dataset:
        before = dataset.fingerprint()
        first_file(dataset.tree).read_bytes()

        assert dataset.changed_files(before) == []


def test_another_dataset_linking_the_same_objects_is_no_change(local_store: ObjectStore, cache: Cache) -> None:
    with materialized(cache, pinned_dataset(local_store, FILES), local_store) as dataset:
        before = dataset.fingerprint()
        with materialized(cache, pinned_dataset(local_store, {**FILES, "photos/x": b"x"}), local_store):
            assert dataset.changed_files(before) == []


def test_a_touched_file_with_the_same_bytes_is_no_change(local_store: ObjectStore, cache: Cache) -> None:
    with materialized(cache, pinned_dataset(local_store, FILES), local_store) as dataset:
        before = dataset.fingerprint()
        first_file(dataset.tree).touch()

        assert dataset.changed_files(before) == []


def test_after_a_restart_of_the_machine_every_file_is_hashed_again(local_store: ObjectStore, cache: Cache) -> None:
    """Sizes and times may have reached the disk without the bytes; only the seal's boot id tells."""
    pinned = pinned_dataset(local_store, FILES)
    with materialized(cache, pinned, local_store) as dataset:
        overwrite_in_place(first_file(dataset.tree))
        seal = dataset.tree.parent / "seal"
        layout_as_it_is_now = dataset.fingerprint().numbers.tobytes()
    seal.write_bytes(b"mtr-seal-1 another-boot\n" + layout_as_it_is_now)

    with materialized(cache, pinned, local_store) as dataset:
        assert first_file(dataset.tree).read_bytes() == FILES["photos/0.png"]


@pytest.mark.parametrize("content", [b"", b"garbage", b"mtr-seal-1 x\n123"])
def test_a_tree_with_an_unreadable_seal_is_made_again(local_store: ObjectStore, cache: Cache, content: bytes) -> None:
    pinned = pinned_dataset(local_store, FILES)
    with materialized(cache, pinned, local_store) as dataset:
        seal = dataset.tree.parent / "seal"
    seal.write_bytes(content)

    with materialized(cache, pinned, local_store) as dataset:
        assert len(files_below(dataset.tree)) == 10


# --- single objects ---------------------------------------------------------------------------------------------------


def stored_object(store: ObjectStore, content: bytes = b"a package") -> Pinned:
    pinned = Pinned(
        "default", f"o/{hashlib.sha256(content).hexdigest()}", hashlib.sha256(content).hexdigest(), len(content)
    )
    store.publish_bytes(content, pinned.bucket, pinned.key)
    return pinned


def test_an_object_is_fetched_once(any_store: ObjectStore, cache: Cache) -> None:
    pinned = stored_object(any_store)
    store = CountingStore(any_store)

    for _ in range(2):
        with cache.object_path(pinned, store) as path:
            assert path.read_bytes() == b"a package"

    assert store.fetched == 1


def test_a_tampered_object_is_fetched_again(local_store: ObjectStore, cache: Cache) -> None:
    pinned = stored_object(local_store)
    with cache.object_path(pinned, local_store) as path:
        overwrite_in_place(path)

    with cache.object_path(pinned, local_store) as path:
        assert path.read_bytes() == b"a package"


def test_an_object_that_is_not_what_was_pinned_does_not_enter_the_cache(local_store: ObjectStore, cache: Cache) -> None:
    local_store.publish_bytes(b"another", "default", "o/x")
    wrong = Pinned("default", "o/x", hashlib.sha256(b"expected").hexdigest(), 8)

    with pytest.raises(DigestMismatchError), cache.object_path(wrong, local_store):
        pass

    assert objects_in(cache) == {}


def test_many_threads_share_one_object(any_store: ObjectStore, cache: Cache) -> None:
    pinned = stored_object(any_store)
    store = CountingStore(any_store)
    together = threading.Barrier(6)

    def use(_: int) -> bytes:
        together.wait()
        with cache.object_path(pinned, store) as path:
            return path.read_bytes()

    with ThreadPoolExecutor(6) as threads:
        assert set(threads.map(use, range(6))) == {b"a package"}
    assert store.fetched == 1


# --- the bound --------------------------------------------------------------------------------------------------------


def dataset_of(store: ObjectStore, name: str, files: int = 4) -> PinnedSnapshot:
    return pinned_dataset(store, {f"{name}/{index}": content_of(f"{name}{index}", 1_000) for index in range(files)})


def bytes_in(cache: Cache) -> int:
    return sum(map(len, objects_in(cache).values()))


def trees_in(cache: Cache) -> set[str]:
    return {path.name for path in (cache.root / "trees").iterdir()}


def test_what_was_not_used_for_longest_goes_first(local_store: ObjectStore, tmp_path: Path) -> None:
    cache = Cache(tmp_path / "cache", 12_000)
    old, kept, new = (dataset_of(local_store, name, 5) for name in ("old", "kept", "new"))
    for at, dataset in enumerate((kept, old, kept)):
        with materialized(cache, dataset, local_store) as used:
            marker = used.tree.parent / "used"
        os.utime(marker, (at + 1, at + 1))

    with materialized(cache, new, local_store):
        pass

    assert trees_in(cache) == {kept.sha256, new.sha256}
    assert bytes_in(cache) <= 12_000


def test_the_bound_holds_over_many_datasets(local_store: ObjectStore, tmp_path: Path) -> None:
    cache = Cache(tmp_path / "cache", 10_000)

    for number in range(8):
        with materialized(cache, dataset_of(local_store, f"d{number}"), local_store) as dataset:
            assert len(files_below(dataset.tree)) == 4
        assert bytes_in(cache) <= 10_000


def test_the_bound_holds_over_many_objects(local_store: ObjectStore, tmp_path: Path) -> None:
    cache = Cache(tmp_path / "cache", 10_000)

    for number in range(8):
        with cache.object_path(stored_object(local_store, content_of(str(number), 3_000)), local_store):
            pass
        assert bytes_in(cache) <= 10_000


def test_what_is_in_use_is_never_removed(local_store: ObjectStore, tmp_path: Path) -> None:
    cache = Cache(tmp_path / "cache", 10_000)
    used = dataset_of(local_store, "used")
    with materialized(cache, used, local_store) as dataset:
        for number in range(4):
            with materialized(cache, dataset_of(local_store, f"d{number}"), local_store):
                pass

        assert len(files_below(dataset.tree)) == 4
    assert used.sha256 in trees_in(cache)


def test_a_cache_full_of_used_data_says_so(local_store: ObjectStore, tmp_path: Path) -> None:
    cache = Cache(tmp_path / "cache", 5_000)
    first, second = dataset_of(local_store, "first"), dataset_of(local_store, "second")

    with (
        materialized(cache, first, local_store),
        pytest.raises(StorageUnavailableError, match="in use by other executions"),
        materialized(cache, second, local_store),
    ):
        pass


def test_a_dataset_larger_than_the_cache_names_the_setting(local_store: ObjectStore, tmp_path: Path) -> None:
    cache = Cache(tmp_path / "cache", 3_999)

    with (
        pytest.raises(PolicyError, match="cache_max_bytes is 3999"),
        materialized(cache, dataset_of(local_store, "d"), local_store),
    ):
        pass


def test_an_object_in_use_is_never_removed(local_store: ObjectStore, tmp_path: Path) -> None:
    cache = Cache(tmp_path / "cache", 10_000)
    with cache.object_path(stored_object(local_store, content_of("used", 3_000)), local_store) as path:
        for number in range(5):
            with cache.object_path(stored_object(local_store, content_of(str(number), 3_000)), local_store):
                pass

        assert path.read_bytes() == content_of("used", 3_000)
        assert path.exists()


# --- processes ----------------------------------------------------------------------------------------------------------

CHILD = """
import sys
from pathlib import Path
from runtime.materialization.cache import Cache
from runtime.registry.snapshots import Snapshots
from runtime.store.objects import ObjectStore

root, sha256, then = Path(sys.argv[1]), sys.argv[2], sys.argv[3]
store = ObjectStore.local(root / "store")
fetch = ObjectStore.fetch_verified
fetched = 0

def slow(self, *args, **kwargs):
    global fetched
    fetched += 1
    if then == "stop in the middle" and fetched == 5:
        print("in the middle", flush=True)
        sys.stdin.read()
    fetch(self, *args, **kwargs)

ObjectStore.fetch_verified = slow
found = Snapshots(store).find(sha256)
with Cache(root / "cache", 10**9).materialize(found.snapshot, sha256, store) as dataset:
    print(dataset.downloaded_items, dataset.cached_items, flush=True)
    if then == "stay":
        sys.stdin.read()
"""


@pytest.fixture
def children() -> Iterator[list[subprocess.Popen[str]]]:
    started: list[subprocess.Popen[str]] = []
    yield started
    for child in started:
        with child:  # closes its pipes and waits
            child.kill()


def start(
    children: list[subprocess.Popen[str]], root: Path, pinned: PinnedSnapshot, then: str
) -> subprocess.Popen[str]:
    child = subprocess.Popen(
        [sys.executable, "-c", CHILD, str(root), pinned.sha256, then],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[3],
    )
    children.append(child)
    return child


def said(child: subprocess.Popen[str]) -> str:
    assert child.stdout is not None
    return child.stdout.readline().strip()


def test_a_killed_process_leaves_no_half_tree_and_what_it_fetched_is_kept(
    local_store: ObjectStore, tmp_path: Path, children
) -> None:
    pinned = pinned_dataset(local_store, FILES)
    child = start(children, tmp_path, pinned, "stop in the middle")
    assert said(child) == "in the middle"
    child.send_signal(signal.SIGKILL)
    child.wait()
    cache = Cache(tmp_path / "cache", GIB)

    assert trees_in(cache) == set()
    with materialized(cache, pinned, local_store) as dataset:
        assert (dataset.downloaded_items, dataset.cached_items) == (6, 4)
        assert len(files_below(dataset.tree)) == 10
    assert list((cache.root / "staging").iterdir()) == []


def test_a_second_process_waits_for_the_first_and_fetches_nothing(
    local_store: ObjectStore, tmp_path: Path, children
) -> None:
    pinned = pinned_dataset(local_store, FILES)
    first = start(children, tmp_path, pinned, "stop in the middle")
    assert said(first) == "in the middle"
    second = start(children, tmp_path, pinned, "end")
    assert first.stdin is not None
    first.stdin.close()

    assert [said(first), said(second)] == ["10 0", "0 10"]


def test_the_second_process_takes_over_when_the_first_is_killed(
    local_store: ObjectStore, tmp_path: Path, children
) -> None:
    pinned = pinned_dataset(local_store, FILES)
    first = start(children, tmp_path, pinned, "stop in the middle")
    assert said(first) == "in the middle"
    second = start(children, tmp_path, pinned, "end")
    first.kill()

    assert said(second) == "6 4"


def test_a_tree_in_use_by_another_process_is_not_removed(local_store: ObjectStore, tmp_path: Path, children) -> None:
    used = dataset_of(local_store, "used")
    child = start(children, tmp_path, used, "stay")
    assert said(child) == "4 0"
    cache = Cache(tmp_path / "cache", 10_000)

    for number in range(4):
        with materialized(cache, dataset_of(local_store, f"d{number}"), local_store):
            pass

    assert used.sha256 in trees_in(cache)


def test_a_tree_whose_user_was_killed_can_be_removed(local_store: ObjectStore, tmp_path: Path, children) -> None:
    used = dataset_of(local_store, "used")
    child = start(children, tmp_path, used, "stay")
    assert said(child) == "4 0"
    child.kill()
    child.wait()
    cache = Cache(tmp_path / "cache", 5_000)

    with materialized(cache, dataset_of(local_store, "next"), local_store):
        assert used.sha256 not in trees_in(cache)


def test_progress_is_told(local_store: ObjectStore, cache: Cache) -> None:
    told: list[MaterializationProgress] = []
    pinned = pinned_dataset(local_store, FILES)

    with cache.materialize(pinned.snapshot, pinned.sha256, local_store, on_progress=told.append):
        pass

    assert (told[-1].done_items, told[-1].total_items, told[-1].downloaded_bytes) == (10, 10, 10_000)
