"""Stage 7: what the package says it left is really there, and is what its contract promises."""

from __future__ import annotations

from typing import TYPE_CHECKING

from contracts import admission
from contracts.errors import RuntimeFault
from runtime.execution import artifacts
from tasks.showing import show_table
from tasks.stage import stage

if TYPE_CHECKING:
    from contracts.completion import Completion
    from contracts.result import ResultArtifact
    from runtime.execution.workspace import Workspace
    from runtime.handover import Plan
    from tasks.run import Run


@stage()
def verify_artifacts(run: Run, plan: Plan, completion: Completion, workspace: Workspace) -> tuple[ResultArtifact, ...]:
    """Every artifact of `completion` with the size and digest that the runtime itself measured. In the UI: a table with verdicts.

    Retry: never; the files would be the same.

    Raises:
        ArtifactMissingError, ArtifactEmptyError, ArtifactOutsideError: a file is not what was declared.
        WorkspaceLimitError: the files are larger than `max_workspace_bytes`.
        ResultRefusedError: the completion does not fit the package's `output_contract`.
    """
    max_bytes = run.installation.settings.max_workspace_bytes
    try:
        admission.admit_result(plan.manifest, plan.submission, completion, plan.dataset)
        verified = artifacts.verify_artifacts(completion, workspace.output, max_bytes=max_bytes)
    except RuntimeFault as fault:
        _show_refusal(completion, fault)
        raise
    show_table(
        "artifacts",
        [
            {
                "path": artifact.path,
                "role": artifact.role,
                "format": artifact.format,
                "deployable": artifact.deployable,
                "bytes": artifact.size_bytes,
                "digest": artifact.sha256,
                "verdict": "verified",
            }
            for artifact in verified
        ],
        "What training left",
    )
    return verified


def _show_refusal(completion: Completion, fault: RuntimeFault) -> None:
    found = fault.context.get("violations")
    violations = (
        {str(violation["path"]): violation["message"] for violation in found} if isinstance(found, list) else {}
    )
    rows = [
        {
            "path": artifact.path,
            "role": artifact.role,
            "format": artifact.format,
            "deployable": artifact.deployable,
            "verdict": "; ".join(
                message for path, message in violations.items() if path.startswith(f"artifacts[{index}]")
            ),
        }
        for index, artifact in enumerate(completion.artifacts)
    ]
    rows.append({"path": "refused", "verdict": fault.message})
    show_table("artifacts", rows, "What training left")
