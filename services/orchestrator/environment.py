"""What Prefect must know before it is imported: it reads its settings once, at import."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Final

from contracts.errors import InternalError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from runtime.settings import Settings

HEARTBEAT_SECONDS: Final = 30
"""Of deployed runs; the automation `mtr-crashed` marks a run crashed after three of them are missing."""

_QUIET: Final = {
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    "DO_NOT_TRACK": "1",
    "PREFECT_CLI_PROMPT": "false",
    "PREFECT_SHOW_NOTIFICATIONS": "false",
}
_ROBUST: Final = {
    # Every run of ours on a server that has the automation must send them: it takes three missing ones for a death.
    "PREFECT_FLOWS_HEARTBEAT_FREQUENCY": str(HEARTBEAT_SECONDS),
    "PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS": "120",
    # Leases in memory lose their slots with a server restart, and then crash runs that are fine.
    "PREFECT_SERVER_CONCURRENCY_LEASE_STORAGE": "prefect.server.concurrency.lease_storage.filesystem",
}
PASSED_NAMES: Final = frozenset(
    {"PATH", "HOME", "LANG", "LC_ALL", "TZ", "TMPDIR", "LD_LIBRARY_PATH", "USER", "LOGNAME"}
)
"""What servers and workers keep of the environment beside their own settings: a worker hands all it has to its runs."""
_PASSED_PREFIXES: Final = ("CUDA_", "NVIDIA_", "SSL_CERT_", "PREFECT_")


def prepare_environment(settings: Settings) -> None:
    """Afterwards Prefect, imported by this process, keeps its files under `settings.home` and sends nothing to its vendor.

    What the caller's environment says about Prefect stays.

    Raises:
        InternalError: Prefect was imported before with other settings.
    """
    wanted = prefect_environment(settings)
    missing = {name: value for name, value in wanted.items() if name not in os.environ}
    if "prefect" in sys.modules and "PREFECT_HOME" in missing:
        raise InternalError(
            "Prefect was imported before its environment was prepared",
            hint="Report this: only services.orchestrator may import Prefect, and it prepares first.",
        )
    os.environ.update(missing)


def prefect_environment(settings: Settings) -> dict[str, str]:
    """Prefect's settings as environment names, for this process or a server or worker of ours."""
    return {"PREFECT_HOME": str(settings.prefect_home), **_QUIET, **_ROBUST}


def child_environment(settings: Settings, environ: Mapping[str, str], **more: str) -> dict[str, str]:
    """The whole environment of a server or worker: what it needs to start, Prefect's settings and, for workers, ours."""
    kept = {name: value for name, value in environ.items() if name in PASSED_NAMES or name.startswith(_PASSED_PREFIXES)}
    return {**kept, **prefect_environment(settings), **more}


def has_server(environ: Mapping[str, str] | None = None) -> bool:
    """Whether a Prefect server is configured; without one, runs bring their own."""
    return bool((os.environ if environ is None else environ).get("PREFECT_API_URL"))
