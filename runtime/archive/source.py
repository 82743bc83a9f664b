"""An archive's file, opened once and read by position."""

from __future__ import annotations

import hashlib
import os
import stat
from contextlib import contextmanager
from typing import TYPE_CHECKING

from contracts.errors import ArchiveRejectedError, ArchiveTooLargeError, NotFoundError
from contracts.limits import CHUNK_BYTES

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


class ArchiveSource:
    """The bytes of one open archive file.

    Attributes:
        name: the file's name, for messages.
        size_bytes: its size when it was opened.
    """

    def __init__(self, descriptor: int, name: str) -> None:
        self._descriptor = descriptor
        self._opened_as = os.fstat(descriptor)
        self.name = name
        self.size_bytes = self._opened_as.st_size

    def read(self, offset: int, length: int) -> bytes:
        """The `length` bytes at `offset`; fewer only where the file ends."""
        content = os.pread(self._descriptor, length, offset)
        while len(content) < length:
            more = os.pread(self._descriptor, length - len(content), offset + len(content))
            if not more:
                break
            content += more
        return content

    def chunks(self, offset: int, length: int) -> Iterator[bytes]:
        """The `length` bytes at `offset`, in pieces; ends early only where the file ends."""
        end = offset + length
        while offset < end and (chunk := os.pread(self._descriptor, min(CHUNK_BYTES, end - offset), offset)):
            offset += len(chunk)
            yield chunk

    def sha256(self) -> str:
        """The digest of the whole file."""
        digest = hashlib.sha256()
        for chunk in self.chunks(0, self.size_bytes):
            digest.update(chunk)
        return digest.hexdigest()

    def require_unchanged(self) -> None:
        """Returns only if nobody wrote to the file since it was opened, so that all that was read belongs together.

        Raises:
            ArchiveRejectedError: the file changed while it was read.
        """
        now = os.fstat(self._descriptor)
        if (now.st_size, now.st_mtime_ns) != (self._opened_as.st_size, self._opened_as.st_mtime_ns):
            message = "the file changed while it was read"
            raise ArchiveRejectedError(
                f"{self.name} is refused: {message}",
                hint="Wait until whatever writes the file has finished, then try again.",
                context={"archive": self.name, "violations": [{"path": "", "message": message}]},
            )


@contextmanager
def open_archive(path: Path, max_bytes: int, name: str | None = None) -> Iterator[ArchiveSource]:
    """The regular file at `path`, open for reading inside the `with`.

    Args:
        path: the ZIP file; a symbolic link to one is followed, since its owner named it.
        max_bytes: the largest size that is opened.
        name: what messages call it; by default the file's name.

    Raises:
        NotFoundError: there is no such file, or it may not be read.
        ArchiveRejectedError: it is a folder, a device, a pipe or a socket.
        ArchiveTooLargeError: it is larger than `max_bytes`.
    """
    name = name or path.name
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)  # a pipe must not block the open
    except OSError as error:
        raise NotFoundError(
            f"cannot open the archive {path}: {error.strerror}",
            hint="Give the path of a readable ZIP file.",
            context={"path": str(path)},
        ) from error
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise ArchiveRejectedError(
                f"{name} is refused: it is not a regular file",
                hint="Give a ZIP file; `mtr package build FOLDER` makes one from a folder.",
                context={"archive": name, "violations": [{"path": "", "message": "not a regular file"}]},
            )
        if found.st_size > max_bytes:
            raise ArchiveTooLargeError(
                f"{name} has {found.st_size} bytes, the limit is {max_bytes}",
                hint="Leave data and weights out of the package: data belongs in a data set, weights in a model package.",
                context={"archive": name, "size_bytes": found.st_size, "limit_bytes": max_bytes},
            )
        yield ArchiveSource(descriptor, name)
    finally:
        os.close(descriptor)
