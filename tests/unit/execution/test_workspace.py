from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import uuid
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from contracts.base import validate
from contracts.completion import Completion
from contracts.errors import InternalError
from runtime.execution.record import ProcessRecord, TrainingEnd
from runtime.execution.survivors import TOKEN_NAME, find_survivors, token_of
from runtime.execution.workspace import Workspace

if TYPE_CHECKING:
    from collections.abc import Iterator

EXECUTION = "5b9e3c1e-0000-4000-8000-000000000001"


@pytest.fixture
def workspace(tmp_path) -> Workspace:
    return Workspace.create(tmp_path, EXECUTION, 1)


def end_of(workspace: Workspace, *paths: str) -> TrainingEnd:
    artifacts = [{"path": path, "role": "report", "format": "json"} for path in paths]
    return TrainingEnd(validate(Completion, {"artifacts": artifacts}), ProcessRecord(attempt=workspace.attempt))


def test_a_new_workspace_has_its_empty_folders(workspace) -> None:
    assert sorted(path.name for path in workspace.directory.iterdir()) == ["code", "home", "input", "output", "tmp"]


def test_only_its_owner_may_look_into_it(workspace) -> None:
    assert workspace.directory.parent.stat().st_mode & 0o077 == 0


def test_creating_it_again_removes_what_was_there(workspace) -> None:
    (workspace.output / "old").write_text("x")
    again = Workspace.create(workspace.root, EXECUTION, 1)
    assert list(again.output.iterdir()) == []


def test_removing_leaves_nothing_and_says_how_much_it_was(workspace) -> None:
    (workspace.output / "a").write_bytes(b"12345")
    removed = workspace.remove()
    assert (removed.files, removed.bytes >= 5, list(workspace.root.iterdir())) == (1, True, [])


def test_removing_twice_is_fine(workspace) -> None:
    workspace.remove()
    assert workspace.remove().files == 0


def test_another_attempt_stays(workspace) -> None:
    second = Workspace.create(workspace.root, EXECUTION, 2)
    workspace.remove()
    assert Workspace.find(workspace.root, EXECUTION) == (second,)


@pytest.mark.slow
def test_folders_deeper_than_a_path_can_be_are_removed(workspace) -> None:
    before = os.open(".", os.O_RDONLY)
    try:
        os.chdir(workspace.output)
        for _ in range(2500):
            Path("d" * 8).mkdir()
            os.chdir("d" * 8)
        Path("file").write_text("x")
    finally:
        os.fchdir(before)
        os.close(before)
    workspace.remove()
    assert list(workspace.root.iterdir()) == []


@pytest.fixture
def everybody_s() -> Iterator[Path]:
    """A folder that any user reaches: those above `tmp_path` are the test user's alone."""
    with tempfile.TemporaryDirectory(prefix="mtr-everybody-") as name:
        Path(name).chmod(0o777)
        yield Path(name)


def test_locked_folders_are_removed_also_by_a_user_without_privileges(everybody_s) -> None:
    # In a user namespace of its own the user has no right over files but their owner's.
    source = f"""
import os, sys
from pathlib import Path
from runtime.execution.workspace import Workspace
if os.getuid() == 0:
    os.setgid(65534), os.setuid(65534)
root = Path({str(everybody_s)!r})
workspace = Workspace.create(root, {EXECUTION!r}, 1)
inner = workspace.output / "a" / "b"
inner.mkdir(parents=True)
(inner / "file").write_text("x")
for folder in (inner, inner.parent, workspace.output):
    folder.chmod(0)
workspace.remove()
print(list(root.iterdir()))
"""
    done = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("[]\n", "")


def test_what_a_symbolic_link_points_at_is_left_alone(workspace, tmp_path) -> None:
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "file").write_text("x")
    (workspace.output / "link").symlink_to(precious)
    (workspace.output / "folder").mkdir()
    (workspace.output / "folder" / "link").symlink_to(precious)
    workspace.remove()
    assert (precious / "file").read_text() == "x"


def test_names_that_are_no_text_are_removed(workspace) -> None:
    (workspace.output / os.fsdecode(b"\xff\xfe")).mkdir()
    workspace.remove()
    assert list(workspace.root.iterdir()) == []


def test_removing_ends_what_still_runs_there(workspace) -> None:
    process = subprocess.Popen(["sleep", "600"], cwd=workspace.code, start_new_session=True)
    workspace.remove()
    assert process.wait(10) == -9


def test_a_process_is_known_by_its_mark(workspace) -> None:
    process = subprocess.Popen(["sleep", "600"], env={TOKEN_NAME: token_of(EXECUTION, 1)}, cwd="/")
    try:
        assert find_survivors(EXECUTION, 1, workspace.directory) == [process.pid]
    finally:
        process.kill()
        process.wait()


def test_a_process_of_another_attempt_is_left_alone(workspace) -> None:
    process = subprocess.Popen(["sleep", "600"], env={TOKEN_NAME: token_of(EXECUTION, 11)}, cwd="/")
    try:
        assert find_survivors(EXECUTION, 1, workspace.directory) == []
    finally:
        process.kill()
        process.wait()


def test_a_finished_training_is_remembered(workspace) -> None:
    (workspace.output / "report.json").write_text("{}")
    end = end_of(workspace, "report.json")
    workspace.keep_end(end)
    assert workspace.training_end() == end


def test_without_its_folders_no_training_is_finished(workspace) -> None:
    workspace.keep_end(end_of(workspace))
    workspace.output.rmdir()
    assert workspace.training_end() is None


def test_half_an_end_is_none(workspace) -> None:
    (workspace.private / "training-end.json").write_text('{"completion": {')
    assert workspace.training_end() is None


@pytest.mark.parametrize("name", ["output", "code", "input", "tmp", "home"])
def test_a_lost_folder_is_named(workspace, name) -> None:
    (workspace.directory / name).rmdir()
    assert workspace.lost() == name


def test_a_folder_replaced_by_a_link_is_lost(workspace, tmp_path) -> None:
    workspace.output.rmdir()
    workspace.output.symlink_to(tmp_path)
    assert workspace.lost() == "output"


def test_the_newest_attempt_is_found_first(workspace) -> None:
    tenth = Workspace.create(workspace.root, EXECUTION, 10)
    assert Workspace.find(workspace.root, EXECUTION) == (tenth, workspace)


def test_an_unknown_execution_has_no_workspace(tmp_path) -> None:
    assert Workspace.find(tmp_path, str(uuid.uuid4())) == ()


@pytest.mark.parametrize("execution_id", ["../../etc", "x", "", EXECUTION.upper(), EXECUTION + "\n"])
def test_an_id_that_is_no_uuid_names_no_folder(tmp_path, execution_id) -> None:
    with pytest.raises(InternalError, match="names no workspace"):
        Workspace(tmp_path, execution_id, 1)
