"""What `mtr doctor` looks at: each dependency and permission once, with what to do where it fails."""

from __future__ import annotations

import os
import shutil
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from contracts.errors import InternalError, RuntimeFault
from contracts.limits import GIB
from runtime.execution.environment import find_python
from runtime.sizes import readable_size
from services import orchestrator

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from runtime.installation import Installation
    from runtime.settings import Settings

LOW_DISK_BYTES: Final = 2 * GIB
"""Below this a cache and one workspace hardly fit; a warning, since what is needed depends on the data."""


@dataclass(frozen=True, slots=True)
class Check:
    """One line of `mtr doctor`.

    Attributes:
        name: what was looked at.
        status: `ok`, `warning` (it works, with less than it could have) or `failed`.
        message: what was found.
        remedy: what to do about it; empty when it is ok.
        exit_code: of a failed one, that of its error.
    """

    name: str
    status: str
    message: str
    remedy: str = ""
    exit_code: int = 0

    def to_document(self) -> dict[str, object]:
        """An entry of `mtr doctor --json`."""
        return {"name": self.name, "status": self.status, "message": self.message, "remedy": self.remedy}


def run_checks(here: Installation) -> Iterator[Check]:
    """Every check, as it is done; a failed one never keeps the others from being made."""
    from services.cli.door_checks import door_checks  # noqa: PLC0415 - it makes checks of this module's kind
    from services.cli.platform_checks import platform_checks  # noqa: PLC0415 - as above

    settings = here.settings
    looks: list[tuple[str, Callable[[], Check]]] = [
        ("python", _own_python),
        ("home", lambda: _home(settings)),
        ("disk", lambda: _disk(settings)),
        ("policy", lambda: _policy(settings)),
        ("ledger", lambda: _ledger(here)),
        ("object store", lambda: _store(here)),
        *((f"runtime {name}", _runtime_look(name, settings)) for name in sorted(settings.runtimes)),
        ("orchestrator", lambda: _orchestrator(settings)),
    ]
    for name, look in looks:
        yield looked_at(name, look)
    yield from platform_checks(settings)
    yield from door_checks(settings)


def looked_at(name: str, look: Callable[[], Check]) -> Check:
    """What `look` finds; an error that it raises is a check that failed."""
    try:
        return look()
    except RuntimeFault as fault:
        return Check(name, "failed", fault.message, fault.hint, fault.exit_code)
    except Exception as defect:  # noqa: BLE001 - one broken look must not hide what the others find
        message = f"{type(defect).__name__}: {defect}"
        return Check(name, "failed", message, "This is a defect of mtr: report it.", InternalError.exit_code)


def _own_python() -> Check:
    return Check("python", "ok", f"{sys.version.split()[0]} at {sys.executable}")


def _home(settings: Settings) -> Check:
    if not os.access(settings.home, os.R_OK | os.W_OK | os.X_OK):
        remedy = f"Make {settings.home} yours, or set MTR_HOME to a folder that you can write."
        return Check("home", "failed", f"{settings.home} cannot be written", remedy, exit_code=2)
    return Check("home", "ok", str(settings.home))


def _disk(settings: Settings) -> Check:
    free = shutil.disk_usage(settings.home).free
    message = f"{readable_size(free)} free at {settings.home}"
    if free < LOW_DISK_BYTES:
        return Check("disk", "warning", message, "Free some, or set MTR_HOME and MTR_WORKSPACE_ROOT to larger disks.")
    return Check("disk", "ok", message)


def _policy(settings: Settings) -> Check:
    script_managed = "allowed" if settings.allow_script_managed_data else "off"
    message = f"runtimes {', '.join(settings.runtime_ids)}; script_managed data {script_managed}"
    if not settings.execution_enabled:
        if settings.decided_elsewhere:
            origins = settings.policy().origins_of("execution_enabled")
            said = "; ".join(f"{origin.setting} {origin.reason}" for origin in origins)
            return Check(
                "policy", "warning", said, "Change it in the platform's settings, where execution shall be on."
            )
        return Check("policy", "warning", "execution_enabled is false", "Set execution_enabled = true in mtr.toml.")
    return Check("policy", "ok", message)


def _ledger(here: Installation) -> Check:
    return Check("ledger", "ok", here.ledger.database.name)


def _store(here: Installation) -> Check:
    here.store.check()
    settings = here.settings
    where = f"S3 at {settings.s3_endpoint or 'the vendor'}" if settings.uses_s3 else str(settings.store_root)
    return Check("object store", "ok", f"{where}: written, read and removed in every bucket")


def _runtime_look(name: str, settings: Settings) -> Callable[[], Check]:
    def look() -> Check:
        python = find_python(name, settings)
        message = f"Python {python.version[0]}.{python.version[1]} at {python.path}"
        if name not in settings.runtime_ids:
            remedy = f'Add "{name}" to runtime_ids to allow packages that ask for it.'
            return Check(f"runtime {name}", "warning", f"{message}, not on the allow-list", remedy)
        return Check(f"runtime {name}", "ok", message)

    return look


def _orchestrator(settings: Settings) -> Check:
    return Check("orchestrator", "ok", orchestrator.check(settings))
