"""Valid documents that must also agree: of an execution, of its result, and with the operator's policy.

Every rule is checked and every violation reported, each with the path of the field that would have to change.
"""

from __future__ import annotations

import posixpath
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, Protocol

from contracts.errors import AdmissionError, PolicyError, ResultRefusedError
from contracts.execution import ExecutionRequest
from contracts.result import TrainingResult
from contracts.user_schema import check_schema, check_values
from contracts.violations import below, quoted

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from contracts.completion import Completion
    from contracts.errors import RuntimeFault
    from contracts.package import ArtifactDeclaration, PackageManifest, RuntimeRequirement, SupportedTask
    from contracts.submission import TrainingCodeSubmission
    from contracts.violations import Violation

SETTING_EXECUTION_ENABLED = "model-training-runtime.execution.enabled"
SETTING_RUNTIME_IDS = "model-training-runtime.execution.runtime_ids"
SETTING_SCRIPT_MANAGED = "model-training-runtime.allow_script_managed_data"


class DatasetHeader(Protocol):
    """What admission needs of a data set: a snapshot, a source manifest and a dataset manifest all have it."""

    @property
    def task_kind(self) -> str:
        """The task kind that it is for."""
        ...

    @property
    def data_modalities(self) -> tuple[str, ...]:
        """What its items are."""
        ...

    @property
    def annotation_kinds(self) -> tuple[str, ...]:
        """What its annotations are; empty without any."""
        ...

    @property
    def class_names(self) -> tuple[str, ...]:
        """In order; empty where there are no classes."""
        ...


class _Requested(Protocol):
    """What policy looks at; submissions and execution requests have it."""

    @property
    def runtime(self) -> RuntimeRequirement: ...
    @property
    def input_mode(self) -> str: ...


@dataclass(frozen=True, slots=True)
class Origin:
    """A setting as the operator knows it, and what is the matter with it where it allows nothing.

    Attributes:
        setting: its full name.
        reason: why it is off, to be read after the name.
    """

    setting: str
    reason: str = "is false"


_ORIGINS: Mapping[str, tuple[Origin, ...]] = {
    "execution_enabled": (Origin(SETTING_EXECUTION_ENABLED),),
    "runtime_ids": (Origin(SETTING_RUNTIME_IDS),),
    "allow_script_managed_data": (Origin(SETTING_SCRIPT_MANAGED),),
}


@dataclass(frozen=True, slots=True)
class ExecutionPolicy:
    """What the operator allows. The field names are the settings' names; everything is off unless said.

    Attributes:
        execution_enabled: whether anything may run here.
        runtime_ids: the allow-list of `runtime.id`.
        allow_script_managed_data: whether packages may bring their own data.
        origins: of a field above, the settings that decided it; those that are left out have the platform's own names.
    """

    execution_enabled: bool = False
    runtime_ids: tuple[str, ...] = ()
    allow_script_managed_data: bool = False
    origins: Mapping[str, tuple[Origin, ...]] | None = None

    def origins_of(self, name: str) -> tuple[Origin, ...]:
        """The settings that decided the field `name`: at least one."""
        return (self.origins or {}).get(name) or _ORIGINS[name]


def admit_policy(submission: _Requested, policy: ExecutionPolicy) -> None:
    """The operator's settings allow `submission`, or the error names every setting that does not.

    Raises:
        PolicyError: with `context["violations"]`, the `path` of each being the setting.
    """
    found: list[Violation] = []
    if not policy.execution_enabled:
        found += [_violation(origin.setting, origin.reason) for origin in policy.origins_of("execution_enabled")]
    if submission.runtime.id not in policy.runtime_ids:
        allowed = ", ".join(policy.runtime_ids) or "nothing"
        setting = policy.origins_of("runtime_ids")[0].setting
        found.append(_violation(setting, f"does not allow {submission.runtime.id!r} (it allows {allowed})"))
    if submission.input_mode == "script_managed" and not policy.allow_script_managed_data:
        found += [
            _violation(origin.setting, origin.reason) for origin in policy.origins_of("allow_script_managed_data")
        ]
    if found:
        raise PolicyError(
            "; ".join(f"{violation['path']} {violation['message']}" for violation in found),
            hint="Ask your operator to change the named settings; they take effect for the next execution. "
            "On your own machine: execution_enabled, runtime_ids and allow_script_managed_data in mtr.toml.",
            context={"headline": "the operator's settings refuse it", "violations": found},
        )


def admit_execution(
    manifest: PackageManifest,
    execution: ExecutionRequest | TrainingCodeSubmission,
    dataset: DatasetHeader | None = None,
) -> None:
    """The package can run `execution` on `dataset`.

    Args:
        manifest: of the package.
        execution: a whole request, or the submission before any folder exists.
        dataset: what a submission's snapshot holds; not needed where the document carries the data set itself.

    Raises:
        AdmissionError: with every disagreement in `context["violations"]`.
        ValueError: a submission on a platform data set came without `dataset`.
    """
    _refuse(
        AdmissionError,
        "the package and the execution do not agree",
        "Correct the named fields of the submission, or choose a package or data set that fits; `mtr package inspect` shows what the package accepts.",
        _execution_violations(manifest, execution, _dataset_of(execution, dataset)),
    )


def admit_result(
    manifest: PackageManifest,
    execution: ExecutionRequest | TrainingCodeSubmission,
    result: TrainingResult | Completion,
    dataset: DatasetHeader | None = None,
) -> None:
    """What training left is what the package promised. Of a failed or cancelled result only the identity is checked.

    Args:
        manifest: of the package.
        execution: what was asked for.
        result: the runtime's result, or the completion that it will be made of.
        dataset: as for `admit_execution`.

    Raises:
        ResultRefusedError: with every disagreement in `context["violations"]`.
        ValueError: as `admit_execution`.
    """
    _refuse(
        ResultRefusedError,
        "the result is not what the package's output_contract promises",
        "Correct what `train` returns, or the output_contract in training_package.json.",
        _result_violations(manifest, execution, result, _dataset_of(execution, dataset)),
    )


# --- executions ------------------------------------------------------------------------------------------------------


def _execution_violations(
    manifest: PackageManifest, execution: ExecutionRequest | TrainingCodeSubmission, dataset: DatasetHeader
) -> Iterator[Violation]:
    yield from _identity(manifest, execution)
    yield from _parameters(manifest, execution)
    yield from _data(manifest, execution, dataset)
    if isinstance(execution, ExecutionRequest):
        yield from _directories(execution)
    yield from _model_input(manifest, execution, dataset)


def _identity(manifest: PackageManifest, execution: ExecutionRequest | TrainingCodeSubmission) -> Iterator[Violation]:
    for path, asked, offered in (
        ("package.key", execution.package.key, manifest.key),
        ("package.version", execution.package.version, manifest.version),
        ("runtime.id", execution.runtime.id, manifest.runtime.id),
        ("runtime.kind", execution.runtime.kind, manifest.runtime.kind),
    ):
        if asked != offered:
            yield _violation(path, f"is {asked!r}, the package's is {offered!r}")
    if execution.input_mode not in manifest.input_modes:
        declared = ", ".join(manifest.input_modes)
        yield _violation("input_mode", f"is {execution.input_mode!r}, the package declares {declared}")


def _parameters(manifest: PackageManifest, execution: ExecutionRequest | TrainingCodeSubmission) -> Iterator[Violation]:
    broken = check_schema(manifest.parameters_schema)
    for violation in broken:
        yield below("parameters_schema", violation)
    if not broken:
        for violation in check_values(manifest.parameters_schema, execution.parameters):
            yield below("parameters", violation)


def _data(
    manifest: PackageManifest, execution: ExecutionRequest | TrainingCodeSubmission, dataset: DatasetHeader
) -> Iterator[Violation]:
    task_kind = execution.task.task_kind
    if dataset.task_kind != task_kind:
        yield _violation("dataset.task_kind", f"is {dataset.task_kind!r}, the task's is {task_kind!r}")
    entries = [entry for entry in manifest.supported_tasks if entry.task_kind == task_kind]
    if not entries:
        declared = ", ".join(entry.task_kind for entry in manifest.supported_tasks)
        yield _violation("task.task_kind", f"is {task_kind!r}, the package supports {declared}")
    # a kind may be declared twice, with other data each time: one entry must fit
    complaints = [list(_unreadable(entry, dataset)) for entry in entries]
    yield from min(complaints, key=len, default=[])
    if manifest.class_names:
        yield from _same_class_names("dataset.class_names", dataset.class_names, manifest.class_names, "the package's")


def _unreadable(entry: SupportedTask, dataset: DatasetHeader) -> Iterator[Violation]:
    for field, values, readable in (
        ("data_modalities", dataset.data_modalities, entry.data_modalities),
        ("annotation_kinds", dataset.annotation_kinds, entry.annotation_kinds),
    ):
        for value in values:
            if value not in readable:
                message = f"has {quoted(value)}, the package reads {', '.join(readable) or 'none'}"
                yield _violation(f"dataset.{field}", message)


def _directories(execution: ExecutionRequest) -> Iterator[Violation]:
    workspace = execution.workspace
    folders = {name: posixpath.normpath(getattr(workspace, name)) for name in ("code_dir", "input_dir", "output_dir")}
    for (one, first), (other, second) in combinations(folders.items(), 2):
        if first == second:
            yield _violation(f"workspace.{other}", f"is the same folder as {one}")
        elif second.startswith(first + "/"):
            yield _violation(f"workspace.{other}", f"lies inside {one}")
        elif first.startswith(second + "/"):
            yield _violation(f"workspace.{one}", f"lies inside {other}")


def _model_input(
    manifest: PackageManifest, execution: ExecutionRequest | TrainingCodeSubmission, dataset: DatasetHeader
) -> Iterator[Violation]:
    given, accepted = execution.model_input, manifest.model_input_contract
    if given is None:
        if accepted is not None and accepted.required:
            yield _violation("model_input", "required here: the package starts from a model")
        return
    if accepted is None:
        yield _violation("model_input", "not allowed: the package has no model_input_contract")
        return
    artifact = given.artifact
    if artifact.framework != accepted.framework.id:
        said = "is not known" if artifact.framework is None else f"is {artifact.framework!r}"
        yield _violation("model_input.artifact.framework", f"{said}, the package needs {accepted.framework.id!r}")
    if artifact.format not in accepted.formats:
        readable = ", ".join(accepted.formats)
        yield _violation("model_input.artifact.format", f"is {artifact.format!r}, the package reads {readable}")
    if given.mode not in accepted.modes:
        yield _violation("model_input.mode", f"is {given.mode!r}, the package supports {', '.join(accepted.modes)}")
    if accepted.require_matching_task_kind and artifact.task_kind != execution.task.task_kind:
        message = f"is {artifact.task_kind!r}, the task's is {execution.task.task_kind!r}"
        yield _violation("model_input.artifact.task_kind", message)
    if given.mode == "resume":
        if not artifact.resume_supported:
            yield _violation("model_input.artifact.resume_supported", "is false, must be true to resume")
        if accepted.require_matching_class_names_for_resume:
            path = "model_input.artifact.class_names"
            yield from _same_class_names(path, artifact.class_names, dataset.class_names, "the data set's")


# --- results ---------------------------------------------------------------------------------------------------------


def _result_violations(
    manifest: PackageManifest,
    execution: ExecutionRequest | TrainingCodeSubmission,
    result: TrainingResult | Completion,
    dataset: DatasetHeader,
) -> Iterator[Violation]:
    if isinstance(result, TrainingResult):
        if result.execution_id != execution.execution_id:
            message = f"is {result.execution_id}, the execution's is {execution.execution_id}"
            yield _violation("execution_id", message)
        if result.status != "succeeded":
            return
    yield from _artifacts(manifest, result)
    yield from _model(manifest, execution, result, dataset)


def _artifacts(manifest: PackageManifest, result: TrainingResult | Completion) -> Iterator[Violation]:
    declared = {(entry.role, entry.deployable): entry for entry in manifest.output_contract.artifacts}
    matched: dict[tuple[str, bool], int] = {}
    for index, artifact in enumerate(result.artifacts):
        path, kind = f"artifacts[{index}]", (artifact.role, artifact.deployable)
        declaration = declared.get(kind)
        if declaration is None:
            listed = ", ".join(_named(entry) for entry in declared.values())
            yield _violation(path, f"is a {_kind(*kind)}, the output_contract declares {listed}")
            continue
        if kind in matched:
            yield _violation(path, f"is a second {_kind(*kind)}, after artifacts[{matched[kind]}]")
        matched.setdefault(kind, index)
        if artifact.format not in declaration.formats:
            allowed = ", ".join(declaration.formats)
            yield _violation(f"{path}.format", f"is {artifact.format!r}, the output_contract allows {allowed}")
    for kind, declaration in declared.items():
        if declaration.required and kind not in matched:
            yield _violation("artifacts", f"has no {_named(declaration)}, which the output_contract requires")


def _model(
    manifest: PackageManifest,
    execution: ExecutionRequest | TrainingCodeSubmission,
    result: TrainingResult | Completion,
    dataset: DatasetHeader,
) -> Iterator[Violation]:
    model = result.model
    if model is None:
        if manifest.output_contract.requires_model_metadata:
            yield _violation("model", "required here: the output_contract requires model metadata")
        elif any(artifact.deployable for artifact in result.artifacts):
            yield _violation("model", "required here: an artifact is deployable")
        return
    if model.task_kind != execution.task.task_kind:
        yield _violation("model.task_kind", f"is {model.task_kind!r}, the task's is {execution.task.task_kind!r}")
    yield from _same_class_names("model.class_names", model.class_names, dataset.class_names, "the data set's")
    resume = model.resume_checkpoint_path
    if resume is not None:
        checkpoints = [posixpath.normpath(entry.path) for entry in result.artifacts if entry.role == "checkpoint"]
        named = checkpoints.count(posixpath.normpath(resume))
        if named != 1:
            yield _violation(
                "model.resume_checkpoint_path",
                f"is {quoted(resume)}, which names {named or 'no'} checkpoint artifact{'s' if named > 1 else ''}",
            )


# --- saying it -------------------------------------------------------------------------------------------------------


def _dataset_of(execution: ExecutionRequest | TrainingCodeSubmission, dataset: DatasetHeader | None) -> DatasetHeader:
    carried = execution.dataset if isinstance(execution, ExecutionRequest) else execution.script_dataset
    chosen = carried or dataset
    if chosen is None:
        raise ValueError("a submission on a platform data set is admitted together with its snapshot")
    return chosen


def _same_class_names(path: str, found: Sequence[str], expected: Sequence[str], whose: str) -> Iterator[Violation]:
    if tuple(found) == tuple(expected):
        return
    if sorted(found) == sorted(expected):
        at = next(index for index, (one, other) in enumerate(zip(found, expected, strict=True)) if one != other)
        message = f"are {whose} in another order, first at [{at}] ({found[at]!r} for {expected[at]!r}): order matters"
    else:
        message = f"are {_listed(found)}, {whose} are {_listed(expected)}"
    yield _violation(path, message)


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(name[:60] for name in names[:10])
    return f"[{shown}{f', … {len(names)} in all' if len(names) > 10 else ''}]"


def _kind(role: str, deployable: bool) -> str:  # noqa: FBT001 - a pair, as the contract has it
    return f"deployable {role}" if deployable else role


def _named(declaration: ArtifactDeclaration) -> str:
    return _kind(declaration.role, declaration.deployable)


def _violation(path: str, message: str) -> Violation:
    return {"path": path, "message": message}


def _refuse(kind: type[RuntimeFault], what: str, hint: str, violations: Iterator[Violation]) -> None:
    found = list(violations)
    if found:
        said = "; ".join(f"{violation['path']} {violation['message']}" for violation in found[:20])
        more = f"; and {len(found) - 20} more" if len(found) > 20 else ""
        raise kind(f"{what}: {said}{more}", hint=hint, context={"headline": what, "violations": found})
