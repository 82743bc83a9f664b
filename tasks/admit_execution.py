"""Stage 4: package, data and submission agree, and the plan is stored: from here on nothing is decided any more."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from contracts import admission
from contracts.errors import AdmissionError
from runtime.execution.environment import find_python, require_gpus
from runtime.handover import Plan
from tasks.showing import escape, show_markdown
from tasks.stage import stage

if TYPE_CHECKING:
    from contracts.dataset import DatasetManifest
    from contracts.package import PackageManifest
    from contracts.references import Pinned
    from contracts.submission import TrainingCodeSubmission
    from tasks.run import Run


@dataclass(frozen=True, slots=True)
class AdmittedPlan:
    """A plan and where it is stored."""

    plan: Plan
    object: Pinned


@stage(retried=True)
def admit_execution(
    run: Run, submission: TrainingCodeSubmission, manifest: PackageManifest, dataset: DatasetManifest, label: str
) -> AdmittedPlan:
    """The stored plan of an execution whose parts agree. In the UI: every violation at once.

    Retry: safe, the same plan is the same object. A refusal is never retried.

    Raises:
        AdmissionError: with every disagreement in `context["violations"]`.
        RuntimeUnavailableError: the package's Python is missing where training runs in this process.
        GpuUnavailableError: likewise the GPUs.
        StorageUnavailableError: the store does not answer.
    """
    try:
        admission.admit_execution(manifest, submission, dataset)
    except AdmissionError as refusal:
        show_markdown("admission", _refusal(refusal), "Why it was refused")
        raise
    if pool_of(submission, run) is None:
        find_python(submission.runtime.id, run.installation.settings)
        require_gpus(submission.resources.gpu_count, run.installation.settings)
    plan = Plan(label=label, submission=submission, manifest=manifest, dataset=dataset)
    stored = plan.publish(run.installation.store)
    show_markdown(
        "admission", f"**Admitted**: package, data and submission agree.\n\nPlan `{stored.sha256}`\n", "Admission"
    )
    return AdmittedPlan(plan, stored)


def pool_of(submission: TrainingCodeSubmission, run: Run) -> str | None:
    """The work pool that trains `submission`; `None` is this very process. Configured, never guessed."""
    settings = run.installation.settings
    return settings.gpu_pool if submission.resources.device == "cuda" else settings.cpu_pool


def _refusal(refusal: AdmissionError) -> str:
    violations = refusal.context.get("violations")
    rows = [
        f"| `{escape(violation['path'])}` | {escape(violation['message'])} |"
        for violation in (violations if isinstance(violations, list) else [])
    ]
    return "\n".join([f"**Refused.** {escape(refusal.hint)}", "", "| field | why |", "|---|---|", *rows, ""])
