"""A package's read-only inputs: shown in its input folder, and proven unchanged where they could not be protected."""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

    from runtime.execution.launch import Launch


class Inputs:
    """The inputs of one launch.

    With a view of its own, the package finds them mounted read-only. Without one they are symbolic links, and their
    looks are taken down before it starts. A status-change time cannot be set back, so what looks the same is the same.
    """

    def __init__(self, launch: Launch) -> None:
        self._given = dict(launch.inputs)
        self._evidence = launch.evidence
        self._folder = launch.workspace.input
        self._manifest = launch.workspace.dataset_manifest
        self._before: dict[str, tuple[int, ...]] = {}
        self._fingerprint: Any = None
        self._read_only = True

    def prepare(self) -> None:
        """Afterwards each input has an empty file or folder at its place, for a mount to cover.

        Raises:
            OSError: a place is taken by something that is not empty.
        """
        for place, source in self._given.items():
            target = self._folder / place
            target.parent.mkdir(parents=True, exist_ok=True)
            _clear(target)
            if source.is_dir():
                target.mkdir()
            else:
                target.touch()

    def settle(self, *, read_only: bool) -> None:
        """Afterwards the package will find its inputs, mounted when `read_only`, else linked and taken down."""
        self._read_only = read_only
        if read_only:
            return
        for place, source in self._given.items():
            target = self._folder / place
            _clear(target)
            target.symlink_to(source.resolve())
        self._before = self._looks()
        if self._evidence is not None:
            self._fingerprint = self._evidence.fingerprint()

    def changed(self) -> tuple[str, ...]:
        """The inputs that the package changed, relative to its input folder where they are ours to compare."""
        if self._read_only:
            return ()
        now = self._looks()
        changed = [place for place, looks in self._before.items() if now.get(place) != looks]
        if self._evidence is not None and self._fingerprint is not None:
            changed += self._evidence.changed_files(self._fingerprint)
        return tuple(changed)

    def _looks(self) -> dict[str, tuple[int, ...]]:
        """What the links, the files and the manifest look like. Folders are the evidence's to look through."""
        looks = {}
        for place in (*self._given, self._manifest.name):
            path = self._folder / place
            try:
                looks[place] = (*_look(os.lstat(path)), *_look(path.stat()))
            except OSError:
                looks[place] = ()
        return looks


def _look(status: os.stat_result) -> tuple[int, ...]:
    if stat.S_ISDIR(status.st_mode):
        return (status.st_ino,)
    return (status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)


def _clear(target: Path) -> None:
    """Removes a link, an empty file or an empty folder of an earlier launch."""
    try:
        status = os.lstat(target)
    except FileNotFoundError:
        return
    if stat.S_ISDIR(status.st_mode):
        target.rmdir()
    else:
        target.unlink()
