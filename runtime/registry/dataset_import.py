"""Local data sets into the store: content-addressed, in parallel, nothing twice, pinned at the end."""

from __future__ import annotations

import hashlib
import os
from collections import Counter
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from contracts.base import validate
from contracts.dataset import DatasetSourceManifest
from contracts.errors import DatasetUnreadableError
from contracts.limits import CHUNK_BYTES, IMPORT_THREADS, SINGLE_PUT_BYTES
from contracts.references import Pinned
from runtime.registry.dataset_names import check_name
from runtime.registry.local_datasets import LocalFile, read_local_dataset

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from concurrent.futures import Future
    from pathlib import Path

    from runtime.ledger import Ledger
    from runtime.registry.local_datasets import LocalDataset, LocalItem
    from runtime.registry.snapshots import Snapshots
    from runtime.store.objects import ObjectStore

PREFIX: Final = "imports/"
_KNOWN_PER_ITEM: Final = 20
"""Keys listed for each item, at most: the listing saves uploads, and must not cost more than they do."""
_KNOWN_AT_LEAST: Final = 20_000
_WAITING: Final = 8 * IMPORT_THREADS  # uploads that are begun; more would hold a large data set's futures in memory


@dataclass(frozen=True, slots=True, kw_only=True)
class Imported:
    """A local data set that is stored and pinned.

    Attributes:
        sha256: digest of the snapshot.
        items: how many examples it has, and `bytes` of all their files.
        created: the snapshot is new.
        object: where the snapshot is stored.
        uploaded_items: files that were uploaded by this call; the others were stored already.
        splits: examples of each split.
        ignored_files: files that are no part of it.
    """

    sha256: str
    items: int
    bytes: int
    created: bool
    object: Pinned
    uploaded_items: int
    task_kind: str
    class_names: tuple[str, ...]
    splits: dict[str, int] = field(default_factory=dict)
    ignored_files: int = 0


def import_dataset(
    path: Path,
    *,
    store: ObjectStore,
    snapshots: Snapshots,
    name: str | None = None,
    ledger: Ledger | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Imported:
    """Afterwards the data set at `path` is stored and pinned, and `name` points at it.

    1. Read and check all of it: nothing is stored of a data set with something wrong in it.
    2. Upload each file under its digest; what the store has under that digest already is not sent again.
    3. Pin: the snapshot's own reading of every stored byte must find the digests that were uploaded.
    4. Point the name at the snapshot.

    Safe to repeat after any interruption: what was uploaded is found again.

    Args:
        path: class folders, a YOLO data set or a COCO file (`read_local_dataset` says how they are told apart).
        store: where the files go.
        snapshots: what pins them.
        name: what the snapshot shall be called; needs `ledger`.
        ledger: where names are kept.
        progress: told (items done, items in all), in this thread.

    Raises:
        NotFoundError: there is nothing at `path`.
        DatasetUnreadableError: `path` is no data set, or a file changed or vanished while it was read.
        AdmissionError: `name` is no name.
        StorageUnavailableError: safe to call again.
    """
    if name is not None:
        check_name(name)
    local = read_local_dataset(path)
    references, uploaded = _upload(local, store, progress)
    source = _source_manifest(local, references)
    pinned = snapshots.pin(source)
    if name is not None and ledger is not None:
        ledger.set_dataset_name(name, pinned.sha256, pinned.object)
    return Imported(
        sha256=pinned.sha256,
        items=pinned.items,
        bytes=pinned.bytes,
        created=pinned.created,
        object=pinned.object,
        uploaded_items=uploaded,
        task_kind=local.task_kind,
        class_names=local.class_names,
        splits=dict(Counter(item.split for item in local.items)),
        ignored_files=local.ignored_files,
    )


@dataclass(frozen=True, slots=True)
class _Stored:
    """An item's files in the store."""

    media: Pinned
    annotation: Pinned | None
    uploads: int


def _upload(
    local: LocalDataset, store: ObjectStore, progress: Callable[[int, int], None] | None
) -> tuple[list[_Stored], int]:
    uploader = _Uploader(store, local)
    stored: list[_Stored | None] = [None] * len(local.items)
    uploaded = done = 0
    pool = ThreadPoolExecutor(IMPORT_THREADS, thread_name_prefix="import")
    try:
        waiting: dict[Future[_Stored], int] = {}
        remaining: Iterator[tuple[int, LocalItem]] = enumerate(local.items)
        while True:
            for index, item in islice(remaining, _WAITING - len(waiting)):
                waiting[pool.submit(uploader.store, item)] = index
            if not waiting:
                break
            for future in wait(waiting, return_when=FIRST_COMPLETED).done:
                found = future.result()
                stored[waiting.pop(future)] = found
                uploaded += found.uploads
                done += 1
            if progress:
                progress(done, len(local.items))
    finally:
        pool.shutdown(cancel_futures=True)
    return [found for found in stored if found is not None], uploaded


class _Uploader:
    """Stores files under their digests. Used by several threads at once."""

    def __init__(self, store: ObjectStore, local: LocalDataset) -> None:
        self._store = store
        self._annotation_suffix = local.annotation_suffix
        limit = max(_KNOWN_AT_LEAST, _KNOWN_PER_ITEM * len(local.items))
        buckets = (
            ["datasets", "annotations"] if any(item.annotation is not None for item in local.items) else ["datasets"]
        )
        self._known = {(bucket, key) for bucket in buckets for key in islice(store.list(bucket, PREFIX), limit)}

    def store(self, item: LocalItem) -> _Stored:
        media, uploads = self._store_file("datasets", item.media)
        if item.annotation is None:
            return _Stored(media, None, uploads)
        if isinstance(item.annotation, LocalFile):
            annotation, more = self._store_file("annotations", item.annotation)
        else:
            annotation, more = self._store_bytes("annotations", item.annotation, self._annotation_suffix)
        return _Stored(media, annotation, uploads + more)

    def _store_file(self, bucket: str, file: LocalFile) -> tuple[Pinned, int]:
        """Small files are read once; large ones once to name them and once to send them, never held in memory."""
        try:
            descriptor = os.open(file.path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
            with open(descriptor, "rb", buffering=0) as source:  # noqa: PTH123 - a descriptor, no path
                if os.fstat(source.fileno()).st_size <= SINGLE_PUT_BYTES:
                    content = source.read(SINGLE_PUT_BYTES + 1)
                    if len(content) <= SINGLE_PUT_BYTES:
                        return self._store_bytes(bucket, content, file.suffix)
                    source.seek(0)  # it grew
                digest, size = hashlib.sha256(), 0
                while chunk := source.read(CHUNK_BYTES):
                    digest.update(chunk)
                    size += len(chunk)
        except OSError as error:
            raise DatasetUnreadableError(
                f"{file.path} cannot be read any more: {error.strerror}",
                hint="Leave the data set alone while it is imported, then repeat: what was uploaded is kept.",
                context={"path": str(file.path)},
            ) from error
        pinned = Pinned(bucket, _key(digest.hexdigest(), file.suffix), digest.hexdigest(), size)
        if (bucket, pinned.key) in self._known:
            return pinned, 0
        return pinned, int(self._store.publish_file(file.path, pinned))

    def _store_bytes(self, bucket: str, content: bytes, suffix: str) -> tuple[Pinned, int]:
        sha256 = hashlib.sha256(content).hexdigest()
        pinned = Pinned(bucket, _key(sha256, suffix), sha256, len(content))
        if (bucket, pinned.key) in self._known:
            return pinned, 0
        return pinned, int(self._store.publish_bytes(content, bucket, pinned.key))


def _key(sha256: str, suffix: str) -> str:
    return f"{PREFIX}{sha256}{suffix}"


def _source_manifest(local: LocalDataset, stored: list[_Stored]) -> DatasetSourceManifest:
    items: list[dict[str, Any]] = []
    for item, found in zip(local.items, stored, strict=True):
        entry = {
            "item_id": item.item_id,
            "split": item.split,
            "media": found.media.to_document(),
            "metadata": item.metadata,
        }
        if found.annotation is not None:
            entry["annotation"] = found.annotation.to_document()
        items.append(entry)
    return validate(
        DatasetSourceManifest,
        {
            "protocol_version": "training-dataset-source-manifest/v1",
            "task_kind": local.task_kind,
            "data_modalities": list(local.data_modalities),
            "annotation_kinds": list(local.annotation_kinds),
            "class_names": list(local.class_names),
            "items": items,
        },
    )
