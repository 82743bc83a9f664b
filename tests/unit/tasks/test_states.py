"""How an end looks in Prefect's lists."""

import pytest

from contracts.errors import CancelledError, OutOfMemoryError, codes
from tasks.states import MAX_MESSAGE_CHARACTERS, failed_state, state_message, state_name


@pytest.mark.parametrize("kind", codes().values(), ids=codes().keys())
def test_every_code_has_a_name_of_its_own(kind) -> None:
    name = state_name(kind("x", hint="y"))
    assert name.isalnum()
    assert name[0].isupper()
    assert sum(state_name(other("x", hint="y")) == name for other in codes().values()) == 1


def test_a_failure_is_named_by_its_code_and_says_what_to_do() -> None:
    state = failed_state(OutOfMemoryError("1 GiB reached.", hint="Use --memory 8GiB."))
    assert (state.name, state.message) == ("OutOfMemory", "1 GiB reached. Use --memory 8GiB.")
    assert state.is_failed()


def test_what_somebody_asked_for_is_cancelled_not_failed() -> None:
    state = failed_state(CancelledError("cancelled", hint="Start it anew."))
    assert state.is_cancelled()


def test_a_message_is_one_line() -> None:
    assert state_message(OutOfMemoryError("first\n  second", hint="third")) == "first second. third"


def test_a_message_is_bounded_whatever_a_package_says() -> None:
    message = state_message(OutOfMemoryError("x" * 10**6, hint="y"))
    assert len(message) == MAX_MESSAGE_CHARACTERS
    assert message.endswith("…")
