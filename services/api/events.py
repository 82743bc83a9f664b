"""`GET /v1/executions/{id}/events`: what an execution says, as it says it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Final

from anyio import to_thread
from fastapi import APIRouter, Header, Query, Response

from contracts.errors import InvalidDocumentError
from runtime.execution.journal import Journal
from runtime.execution.journal_pages import is_position
from services.api.answering import Shared
from services.api.dependencies import Here
from services.api.executions import ExecutionId
from services.api.following import END_ID, EventStream, Follower
from services.api.submitting import find

if TYPE_CHECKING:
    from pathlib import Path

router = APIRouter(prefix="/v1/executions", tags=["executions"])

_EXAMPLE: Final = (
    'id: 214\nevent: metric\ndata: {"at":"2026-12-01T09:00:00Z","kind":"metric","split":"val","epoch":3,"step":null,'
    '"metrics":{"accuracy":0.97}}\n\nid: end\nevent: end\ndata: {"kind":"end",'
    '"execution_id":"7c2e91d0-3b5f-4c7e-9d55-0c5f8a7f9f01","state":"succeeded","error":null}\n\n'
)
_ANSWERS: Final[dict[int | str, dict[str, Any]]] = {
    200: {
        "description": "Server-sent events: `attempt`, `stage`, `state`, `phase`, `metric`, `checkpoint`, `log`, `output`; "
        "`too_long` for an entry of more than 1 MiB; `elsewhere` where the journal is on another machine; and at last `end`, with "
        "`state` and `error`. Comments come at least every 15 s.",
        "content": {"text/event-stream": {"schema": {"type": "string"}, "example": _EXAMPLE}},
    },
    204: {"description": "`Last-Event-ID` is that of `end`: there is nothing more, and a browser stops asking."},
}


@router.get("/{execution_id}/events", responses=_ANSWERS, response_class=Response)
async def follow(
    execution_id: ExecutionId,
    here: Here,
    shared: Shared,
    last_event_id: Annotated[
        str | None, Header(max_length=32, description="The `id` of the last event that the client has.")
    ] = None,
    after: Annotated[
        str | None, Query(max_length=32, description="The same, for clients that cannot set the header.")
    ] = None,
) -> Response:
    """Follow an execution from its first entry, or from exactly where the client stopped, to its end."""
    execution = await to_thread.run_sync(find, here, execution_id)
    last = last_event_id or after or "0"
    if last == END_ID:
        return Response(status_code=204)
    journal = Journal.of(here.settings.executions_root, execution.execution_id).path
    position = await to_thread.run_sync(_position, journal, last)
    follower = Follower(execution.execution_id, journal, position, shared.watch, shared.reading)
    return EventStream(follower.events())


def _position(journal: Path, last: str) -> int:
    """Where to go on after the event of this id.

    Raises:
        InvalidDocumentError: no event here has it.
    """
    if last.isascii() and last.isdecimal() and is_position(journal, int(last)):
        return int(last)
    message = f"is {last!r}, which is the id of no event of this execution here; leave it out to begin with the first"
    raise InvalidDocumentError.of("Last-Event-ID", [{"path": "Last-Event-ID", "message": message}])
