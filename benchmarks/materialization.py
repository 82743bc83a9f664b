"""A data set as files: the first time against a bare loop, and the second time against the first.

Run with `python -m benchmarks materialization`.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from typing import TYPE_CHECKING

from benchmarks._objects import best, fill, folder, s3, seconds
from contracts.base import validate
from contracts.dataset import DatasetSnapshot
from contracts.limits import GIB, KIB
from runtime.materialization.cache import Cache
from runtime.store.objects import ObjectStore

if TYPE_CHECKING:
    from pathlib import Path

    from contracts.references import Pinned

COUNT, SIZE = 5_000, 20 * KIB
ROUNDS = 3


def measure() -> dict[str, float]:
    """Items a second and ratios, from local folders and from S3."""
    with folder() as root:
        local = ObjectStore.local(root / "store")
        pins = fill(local, COUNT, SIZE)
        figures = _local_files(root, local, pins) | _twice("local", root, local, pins)
        with s3(root) as (_, _, store):
            figures |= _twice("s3", root, store, fill(store, COUNT, SIZE))
    return figures | {"floor_ratio_local_to_native": 0.9, "goal_ratio_second": 0.05}


def _local_files(root: Path, store: ObjectStore, pins: list[Pinned]) -> dict[str, float]:
    def fresh(name: str) -> str:
        target = root / name
        shutil.rmtree(target, ignore_errors=True)
        target.mkdir()
        return str(target)

    def native() -> None:
        target = fresh("native")
        for at, pinned in enumerate(pins):
            source = os.open(root / "store" / pinned.bucket / pinned.key, os.O_RDONLY)
            content = os.read(source, SIZE + 1)
            os.close(source)
            assert hashlib.sha256(content).hexdigest() == pinned.sha256
            out = os.open(f"{target}/{at}", os.O_WRONLY | os.O_CREAT | os.O_EXCL)
            os.write(out, content)
            os.close(out)

    def ours() -> None:
        target = fresh("ours")
        store.for_each(
            enumerate(pins), lambda each: store.fetch_verified(each[1], f"{target}/{each[0]}", into_staging=True)
        )

    taken = best(ROUNDS, {"native": native, "ours": ours})
    return {
        "native_per_second": COUNT / taken["native"],
        "local_per_second": COUNT / taken["ours"],
        "ratio_local_to_native": taken["native"] / taken["ours"],
    }


def _twice(name: str, root: Path, store: ObjectStore, pins: list[Pinned]) -> dict[str, float]:
    snapshot = validate(
        DatasetSnapshot,
        {
            "protocol_version": DatasetSnapshot.protocol_version,
            "task_kind": "classification",
            "data_modalities": ["image"],
            "items": [{"item_id": pinned.key, "media": pinned.to_document()} for pinned in pins],
        },
    )

    def use(cache: Cache) -> None:
        with cache.materialize(snapshot, "0" * 64, store):
            pass

    first, second = [], []
    for number in range(ROUNDS):
        cache = Cache(root / f"cache-{name}-{number}", 10 * GIB)
        first.append(seconds(lambda: use(cache)))  # noqa: B023 - called at once
        second.append(seconds(lambda: use(cache)))  # noqa: B023 - called at once
    return {
        f"{name}_first_per_second": COUNT / min(first),
        f"{name}_second_per_second": COUNT / min(second),
        f"ratio_second_to_first_{name}": min(second) / min(first),
    }
