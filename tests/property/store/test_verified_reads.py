"""No change of a stored byte is ever taken for the pinned object."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contracts.errors import DigestMismatchError
from contracts.references import Pinned
from runtime.store.objects import ObjectStore

if TYPE_CHECKING:
    from pathlib import Path

KEYS = st.from_regex(r"[A-Za-z0-9._ +%ü-]{1,20}(/[A-Za-z0-9._ +%ü-]{1,20}){0,3}", fullmatch=True).filter(
    lambda key: not {".", ".."} & set(key.split("/")) and ".staging" not in key
)


def pinned(content: bytes, key: str = "a/b.bin") -> Pinned:
    return Pinned("datasets", key, hashlib.sha256(content).hexdigest(), len(content))


def store_in(factory: pytest.TempPathFactory) -> tuple[ObjectStore, Path]:
    folder = factory.mktemp("property")
    (folder / "out").mkdir()
    return ObjectStore.local(folder / "store"), folder / "out"


@given(content=st.binary(min_size=1, max_size=300_000), at=st.integers(0), flip=st.integers(1, 255))
def test_a_single_changed_byte_is_refused_and_leaves_nothing(
    content: bytes, at: int, flip: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    store, out = store_in(tmp_path_factory)
    changed = bytearray(content)
    changed[at % len(content)] ^= flip
    store.publish_bytes(bytes(changed), "datasets", "a/b.bin")

    with pytest.raises(DigestMismatchError):
        store.fetch_verified(pinned(content), out / "x")

    assert list(out.iterdir()) == []


@given(content=st.binary(max_size=300_000), key=KEYS)
def test_what_was_published_is_measured_and_read_as_it_was(
    content: bytes, key: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    store, _ = store_in(tmp_path_factory)
    store.publish_bytes(content, "datasets", key)

    assert store.measure("datasets", key) == pinned(content, key)
    assert store.read_verified(pinned(content, key), max_bytes=len(content)) == content
    assert list(store.list("datasets", "")) == [key]
