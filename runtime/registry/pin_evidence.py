"""Which digest an object had when its every byte was last read, so that what is unchanged need not be read again.

Kept on this machine, beside the cache. It saves time and is never asked for truth: an object counts as unchanged only
while the store shows the same size, etag and version, and losing the file costs one full read.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import sqlite3
from typing import TYPE_CHECKING, Final

from contracts.references import Pinned

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

    from runtime.store.backend import ObjectStat

_BUSY_SECONDS: Final = 5.0
_KEYS_A_QUERY: Final = 500
_SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS evidence (
    store TEXT NOT NULL, bucket TEXT NOT NULL, object_key TEXT NOT NULL,
    size_bytes INTEGER NOT NULL, etag TEXT NOT NULL, version TEXT NOT NULL, sha256 TEXT NOT NULL,
    PRIMARY KEY (store, bucket, object_key)
) WITHOUT ROWID
"""


class PinEvidence:
    """Evidence about the objects of one store. Safe with several processes at once.

    Args:
        file: an SQLite file, made when first written to; its folder too.
        store: the store's identity.
    """

    def __init__(self, file: Path, store: str) -> None:
        self._file = file
        self._store = hashlib.sha256(store.encode()).hexdigest()[:16]

    def unchanged(self, bucket: str, stats: Mapping[str, ObjectStat]) -> dict[str, Pinned]:
        """The pinned references of those keys of `stats` that look exactly as they did when they were read."""
        found: dict[str, Pinned] = {}
        with self._connected() as database:
            keys = iter(stats)
            while batch := list(itertools.islice(keys, _KEYS_A_QUERY)):
                marks = ",".join("?" * len(batch))
                rows = database.execute(
                    "SELECT object_key, size_bytes, etag, version, sha256 FROM evidence "  # noqa: S608 - marks only
                    f"WHERE store = ? AND bucket = ? AND object_key IN ({marks})",
                    [self._store, bucket, *batch],
                )
                for key, size_bytes, etag, version, sha256 in rows:
                    stat = stats[key]
                    if (stat.size_bytes, stat.etag, stat.version or "") == (size_bytes, etag, version):
                        found[key] = Pinned(bucket, key, sha256, size_bytes)
        return found

    def record(self, measured: Iterable[tuple[Pinned, ObjectStat]]) -> None:
        """Remembers what was read; an object whose next change might not show is left out."""
        rows = [
            (self._store, pinned.bucket, pinned.key, pinned.size_bytes, stat.etag, stat.version or "", pinned.sha256)
            for pinned, stat in measured
            if stat.settled and stat.etag and stat.size_bytes == pinned.size_bytes
        ]
        if not rows:
            return
        with self._connected() as database:
            database.executemany("INSERT OR REPLACE INTO evidence VALUES (?, ?, ?, ?, ?, ?, ?)", rows)

    @contextlib.contextmanager
    def _connected(self) -> Iterator[sqlite3.Connection]:
        """One transaction. A file that is no database, or a busy one, is as good as none."""
        try:
            self._file.parent.mkdir(parents=True, exist_ok=True)
            database = sqlite3.connect(self._file, timeout=_BUSY_SECONDS)
        except (sqlite3.Error, OSError):
            database = sqlite3.connect(":memory:")
        try:
            try:
                database.execute("PRAGMA synchronous = OFF")  # a power cut may cost the file, which costs a read
                database.execute(_SCHEMA)
            except sqlite3.DatabaseError:
                database.close()
                with contextlib.suppress(OSError):
                    self._file.unlink()
                database = sqlite3.connect(":memory:")
                database.execute(_SCHEMA)
            with contextlib.suppress(sqlite3.Error), database:
                yield database
        finally:
            database.close()
