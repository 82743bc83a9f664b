"""Accepting submissions: the order of refusals, and what is answered again. Every door does it so."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

import pytest

from contracts import strict_json
from contracts.admission import ExecutionPolicy
from contracts.errors import ConflictError, PolicyError
from contracts.references import Pinned
from runtime.acceptance import accept_submission
from runtime.installation import Installation
from services.bridge import submissions
from tests.assets.executions import settings_at
from tests.assets.submissions import submission, submission_document

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

ON = ExecutionPolicy(execution_enabled=True, runtime_ids=("base",))
OFF = ExecutionPolicy(runtime_ids=("base",))


@pytest.fixture
def here(tmp_path: Path) -> Iterator[Installation]:
    with Installation.open(settings_at(tmp_path / "home")) as opened:
        yield opened


def test_what_is_accepted_is_told_to_the_platform(here: Installation) -> None:
    accepted = accept_submission(here, submission(), ON)

    assert (accepted.created, accepted.execution.announced) == (True, True)
    assert [message.kind for message in here.ledger.pending_messages()] == ["task.status.update"]


def test_a_data_set_that_has_a_name_is_called_by_it(here: Installation) -> None:
    here.ledger.set_dataset_name("digits-png", "b" * 64, Pinned("default", "d.json", "b" * 64, 1))

    assert accept_submission(here, submission(), ON).execution.label == "digits 0.1.0 on digits-png"


def test_execution_that_is_off_is_refused_by_the_setting_s_name_and_leaves_nothing(here: Installation) -> None:
    with pytest.raises(PolicyError, match=r"model-training-runtime\.execution\.enabled is false"):
        accept_submission(here, submission(), OFF)

    assert here.ledger.list() == ()


def test_what_was_accepted_is_answered_again_while_execution_is_off(here: Installation) -> None:
    document = submission_document()
    accept_submission(here, submission(**document), ON)

    again = accept_submission(here, submission(**document | {"message_id": str(uuid.uuid4())}), OFF)

    assert (again.created, again.execution.execution_id) == (False, document["execution_id"])


def test_a_conflict_is_named_only_after_policy(here: Installation) -> None:
    document = submission_document()
    accept_submission(here, submission(**document), ON)

    with pytest.raises(PolicyError):
        accept_submission(here, submission(**document | {"resources": {"memory_bytes": 2048}}), OFF)


def test_another_submission_of_the_same_id_is_a_conflict_that_names_the_difference(here: Installation) -> None:
    document = submission_document()
    accept_submission(here, submission(**document), ON)

    with pytest.raises(ConflictError, match=r"differs at resources\.memory_bytes"):
        accept_submission(here, submission(**document | {"resources": {"memory_bytes": 2048}}), ON)


def test_a_delivery_of_another_submission_of_a_known_id_is_refused_by_policy_first(tmp_path: Path) -> None:
    document = submission_document()
    with Installation.open(settings_at(tmp_path / "home")) as here:
        accept_submission(here, submission(**document), ON)
    with Installation.open(settings_at(tmp_path / "home", MTR_EXECUTION_ENABLED="false")) as here:
        same, other = (
            submissions.take(here, strict_json.dump_canonical(submission(**each).to_document()))
            for each in (document, document | {"resources": {"memory_bytes": 2048}})
        )
    assert same == submissions.Recorded(document["execution_id"], False)
    assert isinstance(other, submissions.Dead)
    assert other.fault.code == "policy_refused"
