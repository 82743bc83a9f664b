"""Accepting submissions over HTTP, and what is answered about an execution."""

from __future__ import annotations

import contextlib
import re
from typing import TYPE_CHECKING, Any, Final

from contracts.admission import admit_policy
from contracts.errors import ConflictError, NotFoundError
from contracts.references import Pinned
from runtime.requests import repeat_submission

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from contracts.admission import ExecutionPolicy
    from runtime.installation import Installation
    from runtime.ledger import Attempt, Execution

_SHOWN: Final = 5
"""Of what exists, in a message about what does not."""
_UUID: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def retry(here: Installation, execution_id: str, policy: ExecutionPolicy) -> Execution:
    """A new execution of an ended one's submission; the platform is told of it if it was told of the first.

    Raises:
        NotFoundError: there is none of this id.
        ConflictError: it has not ended.
        PolicyError: the settings refuse it; the message names them.
    """
    earlier = find(here, execution_id)
    if not earlier.ended:
        raise ConflictError(
            f"{earlier.label} is {earlier.state}, so there is nothing to retry",
            hint=f"POST /v1/executions/{earlier.execution_id}/cancel ends it.",
            context={"execution_id": earlier.execution_id, "state": earlier.state},
        )
    submission = repeat_submission(earlier.submission, memory=None, timeout=None, cpus=None, gpus=None)
    admit_policy(submission, policy)
    return here.ledger.accept(
        submission,
        label=earlier.label,
        model_name=earlier.model_name,
        retry_of=earlier.execution_id,
        announced=earlier.announced,
    ).execution


def find(here: Installation, execution_id: str) -> Execution:
    """The execution, its id written in whichever case.

    Raises:
        NotFoundError: there is none of this id; the message names the newest that there are.
    """
    wanted = execution_id.lower()
    if _UUID.fullmatch(wanted):  # what is none is not asked for: a database may refuse the text itself
        with contextlib.suppress(NotFoundError):
            return here.ledger.get(wanted)
    newest = here.ledger.list(limit=_SHOWN)
    there_are = "; the newest are " + ", ".join(f"{one.execution_id} ({one.label})" for one in newest)
    raise NotFoundError(
        f"no execution {execution_id[:100]}{there_are if newest else '; there is none yet'}",
        hint="Give the whole execution_id; GET /v1/executions lists them.",
        context={"execution_id": execution_id[:100], "newest": [one.execution_id for one in newest]},
    )


def find_artifact(execution: Execution, sha256: str) -> tuple[Pinned, str]:
    """Where an artifact of the execution is, and its file's name.

    Raises:
        NotFoundError: it has none of this digest; the message names those that it has.
    """
    for entry in execution.artifacts:
        stored = entry["object"]
        if stored["sha256"] == sha256:
            pinned = Pinned(stored["bucket"], stored["object_key"], stored["sha256"], stored["size_bytes"])
            return pinned, str(entry["artifact"]["path"])
    has = ", ".join(f"{entry['artifact']['path']} ({entry['object']['sha256']})" for entry in execution.artifacts[:20])
    raise NotFoundError(
        f"{execution.label} has no artifact {sha256[:100]}; it has {has or f'none: {execution.state}'}",
        hint=f"GET /v1/executions/{execution.execution_id}/artifacts lists them by their digests.",
        context={
            "execution_id": execution.execution_id,
            "artifacts": [entry["object"]["sha256"] for entry in execution.artifacts],
        },
    )


# --- what is answered -------------------------------------------------------------------------------------------------


def execution_document(execution: Execution, attempts: Iterable[Attempt] = ()) -> dict[str, Any]:
    """`GET /v1/executions/{id}`: all that `mtr executions show` says, and its attempts."""
    return {
        **execution.to_summary_document(),
        **execution.to_document(),
        "model_name": execution.model_name,
        "attempts": [
            {
                "number": attempt.number,
                "outcome": attempt.outcome,
                "started_at": attempt.started_at.isoformat(),
                "ended_at": attempt.ended_at.isoformat() if attempt.ended_at else None,
                "paid_seconds": attempt.paid_seconds,
                "training_finished": attempt.training_finished,
            }
            for attempt in attempts
        ],
    }


def artifact_documents(execution: Execution, address: str) -> list[dict[str, Any]]:
    """Every artifact with the address of its bytes."""
    prefix = f"{address}/v1/executions/{execution.execution_id}/artifacts/"
    return [{**entry, "url": f"{prefix}{entry['object']['sha256']}"} for entry in execution.artifacts]


def run_document(
    execution: Execution, events: Iterable[Mapping[str, Any]], logs: Iterable[Mapping[str, Any]]
) -> dict[str, Any]:
    """The answer of `POST /v1/executions/run`."""
    return {
        "execution_id": execution.execution_id,
        "result": execution.result,
        "events": list(events),
        "logs": list(logs),
        "artifacts": execution.artifacts,
        "workspace_cleaned": bool(execution.workspace_cleaned),
    }
