"""How long `/health` takes while four packages of 1 GiB are uploaded at once.

Run with `python -m benchmarks health_under_uploads`. Clients, server and probe share this machine's processors.
"""

from __future__ import annotations

import http.client
import subprocess
import time
from typing import TYPE_CHECKING

from benchmarks._archives import large_package
from benchmarks._objects import folder
from contracts.limits import GIB
from tests.assets.api_server import ApiServer

if TYPE_CHECKING:
    from pathlib import Path

UPLOADS = 4
PAUSE_SECONDS = 0.01

_CURL = ("curl", "-sS", "--fail", "-o", "/dev/null", "-X", "POST", "-H", "Expect:", "-T")


def measure() -> dict[str, float]:
    """Milliseconds of the median, the 99th percentile and the slowest, and of the median when nothing else goes on."""
    with folder() as root, ApiServer(root / "home") as server:
        packages = [large_package(root / f"{number}.zip", f"large{number}", GIB) for number in range(UPLOADS)]
        idle = sorted(_ask(server.port) for _ in range(200))
        began = time.perf_counter()
        clients = [subprocess.Popen([*_CURL, str(package), _address(server, package)]) for package in packages]
        taken = []
        while any(client.poll() is None for client in clients):
            taken.append(_ask(server.port))
            time.sleep(PAUSE_SECONDS)
        assert [client.returncode for client in clients] == [0] * UPLOADS
        lasted = time.perf_counter() - began
        taken.sort()
        return {
            "idle_median_ms": 1000 * idle[len(idle) // 2],
            "median_ms": 1000 * taken[len(taken) // 2],
            "p99_ms": 1000 * taken[int(0.99 * len(taken))],
            "slowest_ms": 1000 * taken[-1],
            "asked": float(len(taken)),
            "uploads_mb_per_second": UPLOADS * GIB / lasted / 1e6,
            "peak_mb": server.peak_bytes / 1e6,
            "goal_p99_ms": 50.0,
            "goal_peak_mb": 200.0,
        }


def _address(server: ApiServer, package: Path) -> str:
    return f"{server.address}/v1/registrations/packages?archive_name={package.name}"


def _ask(port: int) -> float:
    """Seconds for one request on a connection of its own, as a probe makes it."""
    began = time.perf_counter()
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        connection.request("GET", "/health")
        answer = connection.getresponse()
        answer.read()
        assert answer.status == 200, answer.status
    finally:
        connection.close()
    return time.perf_counter() - began
