"""A pytest plugin: Prefect, imported by any test, keeps to a folder of this session's own and talks to nobody."""

from __future__ import annotations

import os
import shutil
import tempfile

HOME = tempfile.mkdtemp(prefix="mtr-tests-prefect-")

os.environ.pop("PREFECT_API_URL", None)
os.environ.update(
    {
        "PREFECT_HOME": HOME,
        "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
        "DO_NOT_TRACK": "1",
        "PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS": "120",
        "PREFECT_SERVER_CONCURRENCY_LEASE_STORAGE": "prefect.server.concurrency.lease_storage.filesystem",
    }
)


def pytest_unconfigure() -> None:
    shutil.rmtree(HOME, ignore_errors=True)
