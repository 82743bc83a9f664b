"""Ending what outlived its supervisor: the last net, for processes that no parent of ours holds any more."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from typing import TYPE_CHECKING, Final

from contracts.errors import InternalError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

# ruff: noqa: PTH115, PTH123, PTH208 - thousands of reads of /proc; its names are numbers, and links are bytes

TOKEN_NAME: Final = "MTR_INTERNAL_EXECUTION"  # noqa: S105 - a mark to recognise processes by, no secret
"""Every process of a package has it in its environment: `<execution id>/<attempt>`."""

_END_SECONDS: Final = 10.0
_PAUSE_SECONDS: Final = 0.01


def token_of(execution_id: str, attempt: int) -> str:
    """The mark of an attempt's processes."""
    return f"{execution_id}/{attempt}"


def find_survivors(execution_id: str, attempt: int, directory: Path) -> list[int]:
    """The pids of all living processes of an attempt.

    A process belongs to it when its environment has the attempt's mark; or, since a process can wipe its environment,
    when it works in the attempt's folder and has no terminal (somebody looking around there has one).

    Args:
        execution_id: the execution.
        attempt: the attempt's number.
        directory: the attempt's folder.
    """
    mark = f"{TOKEN_NAME}={token_of(execution_id, attempt)}".encode()
    place = os.fsencode(directory)
    return [pid for pid in _processes() if pid != os.getpid() and _belongs(pid, mark, place)]


def end_survivors(execution_id: str, attempt: int, directory: Path) -> int:
    """Afterwards no process of the attempt lives; answers how many were ended.

    Raises:
        InternalError: one cannot be ended (it hangs in the kernel, or is another user's).
    """
    ended: set[int] = set()
    deadline = time.monotonic() + _END_SECONDS
    while found := find_survivors(execution_id, attempt, directory):
        if time.monotonic() > deadline:
            raise InternalError(
                f"processes {found} of execution {execution_id}, attempt {attempt}, cannot be ended",
                hint="They hang in the kernel or belong to another user: end them by hand, then run this again.",
                context={"pids": found},
            )
        for pid in found:
            _end(pid, execution_id, attempt, directory)
        ended.update(found)
        time.sleep(_PAUSE_SECONDS)
    return len(ended)


def _end(pid: int, execution_id: str, attempt: int, directory: Path) -> None:
    """Kills `pid` if it is still the process that was found: a number is reused, a pid descriptor is not."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        handle = os.pidfd_open(pid)
        try:
            mark = f"{TOKEN_NAME}={token_of(execution_id, attempt)}".encode()
            if _belongs(pid, mark, os.fsencode(directory)):
                signal.pidfd_send_signal(handle, signal.SIGKILL)
        finally:
            os.close(handle)


def _processes() -> Iterator[int]:
    for name in os.listdir("/proc"):
        if name.isdecimal():
            yield int(name)


def _belongs(pid: int, mark: bytes, place: bytes) -> bool:
    try:
        with open(f"/proc/{pid}/stat", "rb") as source:
            fields = source.read().rpartition(b")")[2].split()
        if fields[0] in b"ZX":
            return False  # dead already; its parent has only not asked yet
        with open(f"/proc/{pid}/environ", "rb") as source:
            if mark in source.read().split(b"\0"):
                return True
        if fields[4] != b"0":  # it has a terminal
            return False
        working = os.readlink(f"/proc/{pid}/cwd".encode()).removesuffix(b" (deleted)")
    except (OSError, IndexError):
        return False  # gone, or another user's
    return working == place or working.startswith(place + b"/")
