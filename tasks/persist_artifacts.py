"""Stage 8: what training left lies in the object store."""

from __future__ import annotations

import contextlib
import hashlib
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

from contracts.errors import ArtifactChangedError, AttemptLostError, DigestMismatchError, RuntimeFault
from contracts.references import Pinned
from contracts.result import TrainingResult
from contracts.strict_json import dump_canonical
from runtime.handover import BUCKET, artifact_place, find_end, output_key
from runtime.sizes import readable_size
from tasks.showing import escape, show_markdown
from tasks.stage import stage

if TYPE_CHECKING:
    from contracts.completion import Completion
    from contracts.result import ResultArtifact
    from runtime.execution.workspace import Workspace
    from runtime.handover import Plan
    from tasks.run import Run


@stage(retried=True)
def persist_artifacts(
    run: Run,
    plan: Plan,
    completion: Completion,
    verified: tuple[ResultArtifact, ...],
    workspace: Workspace,
    *,
    attempt: int,
) -> list[dict[str, Any]]:
    """Where every artifact is stored, as `[{"artifact", "object"}]`. In the UI: their places.

    Retry: safe; an object that is there with the same bytes stays.

    Raises:
        ArtifactChangedError: a file is no longer what was verified.
        AttemptLostError: the attempt was given up, and another one may have begun.
        ConflictError: a key holds other bytes.
        StorageUnavailableError: the store does not answer; the workspace stays, so that training need not run again.
    """
    _require_open(run, attempt)
    stored = []
    for artifact in verified:
        pinned = _place(plan, artifact)
        try:
            run.installation.store.publish_file(workspace.output / artifact.path, pinned)
        except DigestMismatchError as error:
            raise ArtifactChangedError(
                f"{artifact.path} changed after it was verified",
                hint="Something still writes into output_dir: end all threads and processes before `train` returns.",
                context={"path": artifact.path, "expected": artifact.sha256},
            ) from error
        stored.append({"artifact": artifact.model_dump(mode="json"), "object": pinned.to_document()})
    _write_result(plan, completion, verified, workspace)
    rows = [
        f"| {escape(one['artifact']['path'])} | {one['artifact']['role']} | {readable_size(one['object']['size_bytes'])} "
        f"| `{one['object']['bucket']}/{escape(one['object']['object_key'])}` |"
        for one in stored
    ]
    show_markdown(
        "stored", "\n".join(["| path | role | size | object |", "|---|---|---|---|", *rows, ""]), "Where it is stored"
    )
    return stored


def keep_output(run: Run, attempt: int) -> None:
    """Afterwards the store has all that the package printed, where it can: a log never decides how an attempt ends."""
    path = run.journal.output_path(attempt)
    try:
        with path.open("rb") as source:
            digest = hashlib.file_digest(source, "sha256").hexdigest()
            size = source.tell()
        if size:
            place = Pinned(BUCKET, output_key(run.execution_id, attempt), digest, size)
            run.installation.store.publish_file(path, place)
    except FileNotFoundError:
        return
    except (RuntimeFault, OSError) as error:
        run.log.warning("The output of attempt %s stays on this machine only: %s", attempt, error)


def _require_open(run: Run, attempt: int) -> None:
    """Nothing, unless the attempt has an end already: then its artifacts would be a second set beside another's."""
    if find_end(run.installation.store, run.execution_id, attempt) is not None:
        raise AttemptLostError(
            f"attempt {attempt} was given up while it ran: what it made is not kept",
            hint="The machine was not heard of for too long; another attempt has taken its place.",
            context={"attempt": attempt},
        )


def _place(plan: Plan, artifact: ResultArtifact) -> Pinned:
    sha256 = artifact.sha256 or ""  # verification measured it
    bucket, key = artifact_place(
        plan.execution_id, role=artifact.role, sha256=sha256, file_name=PurePosixPath(artifact.path).name
    )
    return Pinned(bucket, key, sha256, artifact.size_bytes)


def _write_result(
    plan: Plan, completion: Completion, verified: tuple[ResultArtifact, ...], workspace: Workspace
) -> None:
    """The contract's `result.json` under `output_dir`, after the artifacts of that place were stored."""
    result = TrainingResult(
        execution_id=plan.execution_id,
        status="succeeded",
        summary=completion.summary,
        metrics=completion.metrics,
        artifacts=verified,
        model=completion.model,
    )
    place = workspace.output / "result.json"
    with contextlib.suppress(OSError):  # a folder of that name, or a full disk: the ledger has the result anyway
        place.unlink(missing_ok=True)
        with place.open("xb") as out:
            out.write(dump_canonical(result.to_document()))
