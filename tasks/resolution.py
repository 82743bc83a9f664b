"""From what a person wrote into the form to an accepted execution."""

from __future__ import annotations

import contextlib
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from contracts.errors import NotFoundError, RuntimeFault
from runtime.registry.models import check_model_name
from runtime.registry.packages import version_order
from runtime.requests import (
    FoundPackage,
    WantedResources,
    build_request,
    fill_resources,
    find_model_input,
    find_snapshot,
    read_names,
)
from tasks.showing import escape, show_markdown
from tasks.stage import step
from tasks.this_run import this_run_id

if TYPE_CHECKING:
    from runtime.installation import Installation
    from runtime.ledger import Execution


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """The form's fields as they came; an empty text is "nothing said"."""

    package: str
    data: str
    parameters: dict[str, Any]
    device: str
    gpus: int
    cpus: float
    memory: str
    timeout: str
    task_kind: str
    class_names: str
    model: str
    model_name: str


@step(retried=True)
def resolve_form(installation: Installation, form: Form) -> Execution:
    """The accepted execution that `form` asks for; nothing is accepted that package, data or policy refuse. In the UI: why not.

    Retry: safe; the execution's id is this run's own, so that a run that is repeated asks for the same execution.

    Raises:
        RuntimeFault: of class `never` where a field is wrong; the message names it.
    """
    try:
        return _resolve(installation, form)
    except RuntimeFault as fault:
        if fault.retry == "never":
            show_markdown("refused", f"**{escape(fault.message)}**\n\n{escape(fault.hint)}\n", "Why it was refused")
        raise


def _resolve(installation: Installation, form: Form) -> Execution:
    execution_id = str(this_run_id() or uuid.uuid4())
    with contextlib.suppress(NotFoundError):
        return installation.ledger.get(execution_id)  # this run was here before
    if form.model_name:
        check_model_name(form.model_name)
    request = build_request(
        package=_package(installation, form.package.strip()),
        data=find_snapshot(installation, form.data.strip()) if form.data.strip() else None,
        parameters=form.parameters,
        resources=fill_resources(
            WantedResources(
                device=form.device,
                gpus=form.gpus,
                cpus=form.cpus or None,
                memory=form.memory or None,
                timeout=form.timeout or None,
            )
        ),
        policy=installation.settings.policy(),
        task_id=installation.ledger.next_task_id(),
        model_input=find_model_input(installation, form.model, resume=False) if form.model else None,
        task_kind=form.task_kind or None,
        class_names=read_names(form.class_names or None),
    )
    submission = request.submission.model_copy(update={"execution_id": execution_id})
    name = form.model_name or submission.package.key
    return installation.ledger.accept(submission, label=request.label, model_name=name).execution


def _package(installation: Installation, reference: str) -> FoundPackage:
    """The registered package that `key@version` names, or the newest version of a key alone."""
    if "@" in reference:
        key, _, version = reference.partition("@")
        found = installation.packages.find(key, version)
        return FoundPackage(found.manifest, found.archive, created=False)
    versions = [one for one in installation.packages.list() if one.manifest.key == reference]
    if not versions:
        known = ", ".join(sorted({one.manifest.key for one in installation.packages.list()})) or "none yet"
        raise NotFoundError(
            f"no package {reference!r} is registered; there are: {known}",
            hint="Register it first: `mtr package register FOLDER`, or the deployment register-package/form.",
            context={"package": reference},
        )
    newest = max(versions, key=lambda one: version_order(one.manifest.version))
    return FoundPackage(newest.manifest, newest.archive, created=False)
