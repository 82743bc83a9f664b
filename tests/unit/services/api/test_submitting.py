"""Accepting submissions: the order of refusals, and what is answered again."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from contracts.admission import ExecutionPolicy
from contracts.errors import ConflictError, NotFoundError, PolicyError
from contracts.references import Pinned
from runtime.acceptance import accept_submission
from runtime.installation import Installation
from services.api.submitting import find, find_artifact, retry
from tests.assets.executions import settings_at
from tests.assets.submissions import submission

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

ON = ExecutionPolicy(execution_enabled=True, runtime_ids=("base",))
OFF = ExecutionPolicy(runtime_ids=("base",))


@pytest.fixture
def here(tmp_path: Path) -> Iterator[Installation]:
    with Installation.open(settings_at(tmp_path / "home")) as opened:
        yield opened


def end(here: Installation, execution_id: str, *artifacts: dict) -> None:
    here.ledger.finish(execution_id, state="succeeded", result={}, error=None, artifacts=artifacts, model=None)


@pytest.mark.slow
def test_a_retry_is_a_new_execution_and_is_told_as_the_first_was(here: Installation) -> None:
    told, untold = (
        here.ledger.accept(submission(), label="x", announced=announced).execution.execution_id
        for announced in (True, False)
    )
    end(here, told)
    end(here, untold)

    again = [retry(here, each, ON) for each in (told, untold)]

    assert [(one.retry_of, one.state, one.announced) for one in again] == [
        (told, "queued", True),
        (untold, "queued", False),
    ]


def test_what_has_not_ended_is_not_retried(here: Installation) -> None:
    execution_id = accept_submission(here, submission(), ON).execution.execution_id

    with pytest.raises(ConflictError, match="is queued"):
        retry(here, execution_id, ON)


def test_a_retry_asks_policy(here: Installation) -> None:
    execution_id = accept_submission(here, submission(), ON).execution.execution_id
    end(here, execution_id)

    with pytest.raises(PolicyError):
        retry(here, execution_id, OFF)


def test_an_id_in_upper_case_is_the_same_id(here: Installation) -> None:
    execution_id = accept_submission(here, submission(), ON).execution.execution_id

    assert find(here, execution_id.upper()).execution_id == execution_id


@pytest.mark.parametrize(
    "name", ["", "nothing", "../../etc/passwd", "a\0b", "x" * 10_000, "372070b0-9ed2-41d6-b029-51079977d228"]
)
def test_what_is_not_there_names_what_is(here: Installation, name: str) -> None:
    execution_id = accept_submission(here, submission(), ON).execution.execution_id

    with pytest.raises(NotFoundError, match=execution_id) as raised:
        find(here, name)
    assert len(raised.value.message) < 1_000


def test_an_artifact_is_found_by_its_digest(here: Installation) -> None:
    execution_id = accept_submission(here, submission(), ON).execution.execution_id
    stored = {"bucket": "models", "object_key": "x/model.onnx", "sha256": "c" * 64, "size_bytes": 9}
    end(here, execution_id, {"artifact": {"path": "out/model.onnx"}, "object": stored})
    execution = here.ledger.get(execution_id)

    assert find_artifact(execution, "c" * 64) == (Pinned("models", "x/model.onnx", "c" * 64, 9), "out/model.onnx")
    with pytest.raises(NotFoundError, match=r"it has out/model\.onnx"):
        find_artifact(execution, "d" * 64)
