"""What becomes of one delivery: an execution, a failed status, or a dead letter; decided without the broker.

1. What is too large or no valid submission, and what the operator's settings forbid, is refused.
2. What is valid is recorded. The same submission again is the execution that it was; another one with its id is refused.
3. A refusal is told as a failed status of the task that the delivery names, unless the runtime works for that very task or
   execution: what a message says that nobody can read must not end a training that goes well.
4. What can be told to nobody is a dead letter. Where it was meant for an execution that is going on, that one's log says so.
"""

from __future__ import annotations

import hashlib
import json
import uuid
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from contracts import messages
from contracts.base import validate
from contracts.errors import InvalidDocumentError, NotFoundError, RuntimeFault
from contracts.limits import MAX_COUNT, MAX_SUBMISSION_BYTES
from contracts.submission import TrainingCodeSubmission
from runtime.acceptance import accept_submission

if TYPE_CHECKING:
    from runtime.installation import Installation
    from runtime.ledger import Execution

_TWICE: Final = object()
"""The value of a name that is given twice: nobody can say which of them was meant."""


@dataclass(frozen=True, slots=True)
class Recorded:
    """The ledger has the submission; `created` says whether it is new."""

    execution_id: str
    created: bool


@dataclass(frozen=True, slots=True)
class Answered:
    """The outbox has a failed status that names the reason."""

    task_id: int
    fault: RuntimeFault


@dataclass(frozen=True, slots=True)
class Dead:
    """Nobody can be told: it belongs into the dead-letter queue, with the reason."""

    fault: RuntimeFault


Verdict = Recorded | Answered | Dead


@dataclass(frozen=True, slots=True)
class Named:
    """What can be read of a delivery that may be no submission: the ids that it names, if it does."""

    task_id: int | None = None
    execution_id: str | None = None

    @classmethod
    def of(cls, body: bytes) -> Named:
        """What `body` names. Nothing is guessed: an id of another type, or given twice, is none."""
        if len(body) > MAX_SUBMISSION_BYTES:
            return cls()
        try:
            document = json.loads(body, object_pairs_hook=_marked, parse_int=_counted)
        except (ValueError, RecursionError):
            return cls()
        if not isinstance(document, dict):
            return cls()
        task = document.get("task")
        return cls(
            task_id=_task_id(task.get("task_id") if isinstance(task, dict) else None),
            execution_id=_execution_id(document.get("execution_id")),
        )


def take(here: Installation, body: bytes) -> Verdict:
    """Afterwards the ledger has the submission, or the reason why it is none. Safe to repeat with the same bytes.

    Raises:
        RuntimeFault: with `broker` being `requeue`: nothing is decided, because the ledger does not answer.
    """
    try:
        submission = _valid(body)
        accepted = accept_submission(here, submission, here.settings.policy())
    except RuntimeFault as fault:
        if fault.broker == "requeue":
            raise
        return refuse(here, body, fault)
    return Recorded(accepted.execution.execution_id, accepted.created)


def refuse(here: Installation, body: bytes, fault: RuntimeFault) -> Verdict:
    """Afterwards whoever can be told of a refusal will be.

    Raises:
        LedgerUnavailableError: nothing is decided.
    """
    named = Named.of(body)
    concerned = _concerned(here, named)
    if fault.broker != "reject" and named.task_id is not None and concerned is None:
        status = messages.refused(
            task_id=named.task_id,
            timestamp=datetime.now(UTC),
            code=fault.code,
            message=fault.message,
            hint=fault.hint,
            execution_id=named.execution_id,
        )
        if here.ledger.refuse(_digest(body), status, named.execution_id):
            return Answered(named.task_id, fault)
        concerned = named.execution_id  # recorded by another bridge meanwhile
    if concerned is not None:
        _warn(here, concerned, body, fault)
    return Dead(fault)


def _valid(body: bytes) -> TrainingCodeSubmission:
    if len(body) > MAX_SUBMISSION_BYTES:
        said = f"has {len(body)} bytes, at most {MAX_SUBMISSION_BYTES} are allowed"
        raise InvalidDocumentError.of("mq_submission", [{"path": "", "message": said}])
    return validate(TrainingCodeSubmission, body)


def _concerned(here: Installation, named: Named) -> str | None:
    """The execution that a status would speak of: the one named, or the one that a task without a name has here."""
    if named.execution_id is not None:
        return None if _known(here, named.execution_id) is None else named.execution_id
    if named.task_id is None:
        return None
    of_task = here.ledger.list(task_id=named.task_id)
    return next(
        (one.execution_id for one in of_task if one.announced and one.state not in {"failed", "cancelled"}), None
    )


def _known(here: Installation, execution_id: str) -> Execution | None:
    try:
        return here.ledger.get(execution_id)
    except NotFoundError:
        return None


def _warn(here: Installation, execution_id: str, body: bytes, fault: RuntimeFault) -> None:
    """Afterwards the execution's log tells of the refusal, once; one that has ended says nothing more."""
    execution = here.ledger.get(execution_id)
    if not execution.announced or execution.ended:
        return
    said = messages.log(
        task_id=execution.task_id,
        timestamp=datetime.now(UTC),
        level="warning",
        content=f"a message about this execution was refused and changes nothing: {fault.code}: {fault.message} {fault.hint}",
    )
    here.ledger.tell(execution_id, _digest(body), after=0, upto=1, logs=[said])


def _digest(body: bytes) -> str:
    return hashlib.sha256(body).hexdigest()


def _marked(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in pairs:
        found[name] = _TWICE if name in found else value
    return found


def _counted(digits: str) -> int | None:
    """The number, if it can be an id: the interpreter refuses longer ones, and with them the ids beside them."""
    return int(digits) if len(digits) <= len(str(MAX_COUNT)) else None


def _task_id(value: object) -> int | None:
    return value if type(value) is int and 0 < value <= MAX_COUNT else None


def _execution_id(value: object) -> str | None:
    """The id as the ledger has it, so that another spelling of it is the same."""
    try:
        return str(uuid.UUID(value.strip())) if isinstance(value, str) else None
    except ValueError:
        return None
