"""Small data sets in a store, for tests of everything that reads one."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from contracts.base import validate
from contracts.dataset import DatasetSourceManifest
from runtime.registry.snapshots import PinnedSnapshot, Snapshots

if TYPE_CHECKING:
    from collections.abc import Mapping

    from runtime.store.objects import ObjectStore


def content_of(name: str, size: int = 2_000) -> bytes:
    """Bytes that differ from name to name."""
    return (hashlib.sha256(name.encode()).digest() * (size // 32 + 1))[:size]


def source_of(
    store: ObjectStore, files: Mapping[str, bytes], *, annotations: Mapping[str, bytes] | None = None
) -> DatasetSourceManifest:
    """A source manifest of one item a file, its bytes uploaded; an annotation belongs to the file of the same stem.

    Args:
        store: where the bytes go.
        files: by key in `datasets`.
        annotations: by key in `annotations`.
    """
    for key, content in files.items():
        store.publish_bytes(content, "datasets", key)
    beside = {}
    for key, content in (annotations or {}).items():
        store.publish_bytes(content, "annotations", key)
        beside[key.rpartition(".")[0]] = key
    items = []
    for key in files:
        annotation = beside.get(key.rpartition(".")[0])
        items.append(
            {
                "item_id": f"item {key}",
                "split": "train",
                "media": {"bucket": "datasets", "object_key": key},
                "annotation": {"bucket": "annotations", "object_key": annotation} if annotation else None,
                "metadata": {"label": key[0]},
            }
        )
    return validate(
        DatasetSourceManifest,
        {
            "protocol_version": "training-dataset-source-manifest/v1",
            "task_kind": "classification",
            "data_modalities": ["image"],
            "annotation_kinds": [],
            "class_names": ["a", "b"],
            "items": items,
        },
    )


def pinned_dataset(
    store: ObjectStore, files: Mapping[str, bytes], *, annotations: Mapping[str, bytes] | None = None
) -> PinnedSnapshot:
    """The same, pinned."""
    return Snapshots(store).pin(source_of(store, files, annotations=annotations))
