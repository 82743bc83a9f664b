"""How an end looks in Prefect: lists show a state's name only, so the name tells what happened; the message says what to do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from prefect.states import Cancelled, Failed

from contracts.errors import CancelledError

if TYPE_CHECKING:
    from prefect.client.schemas.objects import State

    from contracts.errors import RuntimeFault

MAX_MESSAGE_CHARACTERS: Final = 1_000
"""The run list sends every message along: two megabytes of it were measured. The detail is in an artifact."""


def state_name(fault: RuntimeFault) -> str:
    """The code as people read it in a list: `out_of_memory` is `OutOfMemory`."""
    return "".join(part.capitalize() for part in fault.code.split("_"))


def state_message(fault: RuntimeFault) -> str:
    """Cause and next action in one line of bounded length."""
    line = " ".join(f"{fault.message.rstrip('.')}. {fault.hint}".split())
    return line if len(line) <= MAX_MESSAGE_CHARACTERS else line[: MAX_MESSAGE_CHARACTERS - 1] + "…"


def failed_state(fault: RuntimeFault) -> State[Any]:
    """The final state of a run that ended with `fault`: `Cancelled` when somebody asked for it, else a failure of its name."""
    if isinstance(fault, CancelledError):
        return Cancelled(message=state_message(fault))
    return Failed(name=state_name(fault), message=state_message(fault))
