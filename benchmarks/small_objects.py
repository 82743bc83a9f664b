"""Fetching objects, verified and written: against curl, boto3 and what hashing alone costs.

Run with `python -m benchmarks small_objects`. Small ones are 20 KiB on SeaweedFS; `far` is a server that answers after
100 ms, where the threads are the limit; `large` streams one object. obstore is compared where it is installed.
"""

from __future__ import annotations

import hashlib
import os
import resource
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import boto3
from botocore.config import Config

from benchmarks._objects import best, curl_parallel, far_server, fill, folder, s3, seconds
from contracts.limits import KIB, MIB
from contracts.references import Pinned
from runtime.store.backend import LOGICAL_BUCKETS
from runtime.store.objects import ObjectStore
from runtime.store.parallel import FAR_THREADS, for_each
from runtime.store.s3 import S3Settings
from tests.assets.s3_server import ACCESS_KEY, REGION, SECRET_KEY

if TYPE_CHECKING:
    from collections.abc import Callable

SMALL_BYTES, SMALL_COUNT, BOTO3_COUNT = 20 * KIB, 4_000, 600
MIDDLE_BYTES, MIDDLE_COUNT = 5 * MIB, 40
LARGE_BYTES = 1024 * MIB
FAR_DELAY_SECONDS, FAR_COUNT = 0.1, 6_000
ROUNDS = 3


def measure() -> dict[str, float]:
    """Objects and bytes a second, and their ratios to the peers of the same run."""
    with folder() as root, s3(root) as (server, settings, store):
        figures = _small(root, server.endpoint, settings, store)
        figures |= _streamed(root, settings, store)
    with folder() as root:
        return figures | _far(root)


def fetch_all(store: ObjectStore, pins: list[Pinned], target: Path) -> None:
    """As the cache does it: survey, then fetch into a folder of our own."""
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir()
    known = store.survey(pins)
    store.for_each(
        enumerate(pins),
        lambda each: store.fetch_verified(
            each[1], f"{target}/{each[0]}", known=known.get((each[1].bucket, each[1].key)), into_staging=True
        ),
    )


def _small(root: Path, endpoint: str, settings: S3Settings, store: ObjectStore) -> dict[str, float]:
    pins = fill(store, SMALL_COUNT, SMALL_BYTES)
    bucket = settings.buckets["datasets"]
    contents = [os.urandom(SMALL_BYTES)] * SMALL_COUNT

    def floor() -> None:
        target = root / "floor"
        shutil.rmtree(target, ignore_errors=True)
        target.mkdir()
        for at, content in enumerate(contents):
            hashlib.sha256(content).hexdigest()
            descriptor = os.open(f"{target}/{at}", os.O_WRONLY | os.O_CREAT | os.O_EXCL)
            os.write(descriptor, content)
            os.close(descriptor)

    contenders: dict[str, Callable[[], object]] = {
        "ours": lambda: fetch_all(store, pins, root / "ours"),
        "curl": lambda: curl_parallel(endpoint, bucket, [each.key for each in pins], root / "curl"),
        "boto3": lambda: _boto3(settings, pins[:BOTO3_COUNT], root / "boto3"),
        "floor": floor,
    }
    counts = {"boto3": BOTO3_COUNT}
    obstore = _obstore(settings, pins, root / "obstore")
    if obstore is not None:
        contenders["obstore"] = obstore
    taken = best(ROUNDS, contenders)
    rates = {name: counts.get(name, SMALL_COUNT) / each for name, each in taken.items()}
    figures = {f"small_{name}_per_second": rate for name, rate in rates.items()}
    figures |= {f"ratio_to_{name}": rates["ours"] / rate for name, rate in rates.items() if name != "ours"}
    return figures | {"floor_ratio_to_curl": 1.0, "floor_ratio_to_boto3": 5.0}


def _boto3(settings: S3Settings, pins: list[Pinned], target: Path) -> None:
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir()
    client = boto3.client(
        "s3",
        endpoint_url=settings.endpoint,
        aws_access_key_id=settings.access_key,
        aws_secret_access_key=settings.secret_key,
        region_name=settings.region,
        config=Config(max_pool_connections=16),
    )
    bucket = settings.buckets["datasets"]

    def fetch(pinned: Pinned) -> None:
        content = client.get_object(Bucket=bucket, Key=pinned.key)["Body"].read()
        assert hashlib.sha256(content).hexdigest() == pinned.sha256
        (target / pinned.sha256).write_bytes(content)

    for_each(pins, fetch, threads=16, most_threads=16)


def _obstore(settings: S3Settings, pins: list[Pinned], target: Path) -> Callable[[], object] | None:
    try:
        from obstore.store import S3Store  # type: ignore[import-not-found]  # noqa: PLC0415 - a peer only where it is there
    except ImportError:
        return None
    store = S3Store(
        settings.buckets["datasets"],
        endpoint=settings.endpoint,
        access_key_id=settings.access_key,
        secret_access_key=settings.secret_key,
        region=settings.region,
        client_options={"allow_http": True},
    )

    def run() -> None:
        shutil.rmtree(target, ignore_errors=True)
        target.mkdir()

        def fetch(pinned: Pinned) -> None:
            content = bytes(store.get(pinned.key).bytes())
            assert hashlib.sha256(content).hexdigest() == pinned.sha256
            (target / pinned.sha256).write_bytes(content)

        for_each(pins, fetch, threads=16, most_threads=16)

    return run


def _streamed(root: Path, settings: S3Settings, store: ObjectStore) -> dict[str, float]:
    """5 MiB objects in threads, and one of 1 GiB in a process of its own, whose memory is measured."""
    middle = []
    for index in range(MIDDLE_COUNT):
        content = os.urandom(32) + bytes(MIDDLE_BYTES - 32)
        pinned = Pinned("datasets", f"middle/{index}", hashlib.sha256(content).hexdigest(), MIDDLE_BYTES)
        store.publish_bytes(content, pinned.bucket, pinned.key)
        middle.append(pinned)
    zeros = bytes(64 * MIB)

    def hashing() -> None:
        digest = hashlib.sha256()
        for _ in range(MIDDLE_COUNT * MIDDLE_BYTES // len(zeros)):
            digest.update(zeros)

    def reading() -> None:
        store.for_each(middle, lambda pinned: store.measure(pinned.bucket, pinned.key))

    hashed = MIDDLE_COUNT * MIDDLE_BYTES // len(zeros) * len(zeros)
    taken = best(ROUNDS, {"hash": hashing, "read": reading})
    hash_rate, read_rate = hashed / taken["hash"], MIDDLE_COUNT * MIDDLE_BYTES / taken["read"]

    source = root / "large"
    with source.open("wb") as out:
        out.truncate(LARGE_BYTES)
    with source.open("rb") as opened:
        sha256 = hashlib.file_digest(opened, "sha256").hexdigest()
    large = Pinned("models", "large", sha256, LARGE_BYTES)
    upload_seconds = seconds(lambda: store.publish_file(source, large))
    said = subprocess.run(
        [sys.executable, "-m", "benchmarks.small_objects", settings.endpoint, settings.buckets["models"], sha256],
        check=True,
        capture_output=True,
        text=True,
        cwd=Path(__file__).parents[1],
    ).stdout.split()
    return {
        "hash_megabytes_per_second": hash_rate / 1e6,
        "middle_megabytes_per_second": read_rate / 1e6,
        "ratio_middle_to_hash": read_rate / hash_rate,
        "large_megabytes_per_second": LARGE_BYTES / float(said[0]) / 1e6,
        "large_memory_megabytes": float(said[1]),
        "goal_large_memory": 64.0,
        "upload_megabytes_per_second": LARGE_BYTES / upload_seconds / 1e6,
    }


def _far(root: Path) -> dict[str, float]:
    with far_server(SMALL_BYTES, FAR_DELAY_SECONDS) as endpoint:
        store = ObjectStore.s3(S3Settings(endpoint, "a", "b", "us-east-1", dict.fromkeys(LOGICAL_BUCKETS, "far")))
        sha256 = hashlib.sha256(bytes(SMALL_BYTES)).hexdigest()
        pins = [Pinned("datasets", f"objects/{index}", sha256, SMALL_BYTES) for index in range(FAR_COUNT)]
        target = root / "far"
        target.mkdir()
        taken = seconds(
            lambda: store.for_each(
                enumerate(pins),
                lambda each: store.fetch_verified(each[1], f"{target}/{each[0]}", into_staging=True),
            )
        )
    limit = FAR_THREADS / FAR_DELAY_SECONDS
    return {
        "far_per_second": FAR_COUNT / taken,
        "ratio_far_to_limit": FAR_COUNT / taken / limit,
        "floor_ratio_far": 0.8,
    }


def _read_large(endpoint: str, bucket: str, sha256: str) -> None:
    """In a process of its own: seconds, and megabytes of memory above what it had before."""
    settings = S3Settings(endpoint, ACCESS_KEY, SECRET_KEY, REGION, dict.fromkeys(LOGICAL_BUCKETS, bucket))
    store = ObjectStore.s3(settings)
    store.exists("models", "large")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    taken = seconds(lambda: store.measure("models", "large"))
    assert store.measure("models", "large").sha256 == sha256
    print(taken, (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1000)


if __name__ == "__main__":
    _read_large(*sys.argv[1:])
