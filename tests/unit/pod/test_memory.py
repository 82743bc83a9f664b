"""The kernel's counters of a container, in the two layouts that clusters have."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from runtime.pod.memory import MemoryCounters

if TYPE_CHECKING:
    from pathlib import Path

GIB = 1 << 30
V1 = "3:cpu,cpuacct:/kubepods/a\n2:memory:/kubepods/a\n0::/\n"
V1_FILES = {
    "memory.oom_control": "oom_kill_disable 0\nunder_oom 0\noom_kill 2\n",
    "memory.max_usage_in_bytes": f"{3 * GIB}\n",
    "memory.limit_in_bytes": f"{4 * GIB}\n",
}
V2_FILES = {
    "memory.events": "low 0\nhigh 0\nmax 31\noom 2\noom_kill 2\noom_group_kill 0\n",
    "memory.peak": f"{3 * GIB}\n",
    "memory.max": f"{4 * GIB}\n",
}


def counters(folder: Path, said: str, place: str, files: dict[str, str]) -> MemoryCounters:
    """Those of a process of which /proc says `said`, with the cgroup's `files` at `place` below the mount."""
    (folder / "proc" / "self").mkdir(parents=True)
    (folder / "proc" / "self" / "cgroup").write_text(said)
    cgroup = folder / "cgroups" / place
    cgroup.mkdir(parents=True)
    for name, content in files.items():
        (cgroup / name).write_text(content)
    return MemoryCounters(str(folder / "proc"), str(folder / "cgroups"))


@pytest.mark.parametrize(
    ("said", "place", "files"),
    [
        pytest.param(V1, "memory/kubepods/a", V1_FILES, id="v1"),
        pytest.param(V1, "memory", V1_FILES, id="v1, the container's own as the root of the mount"),
        pytest.param("0::/kubepods/a\n", "kubepods/a", V2_FILES, id="v2"),
        pytest.param("0::/\n", "", V2_FILES, id="v2 in a cgroup namespace"),
        pytest.param("0::/../../kubepods/a\n", "", V2_FILES, id="v2, its path outside of the namespace"),
    ],
)
def test_kills_peak_and_limit_are_read(tmp_path: Path, said: str, place: str, files: dict[str, str]) -> None:
    found = counters(tmp_path, said, place, files)
    assert (found.oom_kills(), found.peak_bytes(), found.limit_bytes()) == (2, 3 * GIB, 4 * GIB)


@pytest.mark.parametrize(
    ("said", "place", "files"),
    [
        pytest.param(V1, "memory", {**V1_FILES, "memory.limit_in_bytes": "9223372036854771712\n"}, id="v1"),
        pytest.param("0::/\n", "", {**V2_FILES, "memory.max": "max\n"}, id="v2"),
    ],
)
def test_no_limit_is_none(tmp_path: Path, said: str, place: str, files: dict[str, str]) -> None:
    assert counters(tmp_path, said, place, files).limit_bytes() is None


def test_what_is_not_counted_is_not_invented(tmp_path: Path) -> None:
    found = counters(tmp_path, "", "", {})
    assert (found.oom_kills(), found.peak_bytes(), found.limit_bytes()) == (0, None, None)
