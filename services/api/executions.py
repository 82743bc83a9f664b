"""`/v1/executions`: submissions in, and how they stand, from the ledger, whatever became of Prefect or of this process."""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Annotated, Final, Literal

from anyio import to_thread
from fastapi import APIRouter, Path, Query, Request, Response
from fastapi.responses import JSONResponse

from contracts import strict_json
from contracts.base import PACKAGE_KEY_PATTERN, VERSION_PATTERN, validate
from contracts.errors import InvalidDocumentError
from contracts.limits import MAX_COUNT, MAX_LISTED, RUN_ALLOWANCE_SECONDS
from contracts.submission import TrainingCodeSubmission
from runtime.acceptance import accept_submission
from runtime.execution.journal import Journal
from services import orchestrator
from services.api.access import WRITE
from services.api.answering import Address, Shared
from services.api.answers import answered
from services.api.dependencies import Fresh, Here
from services.api.downloads import DOWNLOAD_ANSWERS, offer
from services.api.execution_answers import ACCEPTED, ARTIFACTS, CANCELLING, PAGE, RUN, SHOWN
from services.api.submitting import (
    artifact_documents,
    execution_document,
    find,
    find_artifact,
    retry,
    run_document,
)
from services.api.transcript import Transcript

if TYPE_CHECKING:
    from runtime.installation import Installation
    from runtime.ledger import Accepted, Execution
    from services.api.application import Carrier

router = APIRouter(prefix="/v1/executions", tags=["executions"])

ExecutionId = Annotated[
    str,
    Path(description="The execution's UUID.", examples=["7c2e91d0-3b5f-4c7e-9d55-0c5f8a7f9f01"]),
]
Sha256 = Annotated[str, Path(description="The artifact's SHA-256, 64 lower-case hex digits.", examples=["0" * 64])]
State = Literal["queued", "running", "succeeded", "failed", "cancelled"]

LOOK_FOR_CLIENT_SECONDS: Final = 1.0
"""How often a synchronous run looks whether anybody still waits for its answer."""


@router.post(
    "",
    status_code=202,
    dependencies=[WRITE],
    responses={202: answered("Recorded, now or before.", ACCEPTED, located=True)},
)
async def submit(request: Request, here: Fresh) -> Response:
    """Record a submission, have it carried out, and answer at once.

    Idempotent on `execution_id`: the same submission again is answered as it stands by now, whatever `message_id` it has and
    whatever the policy says by then. Another submission of the same id is a conflict whose message names the first
    difference.
    """
    execution = await _accepted(request, here)
    return _accepted_answer(execution)


@router.post(
    "/run",
    dependencies=[WRITE],
    responses={
        200: answered("It has ended; `result.status` says how.", RUN),
        202: answered("It has not ended in time, and goes on.", ACCEPTED, located=True),
    },
)
async def run(request: Request, here: Fresh, shared: Shared) -> Response:
    """Record a submission, have it carried out, and answer when it has ended.

    The call worked when it answers 200: whether the training did, `result.status` says. A client that leaves cancels
    nothing: the same call again waits on, or answers what the execution ended with. Where it has not ended within its
    own `timeout_seconds` and ten minutes, waiting for others before it for instance, the answer is 202 and that of
    `POST /v1/executions`.
    """
    execution = await _accepted(request, here)
    execution_id = execution.execution_id
    waited_for = time.monotonic() + execution.submission["resources"]["timeout_seconds"] + RUN_ALLOWANCE_SECONDS
    async with shared.watch.on(execution_id) as watched:
        while not watched.ended.is_set():
            if await request.is_disconnected() or time.monotonic() > waited_for:
                return _accepted_answer(await to_thread.run_sync(here.ledger.get, execution_id))
            try:
                async with asyncio.timeout(LOOK_FOR_CLIENT_SECONDS):
                    await watched.ended.wait()
            except TimeoutError:
                continue
    content = await shared.reading.run(partial(_run_answer, here, execution_id))
    return Response(content, media_type="application/json")


@router.get("", responses={200: answered("One page.", PAGE)})
def list_executions(
    here: Here,
    *,
    task_id: Annotated[int | None, Query(ge=1, le=MAX_COUNT, description="Only those of this task.")] = None,
    package: Annotated[
        str | None,
        Query(
            pattern=f"{PACKAGE_KEY_PATTERN[:-1]}(@{VERSION_PATTERN[1:-1]})?$",
            description="Only those of this package, `key` or `key@version`.",
            examples=["digits", "digits@0.1.0"],
        ),
    ] = None,
    state: Annotated[list[State] | None, Query(description="Only those in one of these states.")] = None,
    since: Annotated[
        datetime | None, Query(description="Only those accepted at or after this moment; UTC where it names no zone.")
    ] = None,
    until: Annotated[datetime | None, Query(description="Only those accepted before this moment.")] = None,
    limit: Annotated[int, Query(ge=1, le=MAX_LISTED, description="At most so many.")] = 100,
    cursor: Annotated[
        str | None, Query(max_length=200, description="`next_cursor` of the page before; the filters must be the same.")
    ] = None,
) -> JSONResponse:
    """List executions, the newest first, in pages that stand still while others are accepted."""
    found = here.ledger.list(
        state=state,
        package=package,
        task_id=task_id,
        since=_in_utc(since, "since"),
        until=_in_utc(until, "until"),
        after=cursor,
        limit=limit + 1,
    )
    shown = found[:limit]
    return JSONResponse(
        {
            "executions": [one.to_summary_document() for one in shown],
            "next_cursor": shown[-1].cursor if len(found) > limit else None,
        }
    )


@router.get("/{execution_id}", responses={200: answered("The execution as it stands.", SHOWN)})
def show(execution_id: ExecutionId, here: Here) -> JSONResponse:
    """Show an execution: state, stage, error with its next action, result, artifacts, model, timings and attempts."""
    execution = find(here, execution_id)
    return JSONResponse(execution_document(execution, here.ledger.attempts(execution.execution_id)))


@router.post(
    "/{execution_id}/cancel",
    dependencies=[WRITE],
    responses={
        200: answered("It has ended, now or before.", SHOWN),
        202: answered("Whoever carries it out was told.", CANCELLING),
    },
)
def cancel(execution_id: ExecutionId, here: Here) -> JSONResponse:
    """Ask for an execution's end.

    202 where whoever carries it out was told and ends the training and everything that it started; 200 where it has
    ended, now or before. Asked again it changes nothing.
    """
    execution = find(here, execution_id)
    if not execution.ended:
        execution = orchestrator.cancel(here, execution.execution_id)
    attempts = here.ledger.attempts(execution.execution_id)
    return JSONResponse(execution_document(execution, attempts), status_code=200 if execution.ended else 202)


@router.post(
    "/{execution_id}/retry",
    status_code=202,
    dependencies=[WRITE],
    responses={202: answered("The new execution.", {**ACCEPTED, "retry_of": SHOWN["execution_id"]}, located=True)},
)
def try_again(execution_id: ExecutionId, request: Request, here: Fresh) -> Response:
    """Run an ended execution's submission again as a new execution, whose `retry_of` names the first.

    Not idempotent: each call makes another one.
    """
    execution = retry(here, execution_id, here.settings.policy())
    _wake(request, execution.execution_id)
    return _accepted_answer(execution)


@router.get("/{execution_id}/artifacts", responses={200: answered("All of them.", ARTIFACTS)})
def list_artifacts(execution_id: ExecutionId, here: Here, address: Address) -> JSONResponse:
    """List an execution's artifacts, each with the address of its bytes; none before its end."""
    execution = find(here, execution_id)
    return JSONResponse(
        {
            "execution_id": execution.execution_id,
            "artifacts": artifact_documents(execution, address),
        }
    )


@router.head("/{execution_id}/artifacts/{sha256}", include_in_schema=False)
@router.get("/{execution_id}/artifacts/{sha256}", responses=DOWNLOAD_ANSWERS, response_class=Response)
async def fetch_artifact(
    execution_id: ExecutionId, sha256: Sha256, request: Request, here: Here, shared: Shared
) -> Response:
    """Fetch an artifact's bytes, whole or by `Range`, hashed on the way.

    Where they are not those that were stored, the connection breaks off before its announced length.
    """
    execution = await to_thread.run_sync(find, here, execution_id)
    pinned, file_name = find_artifact(execution, sha256)
    return await offer(request, shared.downloads(here.store), shared.downloading, pinned, file_name)


async def _accepted(request: Request, here: Installation) -> Execution:
    """The execution of the submission in the request's body, recorded, and on its way to be carried out."""
    accepted = await to_thread.run_sync(_taken, here, await request.body())
    if not accepted.execution.ended:
        _wake(request, accepted.execution.execution_id)
    return accepted.execution


def _taken(here: Installation, body: bytes) -> Accepted:
    """As `accept_submission`. Not for the event loop: a large document is looked at for seconds."""
    return accept_submission(here, validate(TrainingCodeSubmission, body), here.settings.policy())


def _wake(request: Request, execution_id: str) -> None:
    dispatcher: Carrier | None = request.app.state.dispatcher
    if dispatcher is not None:  # without one it waits in the ledger for that of another process
        dispatcher.wake(execution_id)


def _accepted_answer(execution: Execution) -> Response:
    place = f"/v1/executions/{execution.execution_id}"
    return JSONResponse(execution_document(execution), status_code=202, headers={"Location": place})


def _run_answer(here: Installation, execution_id: str) -> bytes:
    execution = here.ledger.get(execution_id)
    journal = Journal.of(here.settings.executions_root, execution_id)
    told = Transcript.read(journal.path, execution_id)
    return strict_json.dump(run_document(execution, told.events, told.logs))


def _in_utc(moment: datetime | None, name: str) -> datetime | None:
    if moment is None:
        return None
    try:
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).astimezone(UTC)
    except OverflowError:  # year 1 has no time in UTC east of Greenwich
        violation = {"path": name, "message": "is no time that a calendar in UTC has"}
        raise InvalidDocumentError.of("query", [violation]) from None
