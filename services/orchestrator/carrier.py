"""Processes of their own that each take one execution to its end, whatever becomes of who started them.

Two locks tell every process that uses this home which of them there are, those of a dispatcher that was killed included.
The kernel gives a lock back once nobody who inherited it lives, so nothing has to be tidied up:

- `carried.lock` in the execution's folder: somebody carries it out, or has just been started to.
- `carriers/<number>.lock` under home: one of `max_executions` places is taken.

The locks only spare needless processes. Who really holds an execution is the ledger's claim.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import subprocess
import sys
import threading
from typing import TYPE_CHECKING, Final

from runtime.execution.journal import Journal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from runtime.settings import Settings

_DOORS_ALONE: Final = ("MTR_API_TOKEN", "MTR_API_PREVIOUS_TOKEN", "MTR_RABBITMQ_PASSWORD", "RABBITMQ_PASSWORD")
"""Secrets of the doors, which a process that starts packages has no use for."""


def start_carrier(
    settings: Settings, execution_id: str, *, place: int | None = None, ended: Callable[[], None] = lambda: None
) -> bool:
    """Whether a process was started for the execution; false where one of this home carries it out already.

    It loads these very settings, outlives this process, and is waited for as long as this one lives.

    Args:
        settings: the installation's.
        execution_id: which execution; what the process says goes to `detached.log` beside its journal.
        place: a lock that the process keeps as long as it lives; the caller closes its own copy.
        ended: called, in a thread, when the process has ended.

    Raises:
        OSError: this machine cannot start it now.
    """
    carried = _lock(_carried_path(settings, execution_id))
    if carried is None:
        return False
    try:
        log = Journal.of(settings.executions_root, execution_id).path.with_name("detached.log")
        with log.open("ab") as output:
            process = subprocess.Popen(
                [sys.executable, "-m", "services.cli", "executions", "resume", execution_id],
                env=_environment(settings),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
                pass_fds=[carried] if place is None else [carried, place],
            )
    finally:
        os.close(carried)  # the process has its own

    def reap() -> None:
        process.wait()
        ended()

    threading.Thread(target=reap, name=f"carrier of {execution_id}", daemon=True).start()
    return True


def take_place(settings: Settings) -> int | None:
    """The lock of one of this home's `max_executions` places, or `None` while all are taken. The caller closes it.

    Raises:
        OSError: the lock's file cannot be made.
    """
    for number in range(settings.max_executions):
        place = _lock(settings.home / "carriers" / f"{number}.lock")
        if place is not None:
            return place
    return None


@contextlib.contextmanager
def carried_here(settings: Settings, execution_id: str) -> Iterator[None]:
    """While the block lasts, no dispatcher of this home starts a process for the execution."""
    # Somebody else's hold, our own parent's for us included, serves as well; and no file is worth an execution.
    held = None
    with contextlib.suppress(OSError):
        held = _lock(_carried_path(settings, execution_id))
    try:
        yield
    finally:
        if held is not None:
            os.close(held)


def _carried_path(settings: Settings, execution_id: str) -> Path:
    return Journal.of(settings.executions_root, execution_id).path.with_name("carried.lock")


def _lock(path: Path) -> int | None:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _environment(settings: Settings) -> dict[str, str]:
    environment = {**os.environ, **settings.to_environment()}
    return {name: value for name, value in environment.items() if name not in _DOORS_ALONE}
