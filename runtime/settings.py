"""What an operator decides, under one name everywhere.

A key of `mtr.toml`, an environment name `MTR_…` and the field of the Prefect block are the same word. The platform's own
names (`S3_ENDPOINT`, `S3_ACCESS_KEY`, ...) are read too. From weakest to strongest: the defaults, `mtr.toml`, the
platform's names, `MTR_…`, and what `runtime.platform_settings` reads for each execution.

Nothing is guessed: an unknown key is refused with its name, and a text where a truth value belongs is refused too, since
`"false"` read as true would switch execution on.
"""

from __future__ import annotations

import difflib
import os
import sys
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final, Literal, get_args, get_origin

import orjson
import platformdirs
from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    PrivateAttr,
    SecretStr,
    ValidationError,
    field_validator,
    model_validator,
)

from contracts.errors import InvalidSettingsError
from contracts.limits import (
    DEFAULT_CACHE_MAX_BYTES,
    DEFAULT_IDLE_TIMEOUT_SECONDS,
    DEFAULT_MAX_ATTEMPTS,
    DEFAULT_MAX_OUTPUT_BYTES,
    DEFAULT_MAX_PROCESSES,
    DEFAULT_MAX_UPLOAD_BYTES,
    DEFAULT_MAX_WORKSPACE_BYTES,
    MAX_SETTINGS_BYTES,
    TERMINATE_GRACE_SECONDS,
)

if TYPE_CHECKING:
    from contracts.admission import ExecutionPolicy, Origin

SETTINGS_FILE: Final = "mtr.toml"
BASE_RUNTIME: Final = "base"

_PREFIX: Final = "MTR_"
_NOT_SETTINGS: Final = "MTR_INTERNAL_"
"""Names that our processes pass to each other; never read as settings, never refused."""
_PLATFORM_NAMES: Final = {
    "S3_ENDPOINT": "s3_endpoint",
    "S3_ACCESS_KEY": "s3_access_key",
    "S3_SECRET_KEY": "s3_secret_key",
    "S3_REGION": "s3_region",
    "S3_DEFAULT_BUCKET": "s3_default_bucket",
    "S3_DATASETS_BUCKET": "s3_datasets_bucket",
    "S3_MODELS_BUCKET": "s3_models_bucket",
    "S3_ANNOTATIONS_BUCKET": "s3_annotations_bucket",
    "RABBITMQ_HOST": "rabbitmq_host",
    "RABBITMQ_PORT": "rabbitmq_port",
    "RABBITMQ_USER": "rabbitmq_user",
    "RABBITMQ_PASSWORD": "rabbitmq_password",
    "RABBITMQ_VHOST": "rabbitmq_vhost",
    "RABBITMQ_EXCHANGE": "rabbitmq_exchange",
    "USE_NACOS": "use_nacos",
    "NACOS_SERVER_ADDR": "nacos_server_addr",
    "NACOS_NAMESPACE": "nacos_namespace",
    "NACOS_DATA_ID": "nacos_data_id",
    "NACOS_GROUP": "nacos_group",
    "NACOS_USERNAME": "nacos_username",
    "NACOS_PASSWORD": "nacos_password",
}

_PLATFORM_BUCKETS: Final = {
    "default": "auto-ml-datasets",
    "datasets": "auto-ml-datasets",
    "models": "auto-ml-models",
    "annotations": "auto-ml-annotations",
}
_PORT: Final = r":(\d{1,4}|[1-5]\d{4}|6[0-4]\d{3}|65[0-4]\d\d|655[0-2]\d|6553[0-5])"
_SERVER: Final = rf"(https?://)?([^\s/,@?#:\[\]]+|\[[0-9a-fA-F:.]+\])({_PORT})?(/[^\s,@?#]*)?"
_SERVERS: Final = rf"^{_SERVER}( *, *{_SERVER})*$"
"""No user within an address: addresses are shown."""
_EXPECTED: Final = {
    "bool_type": "true or false",
    "int_type": "an integer",
    "int_from_float": "an integer",
    "float_type": "a number",
    "string_type": "text",
    "tuple_type": "a list",
    "dict_type": "a table of name = value",
    "path_type": "a path",
}
_SAID: Final = {str: "text", bool: "a truth value", int: "a number", float: "a number", list: "a list", dict: "a table"}


class Settings(BaseModel):
    """One installation's decisions, complete: every path absolute, every default filled in.

    Made by `load_settings`; a test makes one directly from `home` and what it needs. Sizes are in bytes, times in
    seconds.

    Attributes:
        home: the folder of everything that is kept on this machine.
        store: `""` is S3 when `s3_endpoint` is set and local folders otherwise; `local` and `s3` say which; an
            `s3://PREFIX` is S3 with buckets `PREFIX-default`, ... where no other name is given.
        s3_endpoint: the S3 server's URL; empty is the vendor's own.
        s3_access_key: with `s3_secret_key`, who we are to it.
        s3_secret_key: see `s3_access_key`.
        s3_region: the region that requests are signed for.
        s3_default_bucket: the real name of the logical bucket `default`; empty is the default name. Likewise the others.
        s3_datasets_bucket: the real name of `datasets`.
        s3_models_bucket: the real name of `models`.
        s3_annotations_bucket: the real name of `annotations`.
        database_url: the ledger's database as an SQLAlchemy URL; empty is an SQLite file under `home`.
        execution_enabled: whether packages run here at all.
        runtime_ids: the allow-list of `runtime.id`.
        runtimes: the Python of each runtime id; `base` is always there.
        allow_script_managed_data: whether packages may bring their own data (and so reach the network).
        idle_timeout_seconds: how long a package may say nothing.
        max_output_bytes: how much plain output a package may print.
        max_processes: how many processes it may have at once, and eight times as many threads.
        process_fsize_bytes: the largest file it may write; `None` bounds it by `max_workspace_bytes` alone.
        process_nofile: how many files each of its processes may have open; `None` is what the machine allows.
        max_workspace_bytes: how much it may write in all.
        terminate_grace_seconds: time between being asked to end and being ended.
        fail_on_left_processes: whether a package fails whose processes outlive its training; they are ended in any case.
        isolation: `auto` uses the namespaces this machine allows; `none` uses none, and the record says so.
        max_attempts: how often a machine's failure may cost an execution a new attempt.
        oom_memory_factor: after `out_of_memory` one more attempt with so many times the memory; `None` is none.
        cache_max_bytes: the bound of the cache.
        workspace_root: where workspaces are made.
        cpu_pool: the Prefect work pool of CPU training; `None` trains in the flow's own process.
        gpu_pool: likewise for GPU training.
        gpus: how many GPUs a training may have on this machine; empty is what is found here.
        cluster_pools: those of `cpu_pool` and `gpu_pool` whose trainings are Jobs of a Kubernetes cluster; `mtr apply`
            creates them of that type.
        cluster_namespace: the namespace of these Jobs; empty is no cluster.
        cluster_image: the image of their pods, see `make image`.
        cluster_kubeconfig: the kubeconfig file that says where the cluster is; empty is `KUBECONFIG`, and inside a
            cluster that cluster itself.
        max_executions: how many executions this machine carries out at once for `mtr serve` and `mtr bridge` where no
            Prefect server is configured; further ones wait their turn.
        base_url: the HTTP API's address as its clients reach it, such as `https://training.example`; empty is the one
            that a request came to.
        api_token: what write requests must bear; empty asks for none.
        api_previous_token: a second token that is valid too, while clients change to a new one.
        max_upload_bytes: the largest package that may be registered, packed and unpacked, by stream or direct upload.
        rabbitmq_host: the broker's machine; empty is no broker.
        rabbitmq_port: the broker's port.
        rabbitmq_user: with `rabbitmq_password`, who we are to it.
        rabbitmq_password: see `rabbitmq_user`.
        rabbitmq_vhost: the broker's virtual host.
        rabbitmq_exchange: the topic exchange of submissions and of what the platform is told.
        rabbitmq_queue: the queue, and routing key, of submissions.
        rabbitmq_heartbeat_seconds: the broker ends a connection that is silent for so long.
        use_nacos: whether the platform's settings in Nacos decide (`docs/platform-settings.md`); empty is yes for
            `mtr serve`, `mtr bridge` and workers, and no for every other command.
        nacos_server_addr: the Nacos server, `host:port` or a URL; several with commas are tried in turn.
        nacos_namespace: the id of the namespace.
        nacos_data_id: the document's data id.
        nacos_group: the document's group.
        nacos_username: with `nacos_password`, who we are to it; empty asks without a login.
        nacos_password: see `nacos_username`.
    """

    model_config: ClassVar[ConfigDict] = ConfigDict(
        frozen=True, extra="forbid", strict=True, hide_input_in_errors=True, allow_inf_nan=False
    )

    home: Path = Field(strict=False)

    store: str = Field(default="", pattern=r"^(|local|s3|s3://[a-z0-9][a-z0-9.-]{0,49})$")
    s3_endpoint: str = Field(default="", pattern=r"^(|https?://.+)$")
    s3_access_key: SecretStr = SecretStr("")
    s3_secret_key: SecretStr = SecretStr("")
    s3_region: str = Field(default="us-east-1", min_length=1)
    s3_default_bucket: str = ""
    s3_datasets_bucket: str = ""
    s3_models_bucket: str = ""
    s3_annotations_bucket: str = ""

    database_url: SecretStr = SecretStr("")

    execution_enabled: bool = False
    runtime_ids: tuple[str, ...] = Field(default=(BASE_RUNTIME,), strict=False)
    runtimes: Mapping[str, Annotated[Path, Field(strict=False)]] = Field(default_factory=dict)
    allow_script_managed_data: bool = False

    idle_timeout_seconds: float = Field(default=DEFAULT_IDLE_TIMEOUT_SECONDS, gt=0)
    max_output_bytes: int = Field(default=DEFAULT_MAX_OUTPUT_BYTES, gt=0)
    max_processes: int = Field(default=DEFAULT_MAX_PROCESSES, gt=0)
    process_fsize_bytes: int | None = Field(default=None, gt=0)
    process_nofile: int | None = Field(default=None, ge=64)
    max_workspace_bytes: int = Field(default=DEFAULT_MAX_WORKSPACE_BYTES, gt=0)
    terminate_grace_seconds: float = Field(default=TERMINATE_GRACE_SECONDS, ge=0)
    fail_on_left_processes: bool = True
    isolation: Literal["auto", "none"] = "auto"
    max_attempts: int = Field(default=DEFAULT_MAX_ATTEMPTS, ge=1, le=100)
    oom_memory_factor: float | None = Field(default=None, gt=1, le=16)

    cache_max_bytes: int = Field(default=DEFAULT_CACHE_MAX_BYTES, gt=0)
    workspace_root: Path = Field(default=Path(), strict=False)

    cpu_pool: str | None = Field(default=None, min_length=1)
    gpu_pool: str | None = Field(default=None, min_length=1)
    gpus: int | None = Field(default=None, ge=0, le=64)
    cluster_pools: tuple[str, ...] = Field(default=(), strict=False)
    cluster_namespace: str = Field(default="", pattern=r"^(|[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?)$")
    cluster_image: str = ""
    cluster_kubeconfig: str = ""
    max_executions: int = Field(default=1, ge=1)

    base_url: str = Field(default="", pattern=r"^(|https?://[^\s?#]+)$")
    api_token: SecretStr = SecretStr("")
    api_previous_token: SecretStr = SecretStr("")
    max_upload_bytes: int = Field(default=DEFAULT_MAX_UPLOAD_BYTES, gt=0)

    rabbitmq_host: str = ""
    rabbitmq_port: int = Field(default=5672, ge=1, le=65_535)
    rabbitmq_user: str = "guest"
    rabbitmq_password: SecretStr = SecretStr("guest")
    rabbitmq_vhost: str = Field(default="/", min_length=1)
    rabbitmq_exchange: str = Field(default="auto_ml_exchange", min_length=1)
    rabbitmq_queue: str = Field(default="training.code.execute", min_length=1)
    rabbitmq_heartbeat_seconds: int = Field(default=60, ge=5, le=3600)

    use_nacos: bool | None = None
    nacos_server_addr: str = Field(default="127.0.0.1:8848", pattern=_SERVERS)
    nacos_namespace: str = Field(default="public", max_length=128)
    nacos_data_id: str = Field(default="AUTO_ML_CONFIG", min_length=1, max_length=256)
    nacos_group: str = Field(default="AUTO_ML", min_length=1, max_length=128)
    nacos_username: str = ""
    nacos_password: SecretStr = SecretStr("")

    _machine: Settings | None = PrivateAttr(default=None)
    """What this machine alone says, where the platform has decided some of it."""
    _origins: Mapping[str, Any] = PrivateAttr(default_factory=dict)
    """Of a field of the policy, the `Origin`s in the platform's document."""

    @model_validator(mode="before")
    @classmethod
    def _complete(cls, given: Any) -> Any:
        """Paths that depend on `home`, and the runtime that always exists."""
        if not isinstance(given, Mapping) or "home" not in given:
            return given
        filled = dict(given)
        filled.setdefault("workspace_root", Path(filled["home"]) / "workspaces")
        runtimes = filled.get("runtimes") or {}
        if isinstance(runtimes, Mapping):
            filled["runtimes"] = {BASE_RUNTIME: sys.executable, **runtimes}
        return filled

    @field_validator("runtime_ids", mode="before")
    @classmethod
    def _one_or_many(cls, given: Any) -> Any:
        """The platform's settings may name one runtime as plain text."""
        return (given,) if isinstance(given, str) else given

    @field_validator("home", "workspace_root")
    @classmethod
    def _absolute(cls, path: Path) -> Path:
        return Path(os.path.abspath(path.expanduser()))  # noqa: PTH100 - `resolve` would follow symbolic links

    @field_validator("runtimes")
    @classmethod
    def _pythons(cls, runtimes: Mapping[str, Path]) -> Mapping[str, Path]:
        """A virtual environment's Python is a link that must not be followed: its own path is what makes it one."""
        return {name: Path(os.path.abspath(path.expanduser())) for name, path in runtimes.items()}  # noqa: PTH100 - see above

    @property
    def uses_s3(self) -> bool:
        """Whether objects lie in S3, not in local folders."""
        return self.store.startswith("s3") or (self.store == "" and self.s3_endpoint != "")

    @property
    def buckets(self) -> dict[str, str]:
        """The real bucket of each logical one; two logical ones may share a real one."""
        given = {
            "default": self.s3_default_bucket,
            "datasets": self.s3_datasets_bucket,
            "models": self.s3_models_bucket,
            "annotations": self.s3_annotations_bucket,
        }
        prefix = self.store.removeprefix("s3://") if self.store.startswith("s3://") else ""
        defaults = {name: f"{prefix}-{name}" for name in given} if prefix else _PLATFORM_BUCKETS
        return {name: real or defaults[name] for name, real in given.items()}

    @property
    def store_root(self) -> Path:
        """The local store: one folder a logical bucket."""
        return self.home / "store"

    @property
    def cache_root(self) -> Path:
        """The cache that executions of this machine share."""
        return self.home / "cache"

    @property
    def executions_root(self) -> Path:
        """Journals and output logs, one folder an execution."""
        return self.home / "executions"

    @property
    def prefect_home(self) -> Path:
        """Prefect's own folder, its database included."""
        return self.home / "prefect"

    @property
    def ledger_url(self) -> str:
        """The ledger's SQLAlchemy URL. It may hold a password: never show it."""
        return self.database_url.get_secret_value() or f"sqlite:///{self.home / 'ledger.db'}"

    @property
    def decided_elsewhere(self) -> bool:
        """Whether the platform's settings decide over this machine's own."""
        return self._machine is not None

    @property
    def machine(self) -> Settings:
        """What this machine says itself."""
        return self._machine or self

    def policy(self) -> ExecutionPolicy:
        """What the operator allows, as the admission rules ask for it."""
        from contracts.admission import ExecutionPolicy  # noqa: PLC0415 - admission brings a JSON Schema library along

        return ExecutionPolicy(
            execution_enabled=self.execution_enabled,
            runtime_ids=self.runtime_ids,
            allow_script_managed_data=self.allow_script_managed_data,
            origins=self._origins,
        )

    def shared_environment(self, names: Iterable[str]) -> dict[str, str]:
        """The `MTR_…` names with which a process of another machine has these fields, as they hold now.

        Raises:
            ValueError: one of them is a secret.
        """
        values = {name: getattr(self, name) for name in names}
        if secret := sorted(name for name, value in values.items() if isinstance(value, SecretStr)):
            raise ValueError(f"{', '.join(secret)} must not be shown")
        return {f"{_PREFIX}{name.upper()}": _to_text(value) for name, value in values.items()}

    def to_environment(self) -> dict[str, str]:
        """The `MTR_…` names with which another process of this machine loads these very settings, secrets included.

        Where the platform decided, it gets what this machine says and reads the platform's settings itself, afresh;
        where `use_nacos` is empty, nobody decided, and it asks nobody.

        For our own processes only: nothing that runs a package's code may inherit it.
        """
        given = self.machine
        asks = _to_text(self.decided_elsewhere or self.use_nacos is True)
        return {
            **{f"{_PREFIX}{name.upper()}": _to_text(getattr(given, name)) for name in type(self).model_fields},
            f"{_PREFIX}USE_NACOS": asks,
        }


def load_settings(
    *, served: bool = False, directory: Path | None = None, environ: Mapping[str, str] | None = None
) -> Settings:
    """The settings that hold in `directory`, or an error that names every wrong key.

    Args:
        served: whether the caller works for a platform (`mtr serve`, `mtr bridge`, a worker): then execution is off
            until a setting turns it on. On one machine with nothing configured it is on.
        directory: where `mtr.toml` is looked for, here and above; default the current directory. Relative paths in
            the environment start here, those in `mtr.toml` beside it.
        environ: the environment; default the process's own.

    Raises:
        InvalidSettingsError: a key is unknown or its value is not what it must be; `context["violations"]` lists all.
    """
    directory = (directory or Path.cwd()).absolute()
    environ = os.environ if environ is None else environ
    file = _find_file(directory)

    values: dict[str, Any] = {"execution_enabled": not served}
    origins: dict[str, str] = {}
    violations: list[dict[str, str]] = []
    for name, value, origin, base in (
        *_from_file(file, violations),
        *_from_environment(environ, directory, violations),
    ):
        values[name] = _anchor(name, value, base)
        origins[name] = origin
    if "home" not in values:
        values["home"] = file.parent / ".mtr" if file else platformdirs.user_data_path("mtr", appauthor=False)

    try:
        settings = Settings.model_validate(values)
    except ValidationError as error:
        violations += _violations_of(error, values, origins)
    if violations:
        raise _refused(violations)
    return settings


def change_settings(settings: Settings, changes: Mapping[str, Any], *, place: str) -> Settings:
    """`settings` with some of them decided anew elsewhere, in a Prefect block for instance; the others stay.

    Args:
        settings: what holds so far.
        changes: values by the settings' own names.
        place: where they were decided, as the message shall say it.

    Raises:
        InvalidSettingsError: a name is no setting or its value is not what it must be; `context["violations"]` lists all.
    """
    fields = Settings.model_fields
    violations = [
        {"path": f"{name} in {place}", "message": _unknown(name, fields)} for name in changes if name not in fields
    ]
    known = {name: value for name, value in changes.items() if name in fields}
    values = {**{name: getattr(settings, name) for name in fields}, **known}
    try:
        changed = Settings.model_validate(values)
    except ValidationError as error:
        violations += _violations_of(error, values, {name: f"{name} in {place}" for name in known})
    if violations:
        raise _refused(violations)
    return changed


def decide_settings(
    machine: Settings, changes: Mapping[str, Any], *, place: str, origins: Mapping[str, tuple[Origin, ...]]
) -> Settings:
    """`machine`'s settings with what the platform decides; refusals name the platform's own settings.

    Args:
        machine: what this machine says.
        changes: as for `change_settings`.
        place: likewise.
        origins: of a field of the policy, the platform's settings that stand for it.

    Raises:
        InvalidSettingsError: as `change_settings`.
    """
    decided = change_settings(machine, changes, place=place)
    decided._machine, decided._origins = machine, dict(origins)  # noqa: SLF001 - private to settings, not to one of them
    return decided


def complaint_about(name: str, value: object) -> str | None:
    """Why `value` cannot be the setting `name`, or None when it can."""
    try:
        Settings.model_validate({"home": Path("/"), name: value})
    except ValidationError as error:
        return _violations_of(error, {name: value}, {})[0]["message"]
    return None


def _find_file(directory: Path) -> Path | None:
    return next((file for at in (directory, *directory.parents) if (file := at / SETTINGS_FILE).is_file()), None)


def _from_file(file: Path | None, violations: list[dict[str, str]]) -> list[tuple[str, Any, str, Path]]:
    if file is None:
        return []
    try:
        with file.open("rb") as source:
            content = source.read(MAX_SETTINGS_BYTES + 1)
        if len(content) > MAX_SETTINGS_BYTES:
            violations.append({"path": str(file), "message": f"is larger than {MAX_SETTINGS_BYTES} bytes"})
            return []
        found = tomllib.loads(content.decode())
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        violations.append({"path": str(file), "message": f"cannot be read as TOML: {error}"})
        return []
    known: list[tuple[str, Any, str, Path]] = []
    for name, value in found.items():
        if name in Settings.model_fields:
            known.append((name, value, f"{name} in {file}", file.parent))
        else:
            violations.append({"path": f"{name} in {file}", "message": _unknown(name, Settings.model_fields)})
    return known


def _from_environment(
    environ: Mapping[str, str], directory: Path, violations: list[dict[str, str]]
) -> list[tuple[str, Any, str, Path]]:
    found = [(name, variable) for variable, name in _PLATFORM_NAMES.items() if environ.get(variable)]
    ours = {f"{_PREFIX}{name.upper()}": name for name in Settings.model_fields}
    for variable in sorted(environ):
        if not variable.startswith(_PREFIX) or variable.startswith(_NOT_SETTINGS):
            continue
        if variable in ours:
            found.append((ours[variable], variable))
        else:
            violations.append({"path": variable, "message": _unknown(variable, ours)})
    return [
        (name, _from_text(name, _spelled(variable, environ[variable])), variable, directory) for name, variable in found
    ]


def _spelled(variable: str, text: str) -> str:
    """The platform's services are told `USE_NACOS=True` as often as `true`."""
    return text.lower() if variable == "USE_NACOS" and text.lower() in {"true", "false"} else text


def _unknown(name: str, known: Mapping[str, object]) -> str:
    close = difflib.get_close_matches(name, known, n=1)
    return "is no setting" + (f"; did you mean {close[0]}?" if close else "; known here: " + ", ".join(sorted(known)))


def _from_text(name: str, text: str) -> Any:
    """An environment's text as the value it stands for; what it cannot stand for is left as text and refused later."""
    annotation = Settings.model_fields[name].annotation
    kind = get_origin(annotation)
    kinds = set(get_args(annotation)) if kind in {Literal, UnionType} else {kind or annotation}
    if NoneType in kinds and text == "":
        return None
    if bool in kinds:
        return {"true": True, "false": False}.get(text, text)
    if int in kinds or float in kinds:
        try:
            return float(text) if float in kinds else int(text)
        except ValueError:
            return text
    if tuple in kinds or Mapping in kinds:
        return _listed(text, named=Mapping in kinds)
    return text


def _listed(text: str, *, named: bool) -> Any:
    """A JSON value, or a list with commas: `a,b`, or `name=path,name=path` where names are wanted."""
    if text.lstrip().startswith(("[", "{")):
        try:
            return orjson.loads(text)
        except orjson.JSONDecodeError:
            return text
    parts = [part.strip() for part in text.split(",") if part.strip()]
    if not named:
        return parts
    pairs = [part.partition("=") for part in parts]
    return {name.strip(): path.strip() for name, _, path in pairs} if all(path for _, _, path in pairs) else text


def _to_text(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, SecretStr):
        return value.get_secret_value()
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple):
        return orjson.dumps(value).decode()
    if isinstance(value, Mapping):
        return orjson.dumps({key: str(path) for key, path in value.items()}).decode()
    return str(value)


def _anchor(name: str, value: Any, base: Path) -> Any:
    """Relative paths begin where they were written."""
    if name in {"home", "workspace_root"} and isinstance(value, str) and value:
        return base / Path(value).expanduser()
    if name == "runtimes" and isinstance(value, dict):
        return {key: base / Path(path).expanduser() if isinstance(path, str) else path for key, path in value.items()}
    return value


def _violations_of(
    error: ValidationError, values: Mapping[str, Any], origins: Mapping[str, str]
) -> list[dict[str, str]]:
    found = []
    for issue in error.errors(include_url=False, include_input=False):
        name = str(issue["loc"][0]) if issue["loc"] else ""
        value = values.get(name)
        for part in issue["loc"][1:]:
            value = value.get(part) if isinstance(value, dict) else value
        expected = _EXPECTED.get(issue["type"])
        message = issue["msg"][:1].lower() + issue["msg"][1:]
        if expected and name == "execution_enabled":
            message = f"is {_SAID.get(type(value), 'nothing')}, must be true; execution stays off"
        elif expected:
            message = f"is {_SAID.get(type(value), 'nothing')}, must be {expected}"
        inner = ".".join(str(part) for part in issue["loc"][1:])
        origin = origins.get(name, name)
        found.append({"path": f"{origin}: {inner}" if inner else origin, "message": message})
    return found


def _refused(violations: list[dict[str, str]]) -> InvalidSettingsError:
    said = "; ".join(f"{violation['path']}: {violation['message']}" for violation in violations)
    headline = "the settings are wrong"
    return InvalidSettingsError(
        f"{headline}: {said}",
        hint=f"Correct the named keys where they are set ({SETTINGS_FILE}, the environment, a Prefect block); nothing runs before that.",
        context={"headline": headline, "violations": violations},
    )
