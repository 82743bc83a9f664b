"""Large packages for the benchmarks of the HTTP API, and a bare server to compare it with."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import socket
import subprocess
import sys
import time
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

from contracts.limits import MIB
from tests.assets.api_server import REPOSITORY
from tests.assets.hostile_zips import CODE, MANIFEST

if TYPE_CHECKING:
    from collections.abc import Iterator

    from starlette.types import Receive, Scope, Send

KEPT = "MTR_INTERNAL_BENCHMARK_FILE"


def large_package(path: Path, key: str, size_bytes: int) -> Path:
    """A code package whose one large member is stored as it is, so that no time goes into unpacking it."""
    piece = os.urandom(MIB)
    with zipfile.ZipFile(path, "w", allowZip64=True) as archive:
        archive.writestr("training_package.json", json.dumps({**MANIFEST, "key": key}))
        archive.writestr("train.py", CODE)
        with archive.open("data.bin", "w", force_zip64=True) as member:
            for _ in range(size_bytes // MIB):
                member.write(piece)
    return path


async def bare(scope: Scope, receive: Receive, send: Send) -> None:
    """Receives a body, hashes it, writes it, answers the digest, and looks at nothing."""
    if scope["type"] != "http":
        return
    digest, more = hashlib.sha256(), True
    with open(os.environ[KEPT], "wb", buffering=0) as kept:  # noqa: ASYNC230, PTH123 - as a bare server does
        while more:
            message = await receive()
            digest.update(message["body"])
            kept.write(message["body"])
            more = message.get("more_body", False)
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": digest.hexdigest().encode()})


@contextlib.contextmanager
def bare_server(root: Path) -> Iterator[int]:
    """The port of the bare server, on the same uvicorn as the API."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen(128)
        port = listening.getsockname()[1]
        server = subprocess.Popen(
            [sys.executable, "-m", "uvicorn", "benchmarks._archives:bare", "--fd", str(listening.fileno())],
            pass_fds=[listening.fileno()],
            cwd=REPOSITORY,
            env={**os.environ, KEPT: str(root / "kept.bin")},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
    try:
        post(port, "/", Path(__file__))  # waits until it answers
        yield port
    finally:
        server.kill()
        server.wait()


def post(port: int, path: str, file: Path) -> float:
    """Seconds until a POST of the file's bytes is answered by a 200; the kernel sends them, not this process."""
    began = time.perf_counter()
    with socket.create_connection(("127.0.0.1", port)) as connection, file.open("rb") as content:
        head = f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: {file.stat().st_size}\r\nConnection: close\r\n\r\n"
        connection.sendall(head.encode())
        connection.sendfile(content)
        answer = b"".join(iter(lambda: connection.recv(65_536), b""))
    assert answer.startswith(b"HTTP/1.1 200"), answer[:500]
    return time.perf_counter() - began
