"""What validation adds to parsing: a source manifest of 10 000 items, against orjson on the same bytes.

Run with `python -m benchmarks manifest_validation`. The goal is a ratio of at most 3.
"""

from __future__ import annotations

import hashlib
import json
import statistics
import time
from typing import Any

import orjson

from contracts.base import validate
from contracts.dataset import DatasetSnapshot, DatasetSourceManifest

ITEMS = 10_000
ROUNDS = 15
GOAL_RATIO = 3.0


def source_manifest(items: int = ITEMS, *, annotated: bool = False) -> bytes:
    """A classification data set as the control plane sends it, every reference pinned; with `annotated`, detection."""
    entries = []
    for index in range(items):
        digest = hashlib.sha256(str(index).encode()).hexdigest()
        item: dict[str, Any] = {
            "item_id": f"item-{index:08d}",
            "split": ("train", "val", "test")[index % 3],
            "media": {
                "bucket": "datasets",
                "object_key": f"vehicles/2030/{digest[:2]}/{digest[:16]}.png",
                "sha256": digest,
                "size_bytes": 20_000 + index,
            },
            "metadata": {"class_index": index % 10},
        }
        if annotated:
            item["annotation"] = item["media"] | {"bucket": "annotations", "object_key": f"labels/{digest[:16]}.txt"}
        entries.append(item)
    return json.dumps(
        {
            "protocol_version": DatasetSourceManifest.protocol_version,
            "task_kind": "classification",
            "data_modalities": ["image"],
            "annotation_kinds": ["class_index"],
            "class_names": [str(digit) for digit in range(10)],
            "items": entries,
        }
    ).encode()


def measure() -> dict[str, float]:
    """Median milliseconds of this thread's CPU time in interleaved rounds, and the ratios to orjson in the same run."""
    content, annotated = source_manifest(), source_manifest(annotated=True)
    contenders = {
        "orjson": lambda: orjson.loads(content),
        "source_manifest": lambda: validate(DatasetSourceManifest, content),
        "snapshot": lambda: validate(DatasetSnapshot, content),
        "orjson_annotated": lambda: orjson.loads(annotated),
        "snapshot_annotated": lambda: validate(DatasetSnapshot, annotated),
    }
    seconds: dict[str, list[float]] = {name: [] for name in contenders}
    for _ in range(ROUNDS):
        for name, run in contenders.items():
            started = time.thread_time()
            run()
            seconds[name].append(time.thread_time() - started)
    median = {name: statistics.median(taken) for name, taken in seconds.items()}
    compared = (("source_manifest", "orjson"), ("snapshot", "orjson"), ("snapshot_annotated", "orjson_annotated"))
    return {
        "items": float(ITEMS),
        **{f"{name}_milliseconds": taken * 1000 for name, taken in median.items()},
        **{f"ratio_{name}": _ratio(seconds[name], seconds[floor]) for name, floor in compared},
        "goal_ratio": GOAL_RATIO,
    }


def _ratio(taken: list[float], floor: list[float]) -> float:
    """The median over rounds: what else the machine does in a round slows both."""
    return statistics.median(one / other for one, other in zip(taken, floor, strict=True))
