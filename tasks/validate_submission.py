"""Stage 1: the submission is valid and the operator's policy allows it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from contracts.admission import admit_policy
from contracts.base import validate
from contracts.submission import TrainingCodeSubmission
from runtime.registry.models import check_model_name
from runtime.sizes import readable_size
from tasks.showing import show_table
from tasks.stage import stage

if TYPE_CHECKING:
    from runtime.ledger import Execution
    from tasks.run import Run


@stage()
def validate_submission(run: Run, execution: Execution) -> TrainingCodeSubmission:
    """The submission of `execution`, valid by today's contract and allowed by today's policy. In the UI: what will run, on what.

    Retry: never; the answer would be the same.

    Raises:
        InvalidDocumentError: it is not valid.
        PolicyError: the settings refuse it; the message names them.
        AdmissionError: its model's name is none.
    """
    submission = validate(TrainingCodeSubmission, execution.submission)
    show_table("what-will-run", _rows(submission, execution.label), f"What will run: {execution.label}")
    admit_policy(submission, run.installation.settings.policy())
    if execution.model_name is not None:
        check_model_name(execution.model_name)
    return submission


def _rows(submission: TrainingCodeSubmission, label: str) -> list[dict[str, object]]:
    resources, snapshot = submission.resources, submission.dataset_source_snapshot
    said = {
        "execution": submission.execution_id,
        "label": label,
        "task": f"{submission.task.task_id} ({submission.task.task_kind})",
        "package": f"{submission.package.key} {submission.package.version}",
        "package digest": submission.package.sha256,
        "data": snapshot.sha256 if snapshot else "brought by the package",
        "model input": submission.model_input.artifact.display_name if submission.model_input else "none",
        "runtime": submission.runtime.id,
        "device": f"{resources.device}, {resources.gpu_count} GPU" if resources.gpu_count else resources.device,
        "cores": f"{resources.cpu_cores:g}",
        "memory": readable_size(resources.memory_bytes),
        "timeout": f"{resources.timeout_seconds} s",
        **{f"parameter {name}": value for name, value in submission.parameters.items()},
    }
    return [{"": name, "value": str(value)} for name, value in said.items()]
