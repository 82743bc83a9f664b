"""What a package may see of this machine: everything read-only, no secrets, and its own folders to write in."""

from __future__ import annotations

import os
import pwd
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from runtime.settings import SETTINGS_FILE

if TYPE_CHECKING:
    from collections.abc import Iterable

    from runtime.execution.launch import Launch
    from runtime.settings import Settings

# ruff: noqa: PTH114, PTH115, PTH118, PTH120 - paths are taken apart as text here, links and all

RUNNER: Final = Path(__file__).with_name("runner.py")

_SECRETS: Final = (
    "/run",  # sockets of container engines, of the session bus, of agents; Kubernetes' tokens
    "/var/run",
    "/etc/shadow",
    "/etc/gshadow",
    "/etc/ssl/private",
    "/etc/kubernetes",
    "/root",
)
_NAMES: Final = ("/etc/resolv.conf", "/etc/hosts", "/etc/nsswitch.conf")
"""Where names are looked up; what they link to often lies under /run."""
_REPLACED: Final = ("/tmp", "/var/tmp", "/dev")  # noqa: S108 - the package gets its own


def hidden_places(settings: Settings) -> tuple[Path, ...]:
    """What of this installation no package may read: its home with store, ledger and cache, workspaces, settings."""
    directory = Path.cwd()
    files = [at / SETTINGS_FILE for at in (directory, *directory.parents)]
    prefect = os.environ.get("PREFECT_HOME")
    places = [settings.home, settings.workspace_root, settings.home.parent / SETTINGS_FILE, *files]
    if prefect:
        places.append(Path(prefect).expanduser())
    url = settings.ledger_url
    if url.startswith("sqlite:///"):
        file = url.removeprefix("sqlite:///").partition("?")[0]
        places += [Path(file + suffix) for suffix in ("", "-wal", "-shm", "-journal")]
    return tuple(dict.fromkeys(place for place in places if place.is_absolute() and place.exists()))


def view_of(launch: Launch, shm_bytes: int) -> dict[str, Any]:
    """The supervisor's `view`: see `confine_files` there for what its parts do.

    Args:
        launch: what will run; its workspace's root is free of symbolic links.
        shm_bytes: the size of its /dev/shm.
    """
    workspace = launch.workspace
    own = [str(getattr(workspace, name)) for name in ("directory", "code", "input", "output", "tmp", "home")]
    covered = {os.path.realpath(place) for place in (*_homes(), *_SECRETS, *map(str, launch.hidden))} - {"/"}
    links: dict[str, str] = {}
    kept = set(own)
    needed: list[str] = [str(launch.python.path), str(RUNNER), *map(str, launch.python.places)]
    if launch.network:
        needed += _NAMES
    for place in needed:
        passed, real = trace(place)
        links.update((link, target) for link, target in passed if _under(link, (*covered, *_REPLACED)))
        if _under(real, (*covered, *_REPLACED)):
            kept.add(real)
    bound = [[os.path.realpath(source), str(workspace.input / place)] for place, source in launch.inputs.items()]
    if workspace.dataset_manifest.exists():
        bound.append([str(workspace.dataset_manifest)] * 2)
    return {
        "covered": sorted(covered),
        "kept": sorted(kept),
        "links": sorted(links.items()),
        "bound": bound,
        "tmp": str(workspace.tmp),
        "writable": own[1:],
        "shm_bytes": shm_bytes,
        "gpus": launch.request.resources.device == "cuda",
    }


def trace(path: str) -> tuple[list[tuple[str, str]], str]:
    """The symbolic links that lead along `path`, each with its text, and the real path at its end."""
    links: list[tuple[str, str]] = []
    at = "/"
    waiting = path.split("/")
    while waiting:
        part = waiting.pop(0)
        if part == "..":
            at = os.path.dirname(at)
        elif part not in {"", "."}:
            inner = os.path.join(at, part)
            if not os.path.islink(inner):
                at = inner
                continue
            target = os.readlink(inner)
            if (inner, target) in links:
                return links, os.path.realpath(path)  # a circle: nothing is there
            links.append((inner, target))
            at = "/" if target.startswith("/") else at
            waiting = [*target.split("/"), *waiting]
    return links, at


def _homes() -> Iterable[str]:
    """The home of the user that this runs as, by its account and by its environment: keys and tokens lie there."""
    try:
        account = pwd.getpwuid(os.getuid()).pw_dir
    except KeyError:
        account = "/"
    return {home for home in (account, os.environ.get("HOME", "/")) if home.startswith("/")}


def _under(path: str, places: Iterable[str]) -> bool:
    return any(path.startswith(place.rstrip("/") + "/") for place in places)
