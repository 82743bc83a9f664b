"""What the kernel counts of this container's memory. Standard library only: see `init`.

Sources: the kernel's `Documentation/admin-guide/cgroup-v2.rst` (memory.events, memory.peak, memory.max) and
`cgroup-v1/memory.rst` (memory.oom_control, memory.max_usage_in_bytes, memory.limit_in_bytes).
"""

from __future__ import annotations

import contextlib
import os

UNLIMITED_BYTES = 1 << 60
"""A limit of cgroup v1 from here on is none: the kernel writes the largest multiple of a page."""


class MemoryCounters:
    """The counters of the memory cgroup that this process is in.

    Args:
        proc: where /proc is.
        cgroups: where the cgroup file systems are mounted.
    """

    def __init__(self, proc: str = "/proc", cgroups: str = "/sys/fs/cgroup") -> None:
        self._folder, self._is_v2 = _memory_cgroup(proc, cgroups)

    def oom_kills(self) -> int:
        """How many processes of this cgroup the kernel ended for memory so far; 0 where that is not counted."""
        name = "memory.events" if self._is_v2 else "memory.oom_control"
        for line in self._read(name).splitlines():
            key, _, value = line.partition(" ")
            if key == "oom_kill" and value.isdecimal():
                return int(value)
        return 0

    def peak_bytes(self) -> int | None:
        """The most that the cgroup had; `None` where that is not counted: cgroup v2 before Linux 5.19."""
        return _number(self._read("memory.peak" if self._is_v2 else "memory.max_usage_in_bytes"))

    def limit_bytes(self) -> int | None:
        """The most that the cgroup may have; `None` for no limit."""
        limit = _number(self._read("memory.max" if self._is_v2 else "memory.limit_in_bytes"))
        return None if limit is None or limit >= UNLIMITED_BYTES else limit

    def _read(self, name: str) -> str:
        with contextlib.suppress(OSError, UnicodeDecodeError), open(f"{self._folder}/{name}") as file:
            return file.read()
        return ""


def _memory_cgroup(proc: str, cgroups: str) -> tuple[str, bool]:
    """Its folder, and whether it is of cgroup v2.

    A container may see its own cgroup as the root of the mount, whatever path /proc tells: then that is where it is.
    """
    lines = []
    with contextlib.suppress(OSError), open(f"{proc}/self/cgroup") as file:
        lines = [line.rstrip("\n").split(":", 2) for line in file]
    for _, controllers, path in (line for line in lines if len(line) == 3):
        if "memory" in controllers.split(","):
            return _existing(f"{cgroups}/memory", path, "memory.limit_in_bytes"), False
    unified = next((line[2] for line in lines if len(line) == 3 and line[0] == "0"), "/")
    return _existing(cgroups, unified, "memory.events"), True


def _existing(mount: str, path: str, file: str) -> str:
    own = f"{mount}/{path.strip('/')}".rstrip("/")
    return own if os.path.exists(f"{own}/{file}") else mount


def _number(text: str) -> int | None:
    text = text.strip()
    return int(text) if text.isdecimal() else None
