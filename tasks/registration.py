"""Registering and pinning on their own: what people and the platform do before anything is executed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from contracts.errors import NotFoundError
from runtime.requests import FoundData, archive_name, find_data, packed
from runtime.sizes import readable_size
from tasks.showing import show_table
from tasks.stage import step

if TYPE_CHECKING:
    from runtime.installation import Installation
    from runtime.registry.model_packages import RegisteredModelPackage
    from runtime.registry.packages import Registered


@step(retried=True)
def register_package_archive(installation: Installation, path: str) -> Registered:
    """The package at `path`, a folder or ZIP on the worker's machine, its key and version claimed for exactly its bytes.

    Retry: safe; the same archive registers once.
    """
    place = _existing(path)
    with packed(place, lambda _note: None) as archive:
        registered = installation.packages.register(archive, archive_name=archive_name(place))
    _show("package", registered.registration["archive"], created=registered.created)
    return registered


@step(retried=True)
def register_model_archive(installation: Installation, path: str) -> RegisteredModelPackage:
    """The model package at `path`, a ZIP on the worker's machine, registered.

    Retry: safe; the same archive registers once.
    """
    place = _existing(path)
    registered = installation.model_packages.register(place, archive_name=place.name)
    _show("model-package", registered.registration["archive"], created=registered.created)
    return registered


@step(retried=True)
def pin_data(installation: Installation, source: str, name: str) -> FoundData:
    """The pinned data of `source`, and `name` pointing at it where one is given.

    Retry: safe; the same bytes are the same snapshot.
    """
    found = find_data(installation, source, name=name or None)
    said = {
        "digest": found.object.sha256,
        "items": found.items,
        "bytes": readable_size(found.bytes),
        "new": found.created,
    }
    show_table("data", [{"": key, "value": str(value)} for key, value in said.items()], "The pinned data set")
    return found


def _existing(path: str) -> Path:
    place = Path(path)
    if not place.is_absolute() or not place.exists():
        raise NotFoundError(
            f"there is no {path!r} on the worker's machine",
            hint="Prefect cannot upload: give an absolute path that the worker sees, or use `mtr package register`.",
            context={"path": path},
        )
    return place


def _show(key: str, archive: dict[str, Any], *, created: bool) -> None:
    rows = [{"": name, "value": str(value)} for name, value in {**archive, "new": created}.items()]
    show_table(key, rows, "What was registered")
