"""The manifest of a code package, `training_package.json` at its ZIP's root."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, StringConstraints

from contracts.base import (
    ArtifactRole,
    Document,
    Flag,
    Format,
    FrameworkId,
    FreeMap,
    InputMode,
    ModelMode,
    PackageKey,
    RelativePath,
    TaskKind,
    Text,
    Unique,
    Version,
)
from contracts.limits import MAX_CLASS_NAMES
from contracts.user_schema import check_schema
from contracts.violations import Violation, below, kind_of, quoted, several

MANIFEST_NAME = "training_package.json"
"""The only member of a code package that the runtime reads by name."""


class RuntimeRequirement(Document):
    """The environment that the platform must offer; packages never bring one."""

    id: Annotated[Text, StringConstraints(min_length=1, max_length=128)]
    kind: Literal["platform_managed"] = "platform_managed"


class SupportedTask(Document):
    """A task kind that the package trains, with the data that it can read for it."""

    task_kind: TaskKind
    data_modalities: Annotated[tuple[Text, ...], Field(min_length=1, max_length=8), Unique]
    annotation_kinds: Annotated[tuple[Text, ...], Field(max_length=16), Unique] = ()


class FrameworkRequirement(Document):
    """The framework that wrote a model which training starts from."""

    id: FrameworkId
    version: Annotated[Text, StringConstraints(min_length=1, max_length=128)]


class ModelInputContract(Document):
    """Which models training may start from, and how."""

    required: Flag = False
    framework: FrameworkRequirement
    formats: Annotated[tuple[Format, ...], Field(min_length=1, max_length=16), Unique]
    modes: Annotated[tuple[ModelMode, ...], Field(min_length=1, max_length=2)]
    require_matching_task_kind: Flag = True
    require_matching_class_names_for_resume: Flag = True


class ArtifactDeclaration(Document):
    """One kind of file that training leaves in `output_dir`."""

    role: ArtifactRole
    formats: Annotated[tuple[Format, ...], Field(min_length=1, max_length=16)]
    required: Flag = True
    deployable: Flag = False


def _distinct_declarations(declared: tuple[ArtifactDeclaration, ...]) -> tuple[ArtifactDeclaration, ...]:
    seen: dict[tuple[str, bool], int] = {}
    found = []
    for index, artifact in enumerate(declared):
        if artifact.deployable and artifact.role != "model":
            found.append(
                {"path": f"[{index}].deployable", "message": f"a {artifact.role} cannot be deployable, only a model"}
            )
        first = seen.setdefault((artifact.role, artifact.deployable), index)
        if first != index:
            found.append({"path": f"[{index}]", "message": f"repeats role and deployable of [{first}]"})
    if found:
        raise several(found)
    return declared


class OutputContract(Document):
    """What a successful training leaves behind."""

    artifacts: Annotated[
        tuple[ArtifactDeclaration, ...], Field(min_length=1, max_length=16), AfterValidator(_distinct_declarations)
    ]
    requires_model_metadata: Flag = True


def _python_file(path: str) -> str:
    if not path.endswith(".py"):
        raise ValueError(f"is {quoted(path)}, must end in .py")
    return path


def _distinct_modes(modes: tuple[str, ...]) -> tuple[str, ...]:
    if len(set(modes)) != len(modes):
        raise several([{"path": "[1]", "message": f"repeats {modes[0]!r} of [0]"}])
    return modes


def _object_schema(schema: dict[str, Any]) -> dict[str, Any]:
    root = schema.get("type")
    if root != "object":
        said = "required here" if "type" not in schema else f"is {quoted(root) if root else kind_of(root)}"
        raise several([{"path": "type", "message": f"{said}, must be 'object' at a parameter schema's root"}])
    return schema


class PackageManifest(Document):
    """What a code package is, what it can train, and what it promises to leave."""

    protocol_version: Literal["training-code-package/v1"] = "training-code-package/v1"
    key: PackageKey
    version: Version
    name: Annotated[Text, StringConstraints(min_length=1, max_length=200)]
    description: Annotated[Text, StringConstraints(max_length=2000)] | None = None
    runtime: RuntimeRequirement
    entrypoint: Annotated[RelativePath, AfterValidator(_python_file)]
    entrypoint_symbol: Text = "train"
    supported_tasks: Annotated[tuple[SupportedTask, ...], Field(min_length=1, max_length=32)]
    input_modes: Annotated[
        tuple[InputMode, ...], Field(min_length=1, max_length=2), AfterValidator(_distinct_modes)
    ] = ("platform_dataset",)
    class_names: Annotated[tuple[Text, ...], Field(max_length=MAX_CLASS_NAMES), Unique] = ()
    parameters_schema: Annotated[FreeMap, AfterValidator(_object_schema)] = Field(
        default_factory=lambda: {"type": "object", "properties": {}}
    )
    model_input_contract: ModelInputContract | None = None
    output_contract: OutputContract

    def late_violations(self) -> list[Violation]:
        """The parameter schema is a schema, which takes JSON Schema's own rules to see."""
        return [below("parameters_schema", found) for found in check_schema(self.parameters_schema)]
