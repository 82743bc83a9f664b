"""From what a person typed to a submission: quantities, the package, the data, the model, and what the machine has.

A person says `examples/digits --data digits-png --memory 8GiB`; the runtime executes a `training-code-submit/v1` document of pinned
references. Everything between is here, in order: `read_*` turn text into values, `find_*` turn names, folders and
files into stored, pinned things, `build_submission` puts them together and refuses what cannot run before anything
is accepted.
"""

from __future__ import annotations

import contextlib
import math
import os
import re
import sys
import tempfile
import uuid
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

import psutil

from contracts import strict_json
from contracts.admission import admit_execution, admit_policy
from contracts.base import PACKAGE_KEY_PATTERN, SHA256_PATTERN, validate
from contracts.dataset import DatasetSourceManifest
from contracts.errors import InvalidDocumentError, NotFoundError, UsageError
from contracts.limits import GIB, KIB, MAX_GIVEN_DOCUMENT_BYTES, MIB
from contracts.submission import Resources, TrainingCodeSubmission
from runtime.archive.packing import pack_folder
from runtime.registry.dataset_import import import_dataset
from runtime.registry.dataset_names import check_name

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from contracts.admission import ExecutionPolicy
    from contracts.dataset import DatasetSnapshot
    from contracts.package import PackageManifest, RuntimeRequirement
    from contracts.references import Pinned
    from runtime.archive.packing import PackedArchive
    from runtime.installation import Installation
    from runtime.registry.models import RegisteredModel
    from runtime.registry.snapshots import PinnedSnapshot

DEFAULT_TIMEOUT_SECONDS: Final = 24 * 3600
"""What `mtr run` allows a training on one's own machine; the contract's one hour is for a shared one."""

MEMORY_SHARE: Final = 0.8
"""Of the machine's memory; the rest is for the system and for us."""

MAX_CPU_CORES: Final = 256
"""The contract's upper bound; a larger machine is used in part."""

MAX_NAMED_PATHS: Final = 5
"""Of what packing left out for one reason; a virtual environment has thousands of files."""

_SIZE_UNITS: Final = {"": 1, "B": 1, "K": KIB, "KIB": KIB, "M": MIB, "MIB": MIB, "G": GIB, "GIB": GIB, "T": 1024 * GIB, "TIB": 1024 * GIB,
                      "KB": 1000, "MB": 1000**2, "GB": 1000**3, "TB": 1000**4}  # fmt: skip
_TIME_UNITS: Final = {"": 1, "s": 1, "m": 60, "min": 60, "h": 3600, "d": 86_400}
_OPTIONS: Final = {
    "device": "--device",
    "gpu_count": "--gpus",
    "cpu_cores": "--cpus",
    "memory_bytes": "--memory",
    "timeout_seconds": "--timeout",
}
"""What a person calls each field of a submission's `resources`."""

_QUANTITY: Final = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-z]*)\s*", re.ASCII)
_SHA256: Final = re.compile(SHA256_PATTERN)
_VERSIONED: Final = re.compile(rf"({PACKAGE_KEY_PATTERN[1:-1]})@(.+)")
_MODEL_VERSION: Final = re.compile(r"v?(\d{1,18})", re.ASCII)
"""As many digits as every database's whole numbers hold."""


# --- text to values --------------------------------------------------------------------------------------------------


def read_size(text: str, option: str) -> int:
    """The bytes that `8GiB`, `512M`, `1.5 GB` or a bare count of bytes stand for.

    Raises:
        UsageError: it is no size, or not above zero; the message names `option`.
    """
    return _read_quantity(text, option, _SIZE_UNITS, str.upper, "a size such as 8GiB, 512MiB or 2GB")


def read_duration(text: str, option: str) -> int:
    """The whole seconds that `90`, `90s`, `30m`, `1.5h` or `2d` stand for.

    Raises:
        UsageError: it is no time, or under a second; the message names `option`.
    """
    return _read_quantity(text, option, _TIME_UNITS, str.lower, "a time such as 90s, 30m or 1h")


def _read_quantity(text: str, option: str, units: Mapping[str, int], fold: Callable[[str], str], expected: str) -> int:
    matched = _QUANTITY.fullmatch(text)
    unit = units.get(fold(matched[2])) if matched else None
    amount = float(matched[1]) * unit if matched and unit else 0
    if not 1 <= amount < math.inf:
        raise UsageError(f"{option} {text!r} is not {expected}", hint=f"Write {option} as {expected}.")
    return int(amount)


def read_parameter(text: str) -> tuple[str, Any]:
    """The name and value of one `--param k=v`: a JSON value where it is one, else the text itself.

    Raises:
        UsageError: there is no `=`, or nothing before it.
    """
    name, separator, value = text.partition("=")
    if not separator or not name.strip():
        raise UsageError(f"--param {text!r} has no name and value", hint="Write it as --param epochs=20.")
    try:
        return name.strip(), strict_json.parse(value)
    except InvalidDocumentError:
        return name.strip(), value


def read_parameters(given: Iterable[str], file: Path | None) -> dict[str, Any]:
    """The parameters of `--params FILE` (a JSON or YAML object), each replaced by a `--param` of its name.

    Raises:
        UsageError: the file holds no object, or a `--param` is no `k=v`.
        NotFoundError: the file is not there.
    """
    values: dict[str, Any] = {}
    if file is not None:
        content = read_document(file)
        if file.suffix.lower() in {".yaml", ".yml"}:
            import yaml  # noqa: PLC0415 - one option of one command

            try:
                found = yaml.safe_load(content)
            except yaml.YAMLError as error:
                raise UsageError(f"--params {file} is not YAML: {error}", hint="Correct the file.") from error
        else:
            found = strict_json.parse(content)
        if not isinstance(found, dict) or not all(isinstance(name, str) for name in found):
            raise UsageError(f"--params {file} holds no object of names and values", hint='Write {"name": value, ...}.')
        values.update(found)
    values.update(read_parameter(text) for text in given)
    return values


def read_names(text: str | None) -> tuple[str, ...]:
    """The names of `a,b,c`, in order.

    Raises:
        UsageError: one is blank, or given twice.
    """
    if text is None:
        return ()
    names = tuple(part.strip() for part in text.split(","))
    if not all(names):
        raise UsageError(f"--class-names {text!r} has a blank name", hint="Write them as --class-names car,bus.")
    twice = next((name for name, count in Counter(names).items() if count > 1), None)
    if twice is not None:
        raise UsageError(f"--class-names {text!r} has {twice!r} twice", hint="Give each class one name of its own.")
    return names


def read_document(path: Path, *, max_bytes: int = MAX_GIVEN_DOCUMENT_BYTES) -> bytes:
    """The bytes of a document that a person named; `-` is stdin.

    Raises:
        NotFoundError: there is no readable file at `path`.
        UsageError: it is larger than `max_bytes`.
    """
    try:
        if str(path) == "-":
            content = sys.stdin.buffer.read(max_bytes + 1)
        else:
            with path.open("rb") as source:
                content = source.read(max_bytes + 1)
    except OSError as error:
        raise NotFoundError(
            f"{path} cannot be read: {error.strerror or error}",
            hint="Give the path of a readable file.",
            context={"path": str(path)},
        ) from error
    if len(content) > max_bytes:
        raise UsageError(f"{path} is larger than {max_bytes} bytes", hint="Give the document itself, not its data.")
    return content


# --- the machine -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class WantedResources:
    """What a person asked for; None is "what the machine has"."""

    device: str | None = None
    gpus: int | None = None
    cpus: float | None = None
    memory: str | None = None
    timeout: str | None = None


def fill_resources(wanted: WantedResources) -> dict[str, Any]:
    """A submission's `resources`: what was asked for, the rest from this machine.

    All cores this process may use, 80 % of the memory (of the control group's limit where there is one), 24 hours.

    Raises:
        UsageError: a quantity cannot be read or is out of the contract's range, or device and GPU count contradict each
            other; the message names the option.
    """
    device = wanted.device or ("cuda" if wanted.gpus else "cpu")
    gpus = (1 if device == "cuda" else 0) if wanted.gpus is None else wanted.gpus
    if device not in {"cpu", "cuda"}:
        raise UsageError(f"--device {device!r} is not known", hint="Use --device cpu or --device cuda.")
    if (device == "cuda") != (gpus != 0):
        raise UsageError(
            f"--device {device} and --gpus {gpus} contradict each other",
            hint="GPUs need --device cuda, and --device cuda at least one GPU.",
        )
    return _in_range({
        "device": device,
        "gpu_count": gpus,
        "cpu_cores": min(machine_cores(), MAX_CPU_CORES) if wanted.cpus is None else wanted.cpus,
        "memory_bytes": int(machine_memory_bytes() * MEMORY_SHARE) if wanted.memory is None else read_size(wanted.memory, "--memory"),
        "timeout_seconds": DEFAULT_TIMEOUT_SECONDS if wanted.timeout is None else read_duration(wanted.timeout, "--timeout"),
    })  # fmt: skip


def _in_range(resources: dict[str, Any]) -> dict[str, Any]:
    """`resources`, which the contract accepts; what it refuses is said in the words of the command line."""
    try:
        validate(Resources, resources)
    except InvalidDocumentError as refused:
        violations = cast("list[dict[str, str]]", refused.context["violations"])
        raise UsageError(
            "; ".join(f"{_OPTIONS.get(one['path'], one['path'])} {one['message']}" for one in violations),
            hint="Give the named options other values, or leave them out.",
            context={"headline": "the resources cannot be asked for", "violations": violations},
        ) from refused
    return resources


def machine_cores() -> int:
    """The cores that this process may use, at least one; a control group's quota counts."""
    cores = len(os.sched_getaffinity(0))
    try:
        quota, period = Path("/sys/fs/cgroup/cpu.max").read_text(encoding="ascii").split()
        return cores if quota == "max" else max(1, min(cores, int(quota) // int(period)))
    except (OSError, ValueError):
        return cores


def machine_memory_bytes() -> int:
    """The memory that this process may use: the machine's, or its control group's limit where that is less."""
    total = int(psutil.virtual_memory().total)
    for limit in (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes")):
        try:
            return min(total, int(limit.read_text(encoding="ascii")))
        except (OSError, ValueError):
            continue
    return total


# --- names, folders and files to stored things -----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class FoundPackage:
    """A stored package. `created`: its bytes were not stored before."""

    manifest: PackageManifest
    archive: Pinned
    created: bool


@dataclass(frozen=True, slots=True)
class FoundData:
    """A pinned data set.

    Attributes:
        label: what people know it by.
        object: the stored snapshot; its digest is the data set's.
        snapshot: what it says.
        items: how many there are, with all their `bytes`.
        created: the snapshot is new.
        uploaded_items: files that had to be stored for it.
        ignored_files: files of a local data set that are no part of it.
    """

    label: str
    object: Pinned
    snapshot: DatasetSnapshot
    items: int
    bytes: int
    created: bool
    uploaded_items: int = 0
    ignored_files: int = 0

    def to_document(self) -> dict[str, Any]:
        """The answer of `mtr dataset import` and `pin`."""
        return {
            "sha256": self.object.sha256,
            "items": self.items,
            "bytes": self.bytes,
            "created": self.created,
            "object": self.object.to_document(),
        }

    @classmethod
    def of_pin(cls, label: str, pinned: PinnedSnapshot) -> FoundData:
        """The data set that a pin made or found again."""
        return cls(
            label=label,
            object=pinned.object,
            snapshot=pinned.snapshot,
            items=pinned.items,
            bytes=pinned.bytes,
            created=pinned.created,
        )


def find_package(installation: Installation, source: str, note: Callable[[str], None]) -> FoundPackage:
    """The stored package that a folder, a ZIP or `key@version` names.

    A folder or ZIP is stored by its digest and claims no version: it may be edited and run again at will.

    Args:
        installation: where it is, or will be, stored.
        source: what the person gave.
        note: told what a folder's packing left out.

    Raises:
        NotFoundError: there is no such folder, file or registration.
        ArchiveRejectedError: the package breaks the archive rules.
        InvalidDocumentError: its manifest is not valid.
        StorageUnavailableError: the store did not answer.
    """
    path = Path(said(source, "PACKAGE"))
    if path.exists():
        with packed(path, note) as archive:
            stored = installation.packages.store_development(archive, archive_name=archive_name(path))
    elif versioned := read_versioned(source):
        stored = installation.packages.find(*versioned)
        return FoundPackage(stored.manifest, stored.archive, created=False)
    else:
        raise NotFoundError(
            f"no folder, ZIP or registered package {source!r}",
            hint="Give a package's folder, its ZIP, or key@version; `mtr package list` shows what is registered.",
            context={"package": source},
        )
    return FoundPackage(stored.manifest, stored.archive, stored.created)


@contextlib.contextmanager
def packed(path: Path, note: Callable[[str], None]) -> Iterator[Path]:
    """The ZIP at `path`, or the one that the folder there packs to, for as long as the context lasts."""
    if not path.is_dir():
        yield path
        return
    with tempfile.TemporaryDirectory(prefix="mtr-package-") as scratch:
        made = pack_folder(path, Path(scratch) / "package.zip")
        note_left_out(made, note)
        yield made.path


def archive_name(path: Path) -> str:
    """The file name that a registration keeps for a package given as folder or ZIP."""
    return path.name if path.is_file() else f"{path.resolve().name}.zip"


def note_left_out(made: PackedArchive, note: Callable[[str], None]) -> None:
    """Say what packing a folder left out, one line a reason."""
    by_reason: dict[str, list[str]] = {}
    for left in made.left_out:
        by_reason.setdefault(left.reason, []).append(str(left.path))
    for reason, paths in by_reason.items():
        shown = ", ".join(paths[:MAX_NAMED_PATHS])
        more = f" and {len(paths) - MAX_NAMED_PATHS} more" if len(paths) > MAX_NAMED_PATHS else ""
        note(f"left out ({reason}): {shown}{more}")


def read_versioned(text: str) -> tuple[str, str] | None:
    """The key and version of `key@version`, or None where the text is none."""
    matched = _VERSIONED.fullmatch(text)
    return (matched[1], matched[2]) if matched else None


def find_data(
    installation: Installation,
    source: str,
    *,
    name: str | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> FoundData:
    """The pinned data set that a folder, `data.yaml`, COCO file, source manifest, name or digest stands for.

    What exists as a path is read from there; anything else is a digest or a name.

    Args:
        installation: where it is, or will be, stored.
        source: what the person gave.
        name: the name that shall point at the snapshot afterwards.
        progress: called with (done, total) items while they are stored.

    Raises:
        NotFoundError: there is no such path, name or digest.
        DatasetUnreadableError: the folder or file is no data set.
        InvalidDocumentError: the source manifest is not valid.
        StorageUnavailableError: the store did not answer.
    """
    path = Path(said(source, "--data"))
    if path.exists():
        document = _source_manifest(path)
        if document is not None:
            return pin_data(installation, document, label=name or path.stem, name=name, progress=progress)
        imported = import_dataset(
            path,
            store=installation.store,
            snapshots=installation.snapshots,
            name=name,
            ledger=installation.ledger,
            progress=progress,
        )
        return FoundData(
            label=name or path.resolve().name,
            object=imported.object,
            snapshot=installation.snapshots.load(imported.object),
            items=imported.items,
            bytes=imported.bytes,
            created=imported.created,
            uploaded_items=imported.uploaded_items,
            ignored_files=imported.ignored_files,
        )
    return find_snapshot(installation, source)


def find_snapshot(installation: Installation, reference: str) -> FoundData:
    """The pinned data set with this name or digest.

    Raises:
        NotFoundError: there is none.
    """
    return FoundData.of_pin(reference, installation.datasets.resolve(reference))


def pin_data(
    installation: Installation,
    source: DatasetSourceManifest,
    *,
    label: str,
    name: str | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> FoundData:
    """The snapshot of a source manifest, every byte read and hashed; `name` points at it afterwards.

    `progress` is called with (done, total) objects.

    Raises:
        ObjectMissingError: an item's object is not in the store.
        StorageUnavailableError: the store did not answer.
    """
    if name is not None:
        check_name(name)  # before the work, not after it
    pinned = installation.snapshots.pin(
        source, on_progress=None if progress is None else lambda at: progress(at.done_objects, at.total_objects)
    )
    if name is not None:
        installation.datasets.set(name, pinned.sha256, pinned.object)
    return FoundData.of_pin(label, pinned)


def read_source_manifest(path: Path) -> DatasetSourceManifest:
    """The source manifest in a file, or on stdin for `-`.

    Raises:
        InvalidDocumentError: it is not one.
        NotFoundError: there is no such file.
    """
    return validate(DatasetSourceManifest, read_document(path))


def _source_manifest(path: Path) -> DatasetSourceManifest | None:
    """The source manifest at `path`, or None where something else is there, a COCO file for instance."""
    if path.suffix.lower() != ".json" or not path.is_file():
        return None
    document = strict_json.parse_unchecked(read_document(path))
    if not isinstance(document, dict) or "protocol_version" not in document:
        return None
    return validate(DatasetSourceManifest, document)


def find_registered_model(installation: Installation, reference: str) -> RegisteredModel:
    """The registered model `name` or `name@version`; the newest version when none is given.

    Raises:
        NotFoundError: there is none.
        UsageError: the version is no whole number.
    """
    name, separator, version = reference.partition("@")
    number = _MODEL_VERSION.fullmatch(version)
    if separator and number is None:
        raise UsageError(
            f"{reference!r} has no version number", hint=f"Write it as {name}@3; `mtr model list` shows the versions."
        )
    return installation.models.get(name, None if number is None else int(number[1]))


def find_model_input(installation: Installation, reference: str, *, resume: bool) -> dict[str, Any]:
    """A submission's `model_input` for a registered model, or for a model package given by its ZIP or digest.

    Args:
        installation: where it is stored; a ZIP is registered first.
        reference: `name`, `name@version`, a digest, or a ZIP's path.
        resume: continue from the package's checkpoint instead of starting from its model.

    Raises:
        NotFoundError: there is no such model.
        UsageError: `resume` with what holds no checkpoint.
    """
    path = Path(said(reference, "--model"))
    if path.is_file():
        registration = installation.model_packages.register(path, archive_name=path.name).registration
    elif _SHA256.fullmatch(reference):
        registration = installation.model_packages.find(reference).registration
    else:
        model = find_registered_model(installation, reference)
        if resume:
            raise UsageError(
                f"--resume needs a checkpoint; {model.name} v{model.version} is a finished model",
                hint="Leave --resume out to start from the model, or give a model package that has a resume checkpoint.",
            )
        artifact = {
            "source": "registered_model",
            "object": model.object.to_document(),
            "format": "onnx",
            "task_kind": model.task_kind,
            "class_names": list(model.class_names),
            "display_name": f"{model.name} v{model.version}",
            "framework": model.framework,
        }
        return {"artifact": artifact, "mode": "initialize"}
    artifact = registration["resume_artifact" if resume else "initialize_artifact"]
    if artifact is None:
        raise UsageError(
            f"the model package {reference} has no resume checkpoint",
            hint="Leave --resume out to start from its model.",
        )
    return {"artifact": artifact, "mode": "resume" if resume else "initialize"}


@dataclass(frozen=True, slots=True)
class Asked:
    """As much of a request as the operator's policy looks at, known before any data is uploaded for it."""

    runtime: RuntimeRequirement
    input_mode: str


# --- the submission --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Request:
    """A submission that its package, data and the operator's policy admit, with the name people know it by."""

    submission: TrainingCodeSubmission
    label: str


def build_request(
    *,
    package: FoundPackage,
    data: FoundData | None,
    parameters: Mapping[str, Any],
    resources: Mapping[str, Any],
    policy: ExecutionPolicy,
    task_id: int,
    model_input: Mapping[str, Any] | None = None,
    task_kind: str | None = None,
    class_names: Sequence[str] = (),
) -> Request:
    """A new submission, checked as far as it can be before anything runs.

    Args:
        package: the stored package.
        data: the pinned data; None asks the package to bring its own.
        parameters: for the package's `parameters_schema`.
        resources: as `fill_resources` answers.
        policy: what the operator allows.
        task_id: a positive number that the installation has not used before.
        model_input: as `find_model_input` answers.
        task_kind: needed where package and data leave a choice.
        class_names: of a run without data; empty takes the manifest's.

    Raises:
        UsageError: data or task kind is missing, or class names come with data that has its own.
        InvalidDocumentError: a value is out of the contract's range, resources for instance.
        PolicyError: a setting refuses it; the message names the setting.
        AdmissionError: package, data and parameters do not agree; every violation is listed.
    """
    manifest = package.manifest
    document: dict[str, Any] = {
        "protocol_version": "training-code-submit/v1",
        "message_id": str(uuid.uuid4()),
        "execution_id": str(uuid.uuid4()),
        "task": {"task_id": task_id, "task_kind": _task_kind(manifest, data, task_kind)},
        "package": {"key": manifest.key, "version": manifest.version, "sha256": package.archive.sha256},
        "package_archive": package.archive.to_document(),
        "runtime": manifest.runtime.to_document(),
        "parameters": dict(parameters),
        "resources": dict(resources),
    }
    if data is not None:
        if class_names:
            raise UsageError(
                "--class-names come with the data set", hint="Leave --class-names out; it is for runs without --data."
            )
        document |= {"input_mode": "platform_dataset", "dataset_source_snapshot": data.object.to_document()}
    else:
        check_brings_data(manifest)
        document |= {
            "input_mode": "script_managed",
            "script_dataset": _script_dataset(manifest, document["task"]["task_kind"], class_names),
        }
    if model_input is not None:
        document["model_input"] = dict(model_input)
    submission = validate(TrainingCodeSubmission, document)
    admit_policy(submission, policy)
    admit_execution(manifest, submission, None if data is None else data.snapshot)
    where = f" on {data.label}" if data is not None else ""
    return Request(submission, f"{manifest.key} {manifest.version}{where}")


def _task_kind(manifest: PackageManifest, data: FoundData | None, wanted: str | None) -> str:
    if wanted is not None:
        return wanted
    if data is not None:
        return data.snapshot.task_kind  # admission says it where the package does not train this kind
    kinds = list(dict.fromkeys(task.task_kind for task in manifest.supported_tasks))
    if len(kinds) > 1:
        raise UsageError(
            f"{manifest.key} trains {', '.join(kinds)}: which one?", hint=f"Add --task-kind {kinds[0]}, for instance."
        )
    return kinds[0]


def check_brings_data(manifest: PackageManifest) -> None:
    """Afterwards a run without data makes sense for this package.

    Raises:
        UsageError: it trains on a data set; the hint says how to give one.
    """
    if "script_managed" not in manifest.input_modes:
        raise UsageError(
            f"{manifest.key} {manifest.version} trains on a data set and none was given",
            hint="Add --data with a folder, a source manifest, a snapshot digest or a name; `mtr dataset list` shows the names.",
        )


def _script_dataset(manifest: PackageManifest, task_kind: str, class_names: Sequence[str]) -> dict[str, Any]:
    task = next((task for task in manifest.supported_tasks if task.task_kind == task_kind), manifest.supported_tasks[0])
    return {
        "protocol_version": "training-dataset-manifest/v1",
        "task_kind": task_kind,
        "data_modalities": list(task.data_modalities),
        "annotation_kinds": list(task.annotation_kinds),
        "class_names": list(class_names or manifest.class_names),
        "items": [],
    }


def repeat_submission(
    earlier: Mapping[str, Any], *, memory: str | None, timeout: str | None, cpus: float | None, gpus: int | None
) -> TrainingCodeSubmission:
    """A new submission that asks for what an earlier one did, under a new id, with other resources where given.

    Raises:
        UsageError: a quantity cannot be read, or is out of the contract's range; the message names the option.
    """
    resources = dict(earlier["resources"])
    if memory is not None:
        resources["memory_bytes"] = read_size(memory, "--memory")
    if timeout is not None:
        resources["timeout_seconds"] = read_duration(timeout, "--timeout")
    if cpus is not None:
        resources["cpu_cores"] = cpus
    if gpus is not None:
        resources |= {"gpu_count": gpus, "device": "cuda" if gpus else "cpu"}
    ids = {"message_id": str(uuid.uuid4()), "execution_id": str(uuid.uuid4())}
    return validate(TrainingCodeSubmission, {**earlier, **ids, "resources": _in_range(resources)})


def label_of(installation: Installation, submission: TrainingCodeSubmission) -> str:
    """`digits 0.1.0 on digits-png`: what people recognise an execution by; unnamed data by its digest's beginning."""
    package = f"{submission.package.key} {submission.package.version}"
    snapshot = submission.dataset_source_snapshot
    if snapshot is None:
        return package
    names = [one.name for one in installation.ledger.dataset_names() if one.sha256 == snapshot.sha256]
    return f"{package} on {names[0] if names else snapshot.sha256[:12]}"


def said(text: str, option: str) -> str:
    """`text`, which says something: an empty shell variable must not come to mean the current folder.

    Raises:
        UsageError: it is blank; the message names `option`.
    """
    if not text.strip():
        raise UsageError(f"{option} is empty", hint=f"Give {option} a value; `.` is the current folder.")
    return text


def existing_path(path: Path) -> Path:
    """`path`, which is there.

    Raises:
        NotFoundError: it is not.
    """
    if not path.exists():
        raise NotFoundError(
            f"{path} does not exist",
            hint="Give the path of a file or folder that is there.",
            context={"path": str(path)},
        )
    return path
