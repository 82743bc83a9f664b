"""What the object benchmarks share: objects in a real S3, a thin server with a set latency, peers, and a clock."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import textwrap
import time
from pathlib import Path
from typing import TYPE_CHECKING

from contracts.references import Pinned
from runtime.store.objects import ObjectStore
from tests.assets.s3_server import S3Server

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from runtime.store.s3 import S3Settings


@contextlib.contextmanager
def folder() -> Iterator[Path]:
    """A folder that goes at the end."""
    with tempfile.TemporaryDirectory(prefix="mtr-bench-") as name:
        yield Path(name)


@contextlib.contextmanager
def s3(root: Path) -> Iterator[tuple[S3Server, S3Settings, ObjectStore]]:
    """SeaweedFS with four buckets that anybody may read."""
    with S3Server(root / "s3", anonymous_reads=True) as server:
        settings = server.settings("bench")
        store = ObjectStore.s3(settings)
        store.ensure_buckets()
        yield server, settings, store


def fill(store: ObjectStore, count: int, size: int) -> list[Pinned]:
    """`count` different objects of `size` bytes in `datasets`."""
    base = os.urandom(size - 8)
    pins = []

    def contents() -> Iterator[tuple[Pinned, bytes]]:
        for index in range(count):
            content = index.to_bytes(8, "little") + base
            pinned = Pinned("datasets", f"objects/{index:06}.png", hashlib.sha256(content).hexdigest(), size)
            pins.append(pinned)
            yield pinned, content

    store.for_each(contents(), lambda each: store.publish_bytes(each[1], each[0].bucket, each[0].key))
    return pins


def seconds(run: Callable[[], object]) -> float:
    """How long one run takes."""
    began = time.perf_counter()
    run()
    return time.perf_counter() - began


def best(rounds: int, contenders: dict[str, Callable[[], object]]) -> dict[str, float]:
    """The quickest of interleaved rounds, in seconds: what is disturbed is slower, never quicker."""
    taken: dict[str, list[float]] = {name: [] for name in contenders}
    for _ in range(rounds):
        for name, run in contenders.items():
            taken[name].append(seconds(run))
    return {name: min(each) for name, each in taken.items()}


def curl_parallel(endpoint: str, bucket: str, keys: list[str], target: Path, connections: int = 32) -> None:
    """`curl --parallel`, into files; unsigned and without hashing."""
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir()
    config = target.with_suffix(".curl")
    config.write_text(
        "\n".join(f'url="{endpoint}/{bucket}/{key}"\noutput="{target}/{at}"' for at, key in enumerate(keys))
    )
    subprocess.run(
        [
            "curl",
            "-sS",
            "--no-progress-meter",
            "--fail",
            "--parallel",
            "--parallel-max",
            str(connections),
            "-K",
            str(config),
        ],
        check=True,
    )
    assert len(list(target.iterdir())) == len(keys)


def wrk_per_second(endpoint: str, bucket: str, keys: list[str], root: Path, run_seconds: int = 4) -> float | None:
    """Requests a second of `wrk` over the same keys, nothing hashed, nothing written; `None` where it is not installed."""
    if shutil.which("wrk") is None:
        return None
    script = root / "keys.lua"
    listed = ",".join(f'"/{bucket}/{key}"' for key in keys)
    script.write_text(
        f'local keys = {{{listed}}}\nlocal at = 0\nrequest = function() at = at % #keys + 1; return wrk.format("GET", keys[at]) end\n'
    )
    said = subprocess.run(
        ["wrk", "-t1", "-c16", f"-d{run_seconds}s", "-s", str(script), endpoint],
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    found = re.search(r"Requests/sec:\s+([\d.]+)", said)
    assert found, said
    return float(found[1])


_FAR_SERVER = textwrap.dedent(
    """
    import asyncio, sys
    size, delay = int(sys.argv[1]), float(sys.argv[2])
    head = b"HTTP/1.1 200 OK\\r\\nContent-Length: %d\\r\\nETag: \\"x\\"\\r\\n\\r\\n" % size
    body = bytes(size)

    class Connection(asyncio.Protocol):
        def connection_made(self, transport):
            self.transport, self.pending = transport, b""
        def data_received(self, data):
            self.pending += data
            while b"\\r\\n\\r\\n" in self.pending:
                _, _, self.pending = self.pending.partition(b"\\r\\n\\r\\n")
                asyncio.get_running_loop().call_later(delay, self.answer)
        def answer(self):
            if not self.transport.is_closing():
                self.transport.write(head + body)

    async def main():
        server = await asyncio.get_running_loop().create_server(Connection, "127.0.0.1", 0, backlog=1024)
        print(server.sockets[0].getsockname()[1], flush=True)
        await server.serve_forever()

    asyncio.run(main())
    """
)


@contextlib.contextmanager
def far_server(size: int, delay_seconds: float) -> Iterator[str]:
    """An endpoint whose every answer is `size` zero bytes after a pause; what is measured is the client alone."""
    server = subprocess.Popen(
        [sys.executable, "-c", _FAR_SERVER, str(size), str(delay_seconds)], stdout=subprocess.PIPE, text=True
    )
    try:
        assert server.stdout is not None
        yield f"http://127.0.0.1:{int(server.stdout.readline())}"
    finally:
        server.kill()
        server.wait()
        if server.stdout is not None:
            server.stdout.close()
