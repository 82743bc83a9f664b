"""Whether the kernel ended processes for want of memory: its own counters, where this machine lets us read them."""

from __future__ import annotations

from pathlib import Path
from typing import Final

_CGROUPS: Final = Path("/sys/fs/cgroup")
_MEMBERSHIP: Final = Path("/proc/self/cgroup")
_WHOLE_MACHINE: Final = Path("/proc/vmstat")


def kernel_oom_kills(
    *, cgroups: Path = _CGROUPS, membership: Path = _MEMBERSHIP, whole_machine: Path = _WHOLE_MACHINE
) -> int:
    """How many processes the kernel has ended for memory: in our control group, else on the whole machine, else 0.

    Two answers make a difference; one alone says nothing.
    """
    for path in _counters(cgroups, membership):
        count = _count(path)
        if count is not None:
            return count
    return _count(whole_machine) or 0


def _counters(cgroups: Path, membership: Path) -> list[Path]:
    """The counter files of our group, version 2 and 1, first at its own path, then at the root that a container sees."""
    try:
        lines = membership.read_text().splitlines()
    except OSError:
        return []
    found = []
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers == "memory":
            found += [
                cgroups / "memory" / path.lstrip("/") / "memory.oom_control",
                cgroups / "memory/memory.oom_control",
            ]
        elif controllers == "":
            found += [cgroups / path.lstrip("/") / "memory.events", cgroups / "memory.events"]
    return found


def _count(path: Path) -> int | None:
    try:
        for line in path.read_text().splitlines():
            name, _, number = line.partition(" ")
            if name == "oom_kill":
                return int(number)
    except (OSError, ValueError):
        return None
    return None
