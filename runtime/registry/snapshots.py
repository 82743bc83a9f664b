"""Dataset snapshots: a data set whose every object is pinned, named by the digest of its own description."""

from __future__ import annotations

import hashlib
import re
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from contracts.base import SHA256_PATTERN, validate
from contracts.dataset import DatasetSnapshot
from contracts.errors import DigestMismatchError, NotFoundError, ObjectMissingError, RuntimeFault
from contracts.limits import MAX_SNAPSHOT_BYTES
from contracts.references import Pinned
from contracts.strict_json import dump_canonical
from runtime.registry.pin_evidence import PinEvidence

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
    from pathlib import Path

    from contracts.dataset import DatasetSourceManifest
    from runtime.store.backend import ObjectStat
    from runtime.store.objects import ObjectStore

BUCKET: Final = "default"
PREFIX: Final = "training-code-runtime/dataset-snapshots/"

_NAMED_AT_MOST: Final = 20  # in a message; the context holds all
_SHA256: Final = re.compile(SHA256_PATTERN)

Address = tuple[str, str]
"""Bucket and key."""


@dataclass(frozen=True, slots=True)
class PinnedSnapshot:
    """A stored snapshot.

    Attributes:
        sha256: the digest of its stored bytes: its name.
        items: how many examples it has.
        bytes: the size of all objects it refers to, each counted once.
        created: whether the call that returned this stored it.
        object: where it is stored.
        snapshot: what it says.
        read_objects: how many objects were read to pin it; the others were known to be unchanged.
    """

    sha256: str
    items: int
    bytes: int
    created: bool
    object: Pinned
    snapshot: DatasetSnapshot
    read_objects: int = 0


@dataclass(frozen=True, slots=True)
class Damage:
    """An object that is no longer what was pinned."""

    item_id: str
    bucket: str
    key: str
    code: str
    message: str


@dataclass(frozen=True, slots=True)
class VerifyReport:
    """What reading every byte of a snapshot showed."""

    sha256: str
    items: int
    objects: int
    bytes: int
    damaged: tuple[Damage, ...]

    @property
    def intact(self) -> bool:
        """Whether every object is what was pinned."""
        return not self.damaged


@dataclass(frozen=True, slots=True)
class PinProgress:
    """How far pinning or verifying has come."""

    done_objects: int
    total_objects: int
    read_bytes: int


class Snapshots:
    """The snapshots of one store.

    Args:
        store: where they and their objects are.
        evidence: a file of this machine that remembers digests of unchanged objects; without one every pin reads
            every byte.
    """

    def __init__(self, store: ObjectStore, evidence: Path | None = None) -> None:
        self._store = store
        self._evidence = PinEvidence(evidence, store.identity) if evidence else None

    def pin(
        self, source: DatasetSourceManifest, *, on_progress: Callable[[PinProgress], None] | None = None
    ) -> PinnedSnapshot:
        """Stores the snapshot of `source`; the same content under the same references is the same snapshot.

        1. Ask the store what it knows of every object; name all that are missing.
        2. Take the digest of what was read before and looks unchanged.
        3. Read and hash every byte of the rest, each tied to the etag that was seen first.
        4. Compare with what the source itself pins; name all differences.
        5. Publish the description under its own digest.

        Args:
            source: references, pinned or not.
            on_progress: called a few times a second from this thread.

        Raises:
            ObjectMissingError: references lead nowhere; `context["missing"]` lists them.
            DigestMismatchError: objects differ from what the source says of them; `context["different"]` lists them.
            ObjectChangedError: an object was overwritten meanwhile.
        """
        document = source.to_document()
        stated = _stated(document["items"])
        stats = self._stats(stated)
        _require_all(stated, stats)
        pinned = self._unchanged(stats)
        to_read = [address for address in stats if address not in pinned]
        pinned.update(self._read(to_read, stats, on_progress))
        _require_as_stated(stated, pinned)
        for item in document["items"]:
            for name in ("media", "annotation"):
                reference = item.get(name)
                if reference is not None:
                    item[name] = pinned[reference["bucket"], reference["object_key"]].to_document()
        snapshot = validate(DatasetSnapshot, document)
        content = dump_canonical(document)
        stored = _stored_at(hashlib.sha256(content).hexdigest(), len(content))
        created = self._store.publish_bytes(content, stored.bucket, stored.key)
        return PinnedSnapshot(
            sha256=stored.sha256,
            items=len(document["items"]),
            bytes=sum(found.size_bytes for found in pinned.values()),
            created=created,
            object=stored,
            snapshot=snapshot,
            read_objects=len(to_read),
        )

    def load(self, pinned: Pinned) -> DatasetSnapshot:
        """The snapshot whose stored bytes are `pinned`.

        Raises:
            DigestMismatchError: other bytes are stored there.
            ObjectMissingError: nothing is stored there.
            InvalidDocumentError: it is no snapshot.
        """
        return validate(DatasetSnapshot, self._store.read_verified(pinned, max_bytes=MAX_SNAPSHOT_BYTES))

    def find(self, sha256: str) -> PinnedSnapshot:
        """The stored snapshot of this digest.

        Raises:
            NotFoundError: there is none.
            DigestMismatchError: its stored bytes were overwritten.
        """
        if not _SHA256.fullmatch(sha256):
            raise _no_snapshot(sha256[:80])
        try:
            stored = _stored_at(sha256, self._store.stat(BUCKET, f"{PREFIX}{sha256}.json").size_bytes)
            snapshot = self.load(stored)
        except ObjectMissingError as error:
            raise _no_snapshot(sha256) from error
        sizes = {address: pinned.size_bytes for _, address, pinned in _references(snapshot.items)}
        return PinnedSnapshot(
            sha256=sha256,
            items=len(snapshot.items),
            bytes=sum(sizes.values()),
            created=False,
            object=stored,
            snapshot=snapshot,
        )

    def list(self) -> tuple[Pinned, ...]:
        """Where every snapshot is stored, by digest. What lies there under another name is no snapshot."""
        found = [
            _stored_at(name, stat.size_bytes)
            for key, stat in self._store.list_stats(BUCKET, PREFIX)
            if _SHA256.fullmatch(name := key.removeprefix(PREFIX).removesuffix(".json"))
        ]
        return tuple(sorted(found, key=lambda stored: stored.sha256))

    def verify(self, sha256: str, *, on_progress: Callable[[PinProgress], None] | None = None) -> VerifyReport:
        """Reads every byte of every object again, whatever was known of it.

        Raises:
            NotFoundError: there is no such snapshot.
        """
        found = self.find(sha256)
        first_user: dict[Address, str] = {}
        expected: dict[Address, Pinned] = {}
        for item_id, address, pinned in _references(found.snapshot.items):
            first_user.setdefault(address, item_id)
            expected[address] = pinned
        damaged: list[Damage] = []
        counting = _Counting(len(expected), on_progress)

        def check(address: Address) -> None:
            pinned = expected[address]
            try:
                measured = self._store.measure(*address)
                if measured != pinned:
                    raise _differs(pinned, measured)
            except RuntimeFault as fault:
                if fault.retry != "never":
                    raise  # the store is away: that says nothing about the data
                damaged.append(Damage(first_user[address], *address, code=fault.code, message=fault.message))
            counting.count(pinned.size_bytes)

        self._store.for_each(expected, check, on_tick=counting.tell)
        return VerifyReport(
            sha256=sha256,
            items=found.items,
            objects=len(expected),
            bytes=found.bytes,
            damaged=tuple(sorted(damaged, key=lambda damage: (damage.bucket, damage.key))),
        )

    def _stats(self, addresses: Iterable[Address]) -> dict[Address, ObjectStat]:
        keys: dict[str, list[str]] = {}
        for bucket, key in addresses:
            keys.setdefault(bucket, []).append(key)
        return {
            (bucket, key): stat
            for bucket, wanted in keys.items()
            for key, stat in self._store.stat_many(bucket, wanted).items()
        }

    def _unchanged(self, stats: Mapping[Address, ObjectStat]) -> dict[Address, Pinned]:
        if self._evidence is None:
            return {}
        by_bucket: dict[str, dict[str, ObjectStat]] = {}
        for (bucket, key), stat in stats.items():
            by_bucket.setdefault(bucket, {})[key] = stat
        return {
            (bucket, key): pinned
            for bucket, known in by_bucket.items()
            for key, pinned in self._evidence.unchanged(bucket, known).items()
        }

    def _read(
        self,
        addresses: Collection[Address],
        stats: Mapping[Address, ObjectStat],
        on_progress: Callable[[PinProgress], None] | None,
    ) -> dict[Address, Pinned]:
        measured: dict[Address, Pinned] = {}
        counting = _Counting(len(addresses), on_progress)

        def read(address: Address) -> None:
            measured[address] = pinned = self._store.measure(*address, known=stats[address])
            counting.count(pinned.size_bytes)

        try:
            self._store.for_each(addresses, read, on_tick=counting.tell)
        finally:
            if self._evidence is not None:  # what was read, was read: a second try goes on from there
                self._evidence.record((pinned, stats[address]) for address, pinned in measured.items())
        return measured


class _Counting:
    """Progress that several threads make and one tells."""

    def __init__(self, total: int, listener: Callable[[PinProgress], None] | None) -> None:
        self._total, self._listener = total, listener
        self._done, self._bytes = 0, 0
        self._lock = threading.Lock()

    def count(self, size_bytes: int) -> None:
        with self._lock:
            self._done += 1
            self._bytes += size_bytes

    def tell(self) -> None:
        if self._listener is not None:
            self._listener(PinProgress(self._done, self._total, self._bytes))


def _no_snapshot(sha256: str) -> NotFoundError:
    return NotFoundError(
        f"no dataset snapshot has the digest {sha256} in this store",
        hint="A name is kept when the store changes, what it names is not: `mtr dataset import PATH --name NAME` or "
        "`mtr dataset pin` puts it into this store.",
        context={"sha256": sha256},
    )


def _stored_at(sha256: str, size_bytes: int) -> Pinned:
    return Pinned(BUCKET, f"{PREFIX}{sha256}.json", sha256, size_bytes)


def _stated(items: Iterable[Mapping[str, Any]]) -> dict[Address, list[tuple[str, Mapping[str, Any]]]]:
    """Every object that the items name, with what each of them says about it."""
    stated: dict[Address, list[tuple[str, Mapping[str, Any]]]] = {}
    for item in items:
        for name in ("media", "annotation"):
            reference = item.get(name)
            if reference is not None:
                address = (reference["bucket"], reference["object_key"])
                stated.setdefault(address, []).append((item["item_id"], reference))
    return stated


def _references(items: Iterable[Mapping[str, Any]]) -> Iterator[tuple[str, Address, Pinned]]:
    for address, uses in _stated(items).items():
        for item_id, reference in uses:
            yield item_id, address, Pinned(*address, reference["sha256"], reference["size_bytes"])


def _require_all(
    stated: Mapping[Address, list[tuple[str, Mapping[str, Any]]]], stats: Mapping[Address, ObjectStat]
) -> None:
    missing = [
        {"item_id": uses[0][0], "bucket": address[0], "object_key": address[1]}
        for address, uses in stated.items()
        if address not in stats
    ]
    if missing:
        raise ObjectMissingError(
            f"{len(missing)} of {len(stated)} objects are not in the store: {_named(missing)}",
            hint="Upload them, or correct the references in the source manifest.",
            context={"missing": missing},
        )


def _require_as_stated(
    stated: Mapping[Address, list[tuple[str, Mapping[str, Any]]]], pinned: Mapping[Address, Pinned]
) -> None:
    different = [
        {"item_id": item_id, "bucket": address[0], "object_key": address[1], "found": pinned[address].to_document()}
        for address, uses in stated.items()
        for item_id, reference in uses
        if reference.get("sha256") not in (None, pinned[address].sha256)
        or reference.get("size_bytes") not in (None, pinned[address].size_bytes)
    ]
    if different:
        raise DigestMismatchError(
            f"{len(different)} references state another digest or size than their object has: {_named(different)}",
            hint="Restore the objects, or let the source manifest state what they are now. Objects of `mtr dataset import` "
            "are made again by it once the damaged ones are removed from the store.",
            context={"different": different},
        )


def _named(entries: list[dict[str, Any]]) -> str:
    named = ", ".join(
        f"{entry['bucket']}/{entry['object_key']} ({entry['item_id']})" for entry in entries[:_NAMED_AT_MOST]
    )
    more = len(entries) - _NAMED_AT_MOST
    return f"{named} and {more} more" if more > 0 else named


def _differs(pinned: Pinned, measured: Pinned) -> DigestMismatchError:
    return DigestMismatchError(
        f"{pinned.bucket}/{pinned.key} has {measured.size_bytes} bytes of digest {measured.sha256[:12]}…, "
        f"pinned were {pinned.size_bytes} of {pinned.sha256[:12]}…",
        hint="Restore the object, or pin the data set as it is now.",
        context={"expected_sha256": pinned.sha256, "found_sha256": measured.sha256},
    )
