"""What every document of the contracts is: a frozen model that accepts exactly what the wire contract allows."""

from __future__ import annotations

import contextlib
import importlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, islice
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self, TypeVar, cast, overload
from uuid import UUID

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    Strict,
    StringConstraints,
    TypeAdapter,
    ValidationError,
    WithJsonSchema,
    model_validator,
)
from pydantic_core import PydanticKnownError, core_schema

from contracts.errors import InvalidDocumentError
from contracts.item_columns import OWNED
from contracts.limits import MAX_COUNT, MAX_VIOLATIONS
from contracts.strict_json import parse_unchecked, value_violations
from contracts.violations import ALTERNATIVE, FAST_BRANCH, MISSING, collect_violations, kind_of, quoted, several

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler, ValidationInfo
    from pydantic.json_schema import JsonSchemaValue
    from pydantic_core import CoreSchema

    from contracts.violations import Violation

_FROM_WIRE = "from_wire"
"""Key of the validation context: the document came from outside, where what Python code may leave out is required."""


class Document(BaseModel):
    """A frozen part of a contract, or a whole one: unknown fields are refused and nothing is coerced.

    Whole documents have a `protocol_version`, readable on the class. Python code may leave it out, the wire may not.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, hide_input_in_errors=True)

    @classmethod
    def __pydantic_init_subclass__(cls, **_: Any) -> None:
        version = cls.model_fields.get("protocol_version")
        if version is not None:
            cls.protocol_version = version.default  # type: ignore[attr-defined]

    @model_validator(mode="before")
    @classmethod
    def _require_version_on_the_wire(cls, value: Any, info: ValidationInfo) -> Any:
        if (
            info.context
            and info.context.get(_FROM_WIRE)
            and isinstance(value, dict)
            and "protocol_version" in cls.model_fields
            and "protocol_version" not in value
        ):
            return {**value, "protocol_version": MISSING}  # fails on its own, beside all other violations
        return value

    @classmethod
    def __get_pydantic_json_schema__(cls, core: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        schema = handler(core)
        described = handler.resolve_ref_schema(schema)
        told = [name for name in ("protocol_version", "event_type") if name in described.get("properties", {})]
        if told:  # Python code may leave them out, since the class says them
            described["required"] = [*told, *described.get("required", [])]
        return schema

    @model_validator(mode="after")
    def _refuse_disagreements(self) -> Self:
        found = list(self.disagreements(self.__dict__))
        if found:
            raise several(found)
        return self

    @classmethod
    def disagreements(cls, fields: Mapping[str, Any]) -> Iterator[Violation]:
        """Violations of the rules that span several fields.

        Args:
            fields: the fields that are valid, by name. One that is not valid itself is absent, and rules about it
                say nothing: what is wrong with it is reported already.
        """
        del fields
        return iter(())

    def late_violations(self) -> list[Violation]:
        """What takes more than a model to see; `validate` reports it of documents from outside."""
        return []

    def to_document(self) -> dict[str, Any]:
        """The normalized wire form: JSON values only, every default written out. `validate` accepts it again."""
        return self.model_dump(mode="json")


# --- values ----------------------------------------------------------------------------------------------------------

Text = Annotated[str, Strict()]
Flag = Annotated[bool, Strict()]
Number = Annotated[float, Strict(), Field(allow_inf_nan=False)]
"""A finite number; neither text nor true."""


@dataclass(frozen=True, slots=True)
class Whole:
    """Annotation of an integer: `3` and `3.0` are one, `"3"`, `true` and `3.5` are not.

    Attributes:
        ge: the least value.
        le: the greatest; without one, what databases and file systems can count.
    """

    ge: int = 0
    le: int = MAX_COUNT

    def __get_pydantic_core_schema__(self, _source: Any, _handler: GetCoreSchemaHandler) -> CoreSchema:
        number = core_schema.union_schema(
            [core_schema.int_schema(strict=True), core_schema.float_schema(strict=True)],
            mode="left_to_right",
            custom_error_type="int_type",
        )
        return core_schema.chain_schema([number, core_schema.int_schema(ge=self.ge, le=self.le)])

    def __get_pydantic_json_schema__(self, _core: CoreSchema, _handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        return {"type": "integer", "minimum": self.ge, "maximum": self.le}


Count = Annotated[int, Whole()]
PositiveCount = Annotated[int, Whole(ge=1)]

PACKAGE_KEY_PATTERN = r"^[a-z][a-z0-9_-]{0,127}$"
TASK_KIND_PATTERN = r"^[a-z][a-z0-9_]{0,63}$"
FRAMEWORK_PATTERN = r"^[A-Za-z][A-Za-z0-9_.-]{0,127}$"
FORMAT_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$"
SHA256_PATTERN = r"^[0-9a-f]{64}$"
VERSION_PATTERN = (
    r"^(?:0|[1-9][0-9]*)\.(?:0|[1-9][0-9]*)\.(?:0|[1-9][0-9]*)"
    r"(?:-[0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*)?(?:\+[0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*)?$"
)

PackageKey = Annotated[str, Strict(), StringConstraints(pattern=PACKAGE_KEY_PATTERN)]
TaskKind = Annotated[str, Strict(), StringConstraints(pattern=TASK_KIND_PATTERN)]
FrameworkId = Annotated[
    str,
    Strict(),
    StringConstraints(strip_whitespace=True, to_lower=True, pattern=FRAMEWORK_PATTERN),
    WithJsonSchema({"type": "string", "pattern": rf"^\s*{FRAMEWORK_PATTERN[1:-1]}\s*$"}),
]
"""Trimmed and lower-cased; the pattern is that of the trimmed text, whose case is lost after it was matched."""
Format = Annotated[
    str,
    Strict(),
    StringConstraints(strip_whitespace=True, to_lower=True, pattern=FORMAT_PATTERN),
    WithJsonSchema({"type": "string", "pattern": rf"^\s*{FORMAT_PATTERN[1:-1]}\s*$"}),
]
"""As `FrameworkId`."""
Sha256 = Annotated[str, Strict(), StringConstraints(pattern=SHA256_PATTERN)]
Version = Annotated[str, Strict(), StringConstraints(pattern=VERSION_PATTERN)]
Bucket = Literal["default", "datasets", "models", "annotations"]
InputMode = Literal["platform_dataset", "script_managed"]
ModelMode = Literal["initialize", "resume"]
ArtifactRole = Literal["model", "checkpoint", "report", "log", "other"]
Split = Literal["train", "val", "test", "unspecified"]

_UUID = re.compile(r"(?:urn:uuid:)?\{?([0-9a-f]{8})-?([0-9a-f]{4})-?([0-9a-f]{4})-?([0-9a-f]{4})-?([0-9a-f]{12})\}?")


def _canonical_uuid(value: Any) -> str:
    found = _UUID.fullmatch(str(value).lower()) if isinstance(value, (str, UUID)) else None
    if found is None:
        message = f"is {quoted(value) if isinstance(value, str) else kind_of(value)}, must be a UUID"
        raise ValueError(message)
    return "-".join(found.groups())


@dataclass(frozen=True, slots=True)
class _Uuid:
    """Annotation of a UUID. The canonical form is recognised without a call into Python."""

    def __get_pydantic_core_schema__(self, _source: Any, _handler: GetCoreSchemaHandler) -> CoreSchema:
        canonical = r"^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$"
        return core_schema.union_schema(
            [
                (core_schema.str_schema(strict=True, pattern=canonical), FAST_BRANCH),
                (core_schema.no_info_plain_validator_function(_canonical_uuid), ALTERNATIVE + "uuid"),
            ],
            mode="left_to_right",
        )

    def __get_pydantic_json_schema__(self, _core: CoreSchema, _handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        return {"type": "string", "format": "uuid"}


UuidText = Annotated[str, _Uuid()]
"""A UUID as text, lower case with hyphens, whichever way it was written."""


# --- paths -----------------------------------------------------------------------------------------------------------

_PLAIN_PATH = r"^[^\s\x00-\x20./\\:][^\s\x00-\x20/\\:]*(?:/[^\s\x00-\x20./\\:][^\s\x00-\x20/\\:]*)*$"
_DRIVE = re.compile(r"[A-Za-z]:/")


def normalize_relative_path(value: str) -> str:
    r"""`value` trimmed and with `/` for `\`; below the folder that it is relative to, whichever that is.

    Raises:
        ValueError: it is empty, `.`, absolute, has a `..` part or a NUL character.
    """
    path = value.strip().replace("\\", "/")
    parts = path.split("/")
    if not path:
        reason = "is empty"
    elif path.startswith("/") or _DRIVE.match(path):
        reason = "is absolute"
    elif set(parts) <= {".", ""}:
        reason = "names no file"
    elif ".." in parts:
        reason = "has a '..' part"
    elif "\0" in path:
        reason = "has a NUL character"
    else:
        return path
    raise ValueError(f"is {quoted(value)}, must be a relative path: it {reason}")


@dataclass(frozen=True, slots=True)
class _RelativePath:
    """Annotation of a relative path. Plain ones are recognised without a call into Python: item lists are long."""

    def __get_pydantic_core_schema__(self, _source: Any, _handler: GetCoreSchemaHandler) -> CoreSchema:
        text = core_schema.str_schema(strict=True)
        any_path = core_schema.no_info_after_validator_function(normalize_relative_path, text)
        return core_schema.union_schema(
            [
                (core_schema.str_schema(strict=True, pattern=_PLAIN_PATH), FAST_BRANCH),
                (any_path, ALTERNATIVE + "path"),
            ],
            mode="left_to_right",
        )

    def __get_pydantic_json_schema__(self, _core: CoreSchema, _handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        return {
            "type": "string",
            "minLength": 1,
            "description": "A relative path: not empty, not absolute, no '..' part; '\\' is read as '/'.",
        }


RelativePath = Annotated[str, _RelativePath()]


def _workspace_path(value: str) -> str:
    parts = value.split("/")
    if parts[:2] != ["", "workspace"] or ".." in parts or "\0" in value or "\\" in value:
        raise ValueError(f"is {quoted(value)}, must be /workspace or a path below it")
    return value


WorkspacePath = Annotated[
    str, Strict(), AfterValidator(_workspace_path), WithJsonSchema({"type": "string", "pattern": "^/workspace(/.*)?$"})
]
"""A path inside the portable workspace: `/workspace` itself or below it."""


# --- collections -----------------------------------------------------------------------------------------------------


def _unique_texts(values: tuple[str, ...]) -> tuple[str, ...]:
    trimmed = tuple(value.strip() for value in values)
    if "" not in trimmed and len(set(trimmed)) == len(trimmed):
        return trimmed
    first: dict[str, int] = {}
    found = []
    for index, value in enumerate(trimmed):
        if not value:
            found.append({"path": f"[{index}]", "message": "is blank"})
        elif value in first:
            found.append({"path": f"[{index}]", "message": f"repeats {quoted(value)} of [{first[value]}]"})
        first.setdefault(value, index)
    raise several(found)


Unique = AfterValidator(_unique_texts)
"""Values are trimmed; blanks and duplicates are refused, each with its index."""


_PLAIN_KINDS = frozenset({int, bool, type(None), str})


def _free_map(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise PydanticKnownError("dict_type")
    found = list(islice(value_violations(value), MAX_VIOLATIONS + 1)) if value else None
    if found:
        raise several(found)
    return value


@dataclass(frozen=True, slots=True)
class _FreeMap:
    """Annotation of an object of any JSON values."""

    def __get_pydantic_core_schema__(self, _source: Any, _handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_plain_validator_function(_free_map)

    def __get_pydantic_json_schema__(self, _core: CoreSchema, _handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        return {"type": "object"}

    def is_plain(self, column: list[Any]) -> bool:
        """Whether all of `column` are flat maps of plain values, as the metadata of items mostly are."""
        if set(map(type, column)) != {dict}:
            return False
        names = set(chain.from_iterable(column))
        values = list(chain.from_iterable(map(dict.values, column)))
        kinds = set(map(type, values))
        if not kinds <= _PLAIN_KINDS or not set(map(type, names)) <= {str}:
            return False
        texts = [value for value in values if type(value) is str] if str in kinds else []
        return "".join(names).isascii() and "".join(texts).isascii()


FreeMap = Annotated[dict[str, Any], _FreeMap()]
"""An object of any JSON values; the rules for numbers, text and nesting hold inside it too."""


def _metric_map(value: dict[str, float]) -> dict[str, float]:
    if any(not name.strip() for name in value):
        raise ValueError("has a blank name")
    return value


MetricMap = Annotated[dict[Text, Number], AfterValidator(_metric_map), Field(max_length=128)]
"""Names and finite numbers, 128 at most."""


# --- the catalogue ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Contract:
    """One kind of document: its name in `GET /v1/contracts`, its version, and where its model is.

    The model is imported on first use: the command line must start fast, and models import this module.

    Attributes:
        name: as in `CONTRACTS`.
        version: the exact `protocol_version`; empty for the completion, which has none.
        place: `module:name` of the model, or of a union of models that differ in `event_type`.
    """

    name: str
    version: str
    place: str

    @cached_property
    def model(self) -> Any:
        """The model, or the union of models."""
        module, _, name = self.place.partition(":")
        return getattr(importlib.import_module(module), name)

    @cached_property
    def adapter(self) -> TypeAdapter[Any]:
        """Validates Python values to `model`."""
        return TypeAdapter(self.model)


CONTRACTS: dict[str, Contract] = {
    contract.name: contract
    for contract in (
        Contract("package", "training-code-package/v1", "contracts.package:PackageManifest"),
        Contract("dataset_manifest", "training-dataset-manifest/v1", "contracts.dataset:DatasetManifest"),
        Contract(
            "dataset_source_manifest",
            "training-dataset-source-manifest/v1",
            "contracts.dataset:DatasetSourceManifest",
        ),
        Contract("model_package", "training-model-package/v1", "contracts.model_package:ModelPackageManifest"),
        Contract("execution", "training-execution/v1", "contracts.execution:ExecutionRequest"),
        Contract("event", "training-event/v1", "contracts.event:Event"),
        Contract("result", "training-result/v1", "contracts.result:TrainingResult"),
        Contract("mq_submission", "training-code-submit/v1", "contracts.submission:TrainingCodeSubmission"),
        Contract("completion", "", "contracts.completion:Completion"),
    )
}
"""By name. `completion` is what `train` returns; it has no version and is not announced."""

ANNOUNCED = tuple(name for name in CONTRACTS if name != "completion")
"""The contracts that `GET /v1/contracts` lists, in its order."""


def guess_contract(document: Any) -> str:
    """The name of the contract that `document["protocol_version"]` says it follows.

    Raises:
        InvalidDocumentError: it is no object, or says no version, or one that is not known here.
    """
    version = document.get("protocol_version") if isinstance(document, Mapping) else None
    for contract in CONTRACTS.values():
        if contract.version and contract.version == version:
            return contract.name
    known = ", ".join(CONTRACTS[name].version for name in ANNOUNCED)
    if not isinstance(document, Mapping):
        violation = {"path": "", "message": f"is {kind_of(document)}, must be an object"}
    elif version is None:
        violation = {"path": "protocol_version", "message": f"required here, one of {known}"}
    else:
        violation = {"path": "protocol_version", "message": f"is {quoted(version)}, must be one of {known}"}
    raise InvalidDocumentError.of("contract", [violation])


D = TypeVar("D", bound=Document)


@overload
def validate(contract: type[D], content: bytes | str | Mapping[str, Any]) -> D: ...
@overload
def validate(contract: str, content: bytes | str | Mapping[str, Any]) -> Document: ...
def validate(contract: type[D] | str, content: bytes | str | Mapping[str, Any]) -> D | Document:
    """The document that `content` holds; whatever is returned is valid, normalized and frozen.

    Args:
        contract: a name of `CONTRACTS`, or a model.
        content: JSON bytes or text, or an object that was parsed already.

    Raises:
        InvalidDocumentError: with every violation in `context["violations"]`, each `{"path", "message"}`.
    """
    if isinstance(contract, str):
        name, model, check = contract, CONTRACTS[contract].model, CONTRACTS[contract].adapter.validate_python
    else:
        name, model, check = _name_of(contract), contract, cast("Callable[..., Any]", contract.model_validate)
    owned = isinstance(content, (bytes, str))
    value = parse_unchecked(content, contract=name) if isinstance(content, (bytes, str)) else content
    if not isinstance(value, Mapping):
        raise InvalidDocumentError.of(name, [{"path": "", "message": f"is {kind_of(value)}, must be an object"}])
    context = {_FROM_WIRE: True, OWNED: owned}
    try:
        document = cast("Document", check(dict(value), context=context))
    except ValidationError as error:
        found = collect_violations(error, model)
        if isinstance(model, type) and issubclass(model, Document):
            agreed = {violation["path"] for violation in found}
            spanning = model.disagreements(_valid_fields(model, value, context))
            found += [violation for violation in spanning if violation["path"] not in agreed]
        raise InvalidDocumentError.of(name, found) from error
    late = document.late_violations()
    if late:
        raise InvalidDocumentError.of(name, late)
    return document


def _valid_fields(model: type[Document], value: Mapping[str, Any], context: dict[str, Any]) -> dict[str, Any]:
    """The fields of a refused document that are valid one by one."""
    valid: dict[str, Any] = {}
    for name, field in model.model_fields.items():
        if name not in value:
            if not field.is_required():
                valid[name] = field.get_default(call_default_factory=True)
            continue
        adapter: TypeAdapter[Any] = TypeAdapter(cast("Any", Annotated[field.annotation, field]))
        with contextlib.suppress(ValidationError):
            valid[name] = adapter.validate_python(value[name], context=context)
    return valid


def _name_of(model: type[Document]) -> str:
    place = f"{model.__module__}:{model.__name__}"
    announced = (contract.name for contract in CONTRACTS.values() if contract.place == place)
    return next(announced, re.sub(r"(?<=[a-z])(?=[A-Z])", "_", model.__name__).lower())
