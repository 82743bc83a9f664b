"""What the final state of a run without an end record means."""

import pytest
from prefect.states import Cancelled, Crashed, Failed

from contracts.errors import codes
from tasks.attempt_runs import fault_of
from tasks.states import failed_state


@pytest.mark.parametrize("kind", codes().values(), ids=codes().keys())
def test_a_state_of_ours_is_read_back_as_its_error(kind) -> None:
    fault = fault_of(failed_state(kind("what happened", hint="what to do")))
    assert type(fault) is kind


def test_a_crashed_run_is_a_lost_attempt() -> None:
    fault = fault_of(Crashed(message="status code: -9"))
    assert (fault.code, fault.retry) == ("attempt_lost", "elsewhere")
    assert "status code: -9" in fault.message


def test_a_run_that_somebody_cancelled_is_not_tried_again() -> None:
    fault = fault_of(Cancelled())
    assert (fault.code, fault.retry) == ("cancelled", "never")


def test_a_failure_that_we_do_not_know_is_permanent() -> None:
    fault = fault_of(Failed(message="ModuleNotFoundError: no module named flows"))
    assert (fault.code, fault.retry) == ("internal", "never")
