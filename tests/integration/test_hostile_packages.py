"""Each hostile package ends with its own typed error, and leaves nothing: no process, no file outside its workspace."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from contracts.errors import RuntimeFault
from runtime.execution.artifacts import verify_artifacts
from runtime.execution.survivors import find_survivors
from tests.assets.hostile_packages import HOSTILE
from tests.assets.training_runs import prepare, processes_below, run

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.service


def files_below(folder: Path, *, without: Path) -> set[Path]:
    return {path for path in folder.rglob("*") if not path.is_relative_to(without)}


@pytest.mark.parametrize("isolation", ["auto", "none"])
@pytest.mark.parametrize("kind", sorted(HOSTILE))
def test_ends_with_its_own_error_and_leaves_nothing(kind: str, isolation: str, tmp_path: Path) -> None:
    hostile = HOSTILE[kind]
    launch = prepare(tmp_path, hostile.source, isolation=isolation)
    workspace = launch.workspace
    launch.output_log.touch()
    before = files_below(tmp_path, without=workspace.directory)

    with pytest.raises(RuntimeFault) as caught:
        verify_artifacts(run(launch, **hostile.limits).completion, workspace.output)

    fallback = isolation == "none"
    assert caught.value.code == (hostile.fallback_code if fallback and hostile.fallback_code else hostile.code)
    assert (hostile.fallback_says if fallback and hostile.fallback_says else hostile.says) in caught.value.message
    assert caught.value.hint
    assert find_survivors(workspace.execution_id, 1, workspace.directory) == []
    assert processes_below(workspace.directory, workspace.execution_id) == []

    workspace.remove()
    left = files_below(tmp_path, without=workspace.directory)
    removed = {path for path in before if path.is_relative_to(workspace.root / workspace.execution_id)}
    assert left - before == set()
    if not fallback:
        assert left >= before - removed
