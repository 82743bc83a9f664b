"""What waiting requests and metrics ask the ledger for."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

from runtime.ledger import Owner
from tests.assets.submissions import submission

if TYPE_CHECKING:
    from runtime.ledger import Ledger


def test_many_executions_stand_as_each_of_them_does(ledger: Ledger) -> None:
    queued, running, ended = (ledger.accept(submission(), label="x").execution.execution_id for _ in range(3))
    ledger.claim(running, Owner.here())
    ledger.enter_stage(running, "train")
    error = {"code": "package_raised", "message": "no", "hint": "mend it", "context": {}}
    ledger.finish(ended, state="failed", result={}, error=error, artifacts=[], model=None)

    found = ledger.standings([queued, running, ended, str(uuid.uuid4())])

    assert {each: (found[each].state, found[each].stage, found[each].error) for each in found} == {
        queued: ("queued", None, None),
        running: ("running", "train", None),
        ended: ("failed", None, error),
    }
    assert found[running].owner_host == Owner.here().host
    assert [found[each].ended for each in (queued, running, ended)] == [False, False, True]


def test_the_seconds_of_a_stage_are_those_of_all_executions(ledger: Ledger) -> None:
    for _ in range(2):
        execution = ledger.accept(submission(), label="x").execution
        ledger.add_stage_seconds(execution.execution_id, {"train": 10.0, "persist_artifacts": 0.5})

    assert ledger.stage_seconds() == {"train": 20.0, "persist_artifacts": 1.0}


def test_what_attempts_count_is_added_up_once_each(ledger: Ledger) -> None:
    for _ in range(2):
        execution_id = ledger.accept(submission(), label="x").execution.execution_id
        number = ledger.begin_attempt(execution_id).number
        for _ in range(2):  # whoever comes late tells the same end again
            ledger.end_attempt(
                execution_id,
                number,
                outcome="succeeded",
                record={},
                paid_seconds=1.0,
                training_finished=True,
                counted={"cached_items": 5, "downloaded_items": 0},
            )

    assert ledger.totals() == {"cached_items": 10, "downloaded_items": 0}
