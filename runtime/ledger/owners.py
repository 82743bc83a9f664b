"""Who is working on an execution, and whether that process is still there."""

from __future__ import annotations

import json
import os
import socket
import uuid
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class Owner:
    """A process, named so that no other process ever has the same name.

    Attributes:
        host: the machine's (or container's) name.
        boot_id: this start of the machine.
        pid_namespace: where `pid` counts; containers of one machine have the same boot and other namespaces.
        pid: the process.
        process_started: its start, in clock ticks since boot: a later process with the same `pid` has another.
    """

    host: str
    boot_id: str
    pid_namespace: str
    pid: int
    process_started: int

    @classmethod
    def here(cls) -> Owner:
        """The calling process."""
        host, boot_id, pid_namespace = _machine(os.getpid())
        started = _process_started(os.getpid())
        return cls(host, boot_id, pid_namespace, os.getpid(), started if started is not None else 0)

    def is_gone(self) -> bool | None:
        """Whether the process has ended; `None` when that cannot be seen from here."""
        host, boot_id, pid_namespace = _machine(os.getpid())
        if self.host != host:
            return None
        if self.boot_id != boot_id:
            return True
        if self.pid_namespace != pid_namespace:
            return None
        return _process_started(self.pid) != self.process_started

    def new_holder(self) -> str:
        """A name for one part of this process, as the holder of a lease: no other part of it or of any other has it."""
        return json.dumps({"owner": asdict(self), "part": str(uuid.uuid4())})

    @classmethod
    def of_holder(cls, holder: str) -> Owner | None:
        """The process that a name of `new_holder` tells; `None` for any other name."""
        try:
            said: Any = json.loads(holder)
            return cls(**said["owner"])
        except (ValueError, TypeError, LookupError):
            return None

    def __str__(self) -> str:
        return f"process {self.pid} on {self.host}"


@cache
def _machine(_pid: int) -> tuple[str, str, str]:
    """Host, boot and PID namespace; kept per process id, since a fork into a new namespace inherits the cache."""
    boot_id = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    return socket.gethostname(), boot_id, os.readlink("/proc/self/ns/pid")  # noqa: PTH115 - a name, no path


def _process_started(pid: int) -> int | None:
    """When the process began, in ticks since boot; `None` when there is no such process or only its remains."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return None
    fields = stat[stat.rindex(b")") + 2 :].split()  # the name before it may hold spaces and parentheses
    state, started = fields[0], fields[19]
    return None if state in {b"Z", b"X"} else int(started)
