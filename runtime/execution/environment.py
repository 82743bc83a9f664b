"""Which Python runs a package, and what that process may know of this machine."""

from __future__ import annotations

import json
import math
import os
import subprocess
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

from contracts.errors import GpuUnavailableError, RuntimeUnavailableError
from contracts.limits import STARTUP_SECONDS
from runtime.execution.survivors import TOKEN_NAME, token_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from contracts.submission import Resources
    from runtime.execution.workspace import Workspace
    from runtime.settings import Settings

OLDEST_PYTHON: Final = (3, 9)
"""What the runner is written for."""
SAFE_PATH_PYTHON: Final = (3, 11)
"""The first that has `-P`, which keeps a script's own folder off `sys.path`."""

_PROBE: Final = """
import json, sys
places = [sys.prefix, sys.base_prefix, sys.exec_prefix, *sys.path]
for name, module in list(sys.modules.items()):
    if name.startswith("__editable__"):
        places += getattr(module, "MAPPING", {}).values()
print(json.dumps({"version": sys.version_info[:2], "places": [place for place in places if place.startswith("/")]}))
"""
_PASSED: Final = frozenset(
    {"LANG", "LANGUAGE", "TZ", "LD_LIBRARY_PATH", "CUDA_HOME", "CUDA_PATH", "CUDA_DEVICE_ORDER", "CUDA_MODULE_LOADING"}
)
_PASSED_PREFIXES: Final = ("LC_", "NVIDIA_")
_PASSED_WITH_NETWORK: Final = frozenset(
    {"SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"}
    | {name for proxy in ("http_proxy", "https_proxy", "no_proxy", "all_proxy") for name in (proxy, proxy.upper())}
)
_THREAD_COUNTS: Final = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "NUMEXPR_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
)


@dataclass(frozen=True, slots=True)
class Python:
    """A Python that answered.

    Attributes:
        path: its program; a virtual environment's own path, not what it links to.
        version: major and minor.
        places: the folders and files that it needs to see: its prefixes and its `sys.path`.
    """

    path: Path
    version: tuple[int, int]
    places: tuple[Path, ...]


def find_python(runtime_id: str, settings: Settings) -> Python:
    """The Python that runs packages of `runtime_id`; it exists, answers and is new enough.

    Raises:
        RuntimeUnavailableError: none is configured, or the configured one does not work.
    """
    path = settings.runtimes.get(runtime_id)
    if path is None:
        known = ", ".join(sorted(settings.runtimes))
        raise RuntimeUnavailableError(
            f"no Python is configured for runtime {runtime_id!r}; configured here: {known}",
            hint=f'Make an environment with what the runtime promises and name its Python in mtr.toml: [runtimes] "{runtime_id}" = "/path/to/bin/python".',
            context={"runtime_id": runtime_id, "configured": sorted(settings.runtimes)},
        )
    return inspect_python(path, runtime_id)


def inspect_python(path: Path, runtime_id: str) -> Python:
    """What the Python at `path` says of itself.

    Raises:
        RuntimeUnavailableError: it is missing, does not start, or is older than 3.9.
    """
    try:
        changed_ns = path.stat().st_mtime_ns
    except OSError as error:
        raise _unavailable(runtime_id, path, f"cannot be found: {error.strerror}") from error
    return _inspect(path, changed_ns, runtime_id)


@lru_cache(maxsize=64)
def _inspect(path: Path, _changed_ns: int, runtime_id: str) -> Python:
    try:
        answer = subprocess.run(
            [path, "-I", "-c", _PROBE],
            env={"PATH": os.defpath, "LD_LIBRARY_PATH": os.environ.get("LD_LIBRARY_PATH", "")},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=STARTUP_SECONDS,
            check=True,
        )
        said = json.loads(answer.stdout)
        version = (int(said["version"][0]), int(said["version"][1]))
        places = tuple(dict.fromkeys(Path(place) for place in said["places"]))
    except subprocess.CalledProcessError as error:
        said_last = error.stderr.decode(errors="replace").strip().splitlines()[-1:]
        raise _unavailable(runtime_id, path, "does not start: " + "".join(said_last)) from error
    except subprocess.TimeoutExpired as error:
        raise _unavailable(runtime_id, path, f"did not answer within {STARTUP_SECONDS:.0f} s") from error
    except (OSError, ValueError, KeyError, TypeError, IndexError) as error:
        raise _unavailable(runtime_id, path, f"is no Python: {error}") from error
    if version < OLDEST_PYTHON:
        raise _unavailable(runtime_id, path, f"is Python {version[0]}.{version[1]}; packages need 3.9 or later")
    return Python(path, version, (*places, path.parent.parent))


def _unavailable(runtime_id: str, path: Path, what: str) -> RuntimeUnavailableError:
    return RuntimeUnavailableError(
        f"the Python of runtime {runtime_id!r}, {path}, {what}",
        hint=f'Repair it, or name another under [runtimes] "{runtime_id}" in mtr.toml.',
        context={"runtime_id": runtime_id, "python": str(path)},
    )


def child_environment(
    workspace: Workspace,
    python: Python,
    resources: Resources,
    *,
    network: bool,
    environ: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """The whole environment of a package's process: nothing that is not named here reaches it, so no credential does.

    Args:
        workspace: its home and temporary folder are the package's.
        python: first on `PATH`.
        resources: threads by cores, GPUs by count; a CPU training sees none.
        network: whether it may reach the network, and so needs to know the way.
        environ: this process's environment; default the real one.
    """
    environ = os.environ if environ is None else environ
    passed = {name for name in environ if name in _PASSED or name.startswith(_PASSED_PREFIXES)}
    if network:
        # a proxy's address may carry a password
        passed |= {name for name in environ if name in _PASSED_WITH_NETWORK and "@" not in environ[name]}
    cores = str(max(1, math.floor(resources.cpu_cores)))
    return {
        "LANG": "C.UTF-8",
        **{name: environ[name] for name in sorted(passed)},
        **dict.fromkeys(_THREAD_COUNTS, cores),
        "PATH": os.pathsep.join((str(python.path.parent), os.defpath)),
        "HOME": str(workspace.home),
        "TMPDIR": str(workspace.short_tmp),
        "XDG_CACHE_HOME": str(workspace.home / ".cache"),
        "XDG_CONFIG_HOME": str(workspace.home / ".config"),
        "MPLCONFIGDIR": str(workspace.home / ".config" / "matplotlib"),
        "CUDA_VISIBLE_DEVICES": _visible_gpus(resources, environ),
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONFAULTHANDLER": "1",
        "PYTHONNOUSERSITE": "1",
        "PYTHONUTF8": "1",
        "ORT_DISABLE_TELEMETRY": "1",  # else onnxruntime tells its vendor that it runs, wherever there is a network
        TOKEN_NAME: token_of(workspace.execution_id, workspace.attempt),
    }


def require_gpus(wanted: int, settings: Settings) -> None:
    """This machine has `wanted` GPUs for a training; without them a package would quietly train on the CPU.

    Raises:
        GpuUnavailableError: it has fewer.
    """
    if wanted == 0:
        return
    found = settings.gpus if settings.gpus is not None else gpus_of(os.environ, Path("/dev"))
    if found is not None and found < wanted:
        raise GpuUnavailableError(
            f"{wanted} GPU wanted, and this machine has {found or 'none'}",
            hint="Ask for --device cpu, or set gpu_pool to the Prefect work pool of machines that have GPUs. "
            "Where GPUs are here and not found, set gpus to their number.",
            context={"wanted": wanted, "found": found},
        )


def gpus_of(environ: Mapping[str, str], devices: Path) -> int | None:
    """How many GPUs this process may use; None where there are some that cannot be counted.

    Args:
        environ: `CUDA_VISIBLE_DEVICES` bounds them where it is set.
        devices: the folder of device files, `/dev`.
    """
    names = {device.name for device in devices.iterdir()}
    found: int | None = sum(name.startswith("nvidia") and name[6:].isdecimal() for name in names)
    if not found and {"kfd", "dxg"} & names:  # AMD's, and those of Windows below a Linux
        found = None
    given = environ.get("CUDA_VISIBLE_DEVICES")
    if given is None or found == 0:
        return found
    visible = [part.strip() for part in given.split(",")]
    # CUDA reads the list up to the first name that is none; parts of one GPU (MIG) are named there and have no device of their own
    return next((at for at, part in enumerate(visible) if part in {"", "-1", "NoDevFiles"}), len(visible))


def _visible_gpus(resources: Resources, environ: Mapping[str, str]) -> str:
    """The first GPUs of those that this process may use; a worker that was given some passes on no others."""
    if resources.device != "cuda":
        return ""
    given = environ.get("CUDA_VISIBLE_DEVICES")
    known = [part.strip() for part in given.split(",")] if given else [str(index) for index in range(64)]
    return ",".join(known[: resources.gpu_count])
