"""The files that a package says it left: there, inside, whole, measured by us."""

from __future__ import annotations

import hashlib
import os
import stat
from typing import TYPE_CHECKING, Final

from contracts.errors import (
    ArtifactEmptyError,
    ArtifactMissingError,
    ArtifactOutsideError,
    RuntimeFault,
    WorkspaceLimitError,
)
from contracts.limits import CHUNK_BYTES, DEFAULT_MAX_WORKSPACE_BYTES
from contracts.result import ResultArtifact
from runtime.sizes import readable_size

if TYPE_CHECKING:
    from pathlib import Path

    from contracts.completion import Artifact, Completion

_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
"""Opening a pipe or a device must not wait for somebody at its other end."""


def verify_artifacts(
    completion: Completion,
    output_dir: Path,
    *,
    max_bytes: int = DEFAULT_MAX_WORKSPACE_BYTES,
) -> tuple[ResultArtifact, ...]:
    """The artifacts of `completion`, each with the size and digest that its file really has.

    Call it once no process of the package lives. Size and digest come from one reading of one open file, so that
    nothing can be put in its place in between; whoever uploads compares the digest again.

    1. From `output_dir` down, folder by folder, never through a symbolic link. 2. A regular file. 3. Not empty, and with
    the others not over the limit: a file of holes takes no room on the disk, but reading it takes for ever. 4. Read
    once, to its end.

    Args:
        completion: what the package says.
        output_dir: its output folder.
        max_bytes: of all of them.

    Raises:
        ArtifactOutsideError: a path leads through a symbolic link.
        ArtifactMissingError: nothing is there, or something that is no regular file.
        ArtifactEmptyError: the file has no bytes.
        WorkspaceLimitError: the files are larger than `max_bytes`.
    """
    verified: list[ResultArtifact] = []
    faults: list[RuntimeFault] = []
    for artifact in completion.artifacts:
        try:
            room = max_bytes - sum(other.size_bytes for other in verified)
            verified.append(_verify(artifact, output_dir, room))
        except RuntimeFault as fault:
            faults.append(fault)
    if faults:
        first = faults[0]
        first.context["artifacts"] = [{**fault.context, "message": fault.message} for fault in faults]
        raise first
    return tuple(verified)


def _verify(artifact: Artifact, output_dir: Path, room: int) -> ResultArtifact:
    handle = _open_inside(artifact.path, output_dir)
    try:
        status = os.fstat(handle)
        if not stat.S_ISREG(status.st_mode):
            raise _missing(artifact.path, "is no regular file")
        if status.st_size == 0:
            raise ArtifactEmptyError(
                f"artifact {artifact.path} is empty",
                hint="Write and close the file before train() returns, or leave it out of the completion.",
                context={"path": artifact.path},
            )
        if status.st_size > room:
            raise WorkspaceLimitError(
                f"artifact {artifact.path} has {readable_size(status.st_size)}, {readable_size(room)} are left of the limit",
                hint="Leave smaller artifacts, or raise max_workspace_bytes.",
                context={"path": artifact.path, "size_bytes": status.st_size},
            )
        digest, size = hashlib.sha256(), 0
        while chunk := os.read(handle, CHUNK_BYTES):
            digest.update(chunk)
            size += len(chunk)
    finally:
        os.close(handle)
    return ResultArtifact(**artifact.model_dump(), size_bytes=size, sha256=digest.hexdigest())


def _open_inside(path: str, output_dir: Path) -> int:
    """The open file at `path` below `output_dir`, reached without following one symbolic link."""
    *folders, name = [part for part in path.split("/") if part not in {"", "."}]
    at = os.open(output_dir, _FOLDER)
    try:
        for depth, part in enumerate((*folders, name)):
            flags = _FILE if depth == len(folders) else _FOLDER
            try:
                inner = os.open(part, flags, dir_fd=at)
            except OSError as error:
                raise _why_not(path, part, at, error) from error
            os.close(at)
            at = inner
    except BaseException:
        os.close(at)
        raise
    return at


def _why_not(path: str, part: str, folder: int, error: OSError) -> RuntimeFault:
    try:
        mode = os.stat(part, dir_fd=folder, follow_symlinks=False).st_mode
    except OSError:
        return _missing(path, "is not there")
    if stat.S_ISLNK(mode):
        return ArtifactOutsideError(
            f"artifact {path} leads through a symbolic link: {part}",
            hint="Copy the file itself into output_dir; links are not followed.",
            context={"path": path, "link": part},
        )
    return _missing(path, f"cannot be read: {error.strerror}")


def _missing(path: str, what: str) -> ArtifactMissingError:
    return ArtifactMissingError(
        f"artifact {path} {what}",
        hint="Write the file under context['workspace']['output_dir'] before train() returns.",
        context={"path": path},
    )
