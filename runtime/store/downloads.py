"""Stored objects given out, whole or in part: whoever gets the last byte has got the pinned ones.

A part cannot be checked by itself, since the digest is that of the whole. So

1. whatever part is asked for, the whole object is hashed while the part goes out;
2. the part's last piece is held back until the digest is right, so that a reader who counts is never deceived;
3. an object that was found right is remembered by its etag, and further parts of it are read alone, tied to that etag.
"""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from typing import TYPE_CHECKING

from contracts.errors import DigestMismatchError
from contracts.limits import MAX_REMEMBERED_OBJECTS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from contracts.references import Pinned
    from runtime.store.objects import ObjectStore


class Downloads:
    """Gives out the objects of one store. Safe to share between threads."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store
        self._right: OrderedDict[Pinned, str] = OrderedDict()
        self._remembering = threading.Lock()

    def open(self, pinned: Pinned, start: int = 0, end: int | None = None) -> Iterator[bytes]:
        """The bytes from `start` to before `end`, in pieces; the last piece comes once they are certain to be right.

        Args:
            pinned: the object.
            start: the first byte that is wanted.
            end: the byte after the last one; `None` is the object's end.

        Returns:
            Pieces, read as they are asked for. Taking the next one raises `DigestMismatchError` where the object is not
            the pinned one, `ObjectChangedError` where it was replaced meanwhile, `StorageUnavailableError` where the
            store went away.

        Raises:
            ObjectMissingError: there is no such object.
            DigestMismatchError: its size is not the pinned one.
            StorageUnavailableError: safe to call again.
        """
        found = self._store.stat(pinned.bucket, pinned.key)
        if found.size_bytes != pinned.size_bytes:
            raise _other(pinned, f"{found.size_bytes} bytes", found.size_bytes, None)
        stop = pinned.size_bytes if end is None else min(end, pinned.size_bytes)
        whole = start == 0 and stop == pinned.size_bytes
        with self._remembering:
            known = found.settled and self._right.get(pinned) == found.etag
        if known and not whole:
            return self._read(pinned, found.etag, start, stop)
        return self._read_and_verify(pinned, found.etag, start, stop, remember=found.settled)

    def _read(self, pinned: Pinned, etag: str, start: int, stop: int) -> Iterator[bytes]:
        at = start
        for chunk in self._store.chunks(pinned.bucket, pinned.key, etag=etag or None, start=start):
            yield bytes(chunk[: stop - at])
            at += len(chunk)
            if at >= stop:
                return
        raise _other(pinned, f"{at} bytes", at, None)

    def _read_and_verify(self, pinned: Pinned, etag: str, start: int, stop: int, *, remember: bool) -> Iterator[bytes]:
        digest, at = hashlib.sha256(), 0
        held: bytes | None = None
        for chunk in self._store.chunks(pinned.bucket, pinned.key, etag=etag or None):
            digest.update(chunk)
            wanted = chunk[max(0, start - at) : max(0, stop - at)]
            at += len(chunk)
            if at > pinned.size_bytes:
                break
            if wanted:
                if held is not None:
                    yield held
                held = bytes(wanted)
        if at != pinned.size_bytes or digest.hexdigest() != pinned.sha256:
            raise _other(pinned, f"digest {digest.hexdigest()[:12]}…", at, digest.hexdigest())
        if remember and etag:
            self._remember(pinned, etag)
        if held is not None:
            yield held

    def _remember(self, pinned: Pinned, etag: str) -> None:
        with self._remembering:
            self._right[pinned] = etag
            self._right.move_to_end(pinned)
            while len(self._right) > MAX_REMEMBERED_OBJECTS:
                self._right.popitem(last=False)


def _other(pinned: Pinned, said: str, size: int, found: str | None) -> DigestMismatchError:
    return DigestMismatchError(
        f"{pinned.bucket}/{pinned.key} is not what was pinned: it has {said}",
        hint="The object was overwritten after it was stored: restore it from a backup of the store.",
        context={
            "bucket": pinned.bucket,
            "object_key": pinned.key,
            "expected_sha256": pinned.sha256,
            "found_sha256": found,
            "expected_bytes": pinned.size_bytes,
            "found_bytes": size,
        },
    )
