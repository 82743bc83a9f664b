"""Pinning a data set in S3: read and hash every byte, against `wrk`, which only reads; and pinning it again unchanged.

Run with `python -m benchmarks pinning`. Where `wrk` is not installed, `curl --parallel` stands in.
"""

from __future__ import annotations

import shutil
import statistics

from benchmarks._objects import curl_parallel, fill, folder, s3, seconds, wrk_per_second
from contracts.base import validate
from contracts.dataset import DatasetSourceManifest
from contracts.limits import KIB
from runtime.registry.snapshots import Snapshots

COUNT, SIZE = 10_000, 20 * KIB
ROUNDS = 3


def measure() -> dict[str, float]:
    """Objects a second, and ratios to the peer of the same run and between the two ways."""
    with folder() as root, s3(root) as (server, settings, store):
        pins = fill(store, COUNT, SIZE)
        keys = [each.key for each in pins]
        source = validate(
            DatasetSourceManifest,
            {
                "protocol_version": DatasetSourceManifest.protocol_version,
                "task_kind": "classification",
                "data_modalities": ["image"],
                "items": [{"item_id": key, "media": {"bucket": "datasets", "object_key": key}} for key in keys],
            },
        )
        bucket = settings.buckets["datasets"]

        def pin(evidence: str) -> float:
            return COUNT / seconds(lambda: Snapshots(store, evidence=root / evidence).pin(source))

        def read() -> float:
            found = wrk_per_second(server.endpoint, bucket, keys, root)
            if found is not None:
                return found
            return COUNT / seconds(lambda: curl_parallel(server.endpoint, bucket, keys, root / "curl"))

        full, again, peer = [], [], []
        for number in range(ROUNDS):
            full.append(pin(f"evidence-{number}"))
            again.append(pin(f"evidence-{number}"))
            peer.append(read())
    rates = {name: statistics.median(each) for name, each in (("full", full), ("again", again), ("peer", peer))}
    name = "wrk" if shutil.which("wrk") else "curl"
    return {
        "full_per_second": rates["full"],
        "again_per_second": rates["again"],
        f"{name}_per_second": rates["peer"],
        f"ratio_full_to_{name}": rates["full"] / rates["peer"],
        "ratio_again_to_full": rates["again"] / rates["full"],
        "floor_ratio_full_to_wrk": 0.85,
        "floor_ratio_again": 10.0,
    }
