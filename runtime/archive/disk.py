"""Naming what a disk refuses while an archive is written or unpacked."""

from __future__ import annotations

import errno
from contextlib import contextmanager
from typing import TYPE_CHECKING

from contracts.errors import NotFoundError, WorkspaceLimitError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})
_NO_PLACE = frozenset({errno.ENOENT, errno.ENOTDIR, errno.EACCES, errno.EPERM, errno.EROFS})


@contextmanager
def refusals_named(destination: Path) -> Iterator[None]:
    """Inside of it, what the disk around `destination` refuses is said as an error of this product.

    Raises:
        WorkspaceLimitError: the disk is full.
        NotFoundError: nothing can be written there: no such folder, or no permission.
    """
    try:
        yield
    except OSError as error:
        if error.errno in _FULL:
            raise WorkspaceLimitError(
                f"no room in {destination.parent} for {destination.name}: {error.strerror}",
                hint="Free disk space there, or choose a place on a larger disk.",
                context={"path": str(destination)},
            ) from error
        if error.errno in _NO_PLACE:
            raise NotFoundError(
                f"cannot write {destination}: {error.strerror}",
                hint="Choose a place in a folder that exists and may be written to.",
                context={"path": str(destination)},
            ) from error
        raise
