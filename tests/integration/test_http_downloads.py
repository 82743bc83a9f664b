"""Large objects over HTTP, from a running API: memory, resuming, clients that leave, and bytes that turn out to be wrong."""

from __future__ import annotations

import hashlib
import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import httpx
import pytest

from contracts.limits import MIB
from contracts.references import Pinned
from runtime.installation import Installation
from tests.assets.api_server import ApiServer
from tests.assets.executions import settings_at

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.service

SIZE_BYTES = 256 * MIB
URL = "/v1/models/large/versions/1/content"


@dataclass
class Large:
    """A running API with a registered model of `SIZE_BYTES`, and its file in the store."""

    api: ApiServer
    client: httpx.Client
    file: Path
    sha256: str

    def open_files(self) -> list[str]:
        """Files of the store that the API holds open."""
        found = []
        for link in Path(f"/proc/{self.api.pid}/fd").iterdir():
            try:
                target = str(link.readlink())
            except FileNotFoundError:
                continue
            if target == os.fspath(self.file):
                found.append(target)
        return found


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Large]:
    folder = tmp_path_factory.mktemp("large")
    source = folder / "model.onnx"
    block = os.urandom(MIB)
    digest = hashlib.sha256()
    with source.open("wb") as file:
        for number in range(SIZE_BYTES // MIB):
            part = number.to_bytes(8, "big") + block[8:]
            file.write(part)
            digest.update(part)
    pinned = Pinned("models", "large/model.onnx", digest.hexdigest(), SIZE_BYTES)
    with Installation.open(settings_at(folder / "home")) as here:
        here.store.publish_file(source, pinned)
        here.models.register(
            "large", execution_id="e", object=pinned, task_kind="t", class_names=[], opset=17, inputs=[], outputs=[]
        )
        stored = here.store.local_path(pinned.bucket, pinned.key)
    assert stored is not None
    with ApiServer(folder / "home") as api, httpx.Client(base_url=api.address, timeout=120) as client:
        yield Large(api, client, stored, pinned.sha256)


def test_a_large_object_comes_whole_and_is_never_held_in_memory(large: Large) -> None:
    large.client.get("/v1/models")  # whatever is imported late
    before, digest = large.api.peak_bytes, hashlib.sha256()
    with large.client.stream("GET", URL) as answer:
        for piece in answer.iter_raw():
            digest.update(piece)

    assert digest.hexdigest() == large.sha256
    assert large.api.peak_bytes - before < SIZE_BYTES // 4


def test_an_interrupted_download_goes_on_where_it_stopped(large: Large) -> None:
    digest, got = hashlib.sha256(), 0
    with large.client.stream("GET", URL) as answer:
        etag = answer.headers["etag"]
        for piece in answer.iter_raw():
            digest.update(piece)
            got += len(piece)
            if got > SIZE_BYTES // 3:
                break
    with large.client.stream("GET", URL, headers={"Range": f"bytes={got}-", "If-Range": etag}) as answer:
        assert (answer.status_code, answer.headers["content-length"]) == (206, str(SIZE_BYTES - got))
        for piece in answer.iter_raw():
            digest.update(piece)

    assert digest.hexdigest() == large.sha256


def test_who_leaves_leaves_nothing_open(large: Large) -> None:
    with large.client.stream("GET", URL) as answer:
        pieces = answer.iter_raw()  # dropped, it would close the answer
        next(pieces)
        assert large.open_files() != []

    deadline = time.monotonic() + 60
    while large.open_files():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_an_object_whose_last_byte_is_wrong_is_broken_off_before_its_end(large: Large) -> None:
    large.file.chmod(0o644)
    with large.file.open("r+b") as file:
        file.seek(-1, os.SEEK_END)
        right = file.read(1)
        file.seek(-1, os.SEEK_END)
        file.write(bytes([right[0] ^ 1]))
    got: list[int] = []
    try:
        with large.client.stream("GET", URL) as answer, pytest.raises(httpx.RemoteProtocolError):
            got.extend(map(len, answer.iter_raw()))
    finally:
        with large.file.open("r+b") as file:
            file.seek(-1, os.SEEK_END)
            file.write(right)

    assert 0 < sum(got) < SIZE_BYTES
    assert "a download was broken off" in large.api.log
