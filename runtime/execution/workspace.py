"""Where one attempt runs: folders that the package may use, and beside them one that it may not.

```
<workspace root>/<execution id>/<attempt>/           root_dir, read-only to the package
    code/       the unpacked package, and its working directory
    input/      dataset-manifest.json, dataset/, model-input/: what was given is read-only, new files are allowed
    output/     what training leaves; only from here are artifacts taken
    tmp/ home/  its TMPDIR (and /tmp) and HOME
<workspace root>/<execution id>/<attempt>.private/   the runtime's own; hidden from the package where the machine allows
    training-end.json   there once training has finished: a re-run goes on from it and does not train again
```
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import stat
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from contracts import strict_json
from contracts.errors import InternalError, InvalidDocumentError
from contracts.limits import MAX_RECORD_BYTES
from runtime.execution.record import TrainingEnd
from runtime.execution.survivors import end_survivors

# ruff: noqa: PTH208 - folders are listed through descriptors: their paths may be longer than a path can be

DATASET_MANIFEST_NAME: Final = "dataset-manifest.json"
MODEL_INPUT_FOLDER: Final = "model-input"

_PRIVATE: Final = ".private"
_END_NAME: Final = "training-end.json"
_FOLDERS: Final = ("code", "input", "output", "tmp", "home")
_EXECUTION_ID: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_REMOVAL_ROUNDS: Final = 5


@dataclass(frozen=True, slots=True)
class Removed:
    """What a removal took away."""

    files: int
    bytes: int


@dataclass(frozen=True, slots=True)
class Workspace:
    """The folders of one attempt.

    Attributes:
        root: the installation's workspace root.
        execution_id: whose it is.
        attempt: which attempt's, from 1.
    """

    root: Path
    execution_id: str
    attempt: int

    def __post_init__(self) -> None:
        if not _EXECUTION_ID.fullmatch(self.execution_id) or self.attempt < 1:
            raise InternalError(
                f"{self.execution_id!r}, attempt {self.attempt!r}, names no workspace",
                hint="Report this: an execution id is a lower-case UUID, an attempt a number from 1.",
            )

    @property
    def directory(self) -> Path:
        """The attempt's folder, `root_dir` of the execution request."""
        return self.root / self.execution_id / str(self.attempt)

    @property
    def code(self) -> Path:
        """The unpacked package."""
        return self.directory / "code"

    @property
    def input(self) -> Path:
        """What training reads."""
        return self.directory / "input"

    @property
    def output(self) -> Path:
        """What training leaves."""
        return self.directory / "output"

    @property
    def tmp(self) -> Path:
        """Its temporary files."""
        return self.directory / "tmp"

    @property
    def short_tmp(self) -> Path:
        """A short name for `tmp` where the package has no /tmp of its own: a socket's path has at most 108 bytes.

        Multiprocessing puts its sockets, and so its data loaders', into the temporary folder.
        """
        return Path(tempfile.gettempdir()) / f"mtr-{self.execution_id.replace('-', '')}-{self.attempt}"

    @property
    def home(self) -> Path:
        """Its home folder."""
        return self.directory / "home"

    @property
    def private(self) -> Path:
        """The runtime's own folder."""
        return self.root / self.execution_id / f"{self.attempt}{_PRIVATE}"

    @property
    def dataset_manifest(self) -> Path:
        """Where the dataset manifest belongs; whoever materializes the inputs writes it."""
        return self.input / DATASET_MANIFEST_NAME

    @classmethod
    def create(cls, root: Path, execution_id: str, attempt: int) -> Workspace:
        """Afterwards the attempt has empty folders, and nothing of an earlier run of it is left, processes included.

        Raises:
            OSError: the folders cannot be made.
        """
        workspace = cls(root, execution_id, attempt)
        workspace.remove()
        (root / execution_id).mkdir(mode=0o700, parents=True, exist_ok=True)
        workspace.private.mkdir(mode=0o700, exist_ok=True)
        workspace.directory.mkdir(mode=0o700)
        for name in _FOLDERS:
            (workspace.directory / name).mkdir(mode=0o700)
        return workspace

    @classmethod
    def find(cls, root: Path, execution_id: str) -> tuple[Workspace, ...]:
        """The workspaces of `execution_id` that exist on this machine, the newest attempt first."""
        try:
            names = [entry.name for entry in (root / execution_id).iterdir()]
        except FileNotFoundError:
            return ()
        attempts = {int(number) for name in names if (number := name.removesuffix(_PRIVATE)).isdecimal()}
        return tuple(cls(root, execution_id, attempt) for attempt in sorted(attempts, reverse=True) if attempt > 0)

    def keep_end(self, end: TrainingEnd) -> None:
        """Afterwards `training_end` answers `end`, also after a power cut, and so do the artifacts that it names.

        Raises:
            OSError: the disk is full.
        """
        for artifact in end.completion.artifacts:
            with contextlib.suppress(OSError):  # verification says what is wrong with an artifact
                _sync(self.output / artifact.path)
        place = self.private / _END_NAME
        partial = place.with_name(f".{_END_NAME}.{os.getpid()}")
        try:
            descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
            with os.fdopen(descriptor, "wb") as out:
                out.write(strict_json.dump(end.to_document()))
                out.flush()
                os.fsync(out.fileno())
            partial.replace(place)
            _sync(self.private)
        finally:
            partial.unlink(missing_ok=True)

    def training_end(self) -> TrainingEnd | None:
        """How training ended here, if it finished and its folders are still there; `None` means that it must run."""
        try:
            descriptor = os.open(self.private / _END_NAME, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        except OSError:
            return None
        with os.fdopen(descriptor, "rb") as source:
            content = source.read(MAX_RECORD_BYTES + 1)
        try:
            end = TrainingEnd.from_document(strict_json.parse_unchecked(content))
        except (InvalidDocumentError, KeyError, TypeError, AttributeError):
            return None  # it is written as a whole: anything else was not written by us
        return None if self.lost() else end

    def lost(self) -> str:
        """The first of its folders that is gone or is no folder any more, relative to `directory`; empty if none is."""
        for name in ("", *_FOLDERS):
            try:
                mode = os.lstat(self.directory / name).st_mode
            except OSError:
                return name or "."
            if not stat.S_ISDIR(mode):
                return name or "."
        return ""

    def make_short_tmp(self) -> None:
        """Afterwards `short_tmp` leads to `tmp`, unless somebody else has taken its name."""
        with contextlib.suppress(FileExistsError):
            self.short_tmp.symlink_to(self.tmp)

    def remove_short_tmp(self) -> None:
        """Afterwards no `short_tmp` of ours is left."""
        with contextlib.suppress(OSError):
            if self.short_tmp.readlink() == self.tmp:
                self.short_tmp.unlink()

    def remove(self) -> Removed:
        """Afterwards nothing of it is left: no process, no file, however deep or protected; safe to call again.

        Raises:
            InternalError: something could not be removed; the message names it.
        """
        end_survivors(self.execution_id, self.attempt, self.directory)
        self.remove_short_tmp()
        files = size = 0
        failed: OSError | None = None
        for place in (self.directory, self.private):
            for _ in range(_REMOVAL_ROUNDS):  # again where somebody still wrote into it
                try:
                    removed = _remove_tree(place)
                except OSError as error:
                    failed = error
                    continue
                files, size, failed = files + removed.files, size + removed.bytes, None
                break
            if failed is not None:
                raise InternalError(
                    f"workspace {place} could not be removed: {failed}",
                    hint=f"Remove {place} by hand; look for mounts or other programs that use it.",
                ) from failed
        with contextlib.suppress(OSError):  # another attempt's workspace is in it, or it is gone
            (self.root / self.execution_id).rmdir()
        return Removed(files, size)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _remove_tree(top: Path) -> Removed:
    """Removes `top` without recursion and without long paths: a package may nest folders deeper than either allows.

    Every folder found is moved up into `top` and emptied there, so that no step looks more than two levels down.
    """
    try:
        mode = os.lstat(top).st_mode
    except FileNotFoundError:
        return Removed(0, 0)
    if not stat.S_ISDIR(mode):
        size = os.lstat(top).st_size
        top.unlink()
        return Removed(1, size)

    files = size = moved = 0
    root = _open_writable(top)
    try:
        while names := os.listdir(root):
            for name in names:
                try:
                    size += os.stat(name, dir_fd=root, follow_symlinks=False).st_size
                    os.unlink(name, dir_fd=root)
                    files += 1
                except IsADirectoryError:
                    folder = _open_writable(name, within=root)
                    try:
                        for inner in os.listdir(folder):
                            below = os.stat(inner, dir_fd=folder, follow_symlinks=False)
                            if stat.S_ISDIR(below.st_mode):
                                os.close(_open_writable(inner, within=folder))  # moving a folder writes its `..`
                                moved += 1
                                os.rename(inner, _unused(root, moved), src_dir_fd=folder, dst_dir_fd=root)
                            else:
                                os.unlink(inner, dir_fd=folder)
                                files, size = files + 1, size + below.st_size
                    finally:
                        os.close(folder)
                    os.rmdir(name, dir_fd=root)
                except FileNotFoundError:
                    continue
    finally:
        os.close(root)
    top.rmdir()
    return Removed(files, size)


def _unused(root: int, number: int) -> str:
    while True:
        name = f".moved-{number}-{os.getpid()}"
        try:
            os.stat(name, dir_fd=root, follow_symlinks=False)
        except FileNotFoundError:
            return name
        number += 1_000_003


def _open_writable(path: Path | str, *, within: int | None = None) -> int:
    """A folder's descriptor, the folder made readable and writable to us: a package may have taken that away.

    Raises:
        OSError: it is gone, or is a symbolic link by now.
    """
    handle = os.open(path, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=within)
    try:
        through = f"/proc/self/fd/{handle}"
        with contextlib.suppress(PermissionError):  # another user's: reading it may work all the same
            if os.fstat(handle).st_mode & stat.S_IRWXU != stat.S_IRWXU:
                os.chmod(through, stat.S_IRWXU)  # noqa: PTH101 - leads to the very folder that was opened
        return os.open(through, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except FileNotFoundError as error:
        raise OSError(errno.EIO, "no /proc to open a folder through", str(path)) from error
    finally:
        os.close(handle)
