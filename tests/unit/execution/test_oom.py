from __future__ import annotations

import pytest

from runtime.execution.oom import kernel_oom_kills


@pytest.fixture
def machine(tmp_path):
    def make(membership: str, **files: str) -> dict:
        for name, content in files.items():
            path = tmp_path / "cgroup" / name.replace("__", "/").replace("_DOT_", ".")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content)
        (tmp_path / "self").write_text(membership)
        (tmp_path / "vmstat").write_text("nr_free_pages 1\noom_kill 99\n")
        return {"cgroups": tmp_path / "cgroup", "membership": tmp_path / "self", "whole_machine": tmp_path / "vmstat"}

    return make


def test_version_2_counts_our_group(machine) -> None:
    where = machine("0::/a/b\n", a__b__memory_DOT_events="low 0\noom 2\noom_kill 3\n")
    assert kernel_oom_kills(**where) == 3


def test_version_1_counts_our_group(machine) -> None:
    where = machine("4:memory:/a\n0::/\n", memory__a__memory_DOT_oom_control="under_oom 0\noom_kill 5\n")
    assert kernel_oom_kills(**where) == 5


def test_in_a_container_the_group_is_the_root(machine) -> None:
    where = machine("0::/kubepods/x\n", memory_DOT_events="oom_kill 7\n")
    assert kernel_oom_kills(**where) == 7


def test_without_a_group_the_whole_machine_counts(machine) -> None:
    assert kernel_oom_kills(**machine("0::/\n")) == 99


def test_without_any_counter_there_is_no_kill(tmp_path) -> None:
    assert kernel_oom_kills(cgroups=tmp_path, membership=tmp_path / "a", whole_machine=tmp_path / "b") == 0
