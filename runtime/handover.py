"""What the control flow and a training attempt hand over to each other through the object store: the plan, and the end.

An attempt may run in a pod that reaches no database. It is given a reference to a plan, and it leaves one end record:

```
default: training-code-runtime/executions/<id>/plan.json                what to run, decided once
default: training-code-runtime/executions/<id>/attempts/<n>/end.json    how attempt n ended; the first write stays
default: training-code-runtime/executions/<id>/attempts/<n>/pod.json    how its pod ended, by the pod's first process
default: training-code-runtime/executions/<id>/attempts/<n>/output.log  all that the package printed
```
"""

from __future__ import annotations

import hashlib
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Final, Self

from contracts import strict_json
from contracts.base import validate
from contracts.completion import Completion
from contracts.dataset import DatasetManifest
from contracts.errors import ConflictError, InvalidDocumentError, ObjectMissingError, fault_from_document
from contracts.limits import MAX_RECORD_BYTES
from contracts.package import PackageManifest
from contracts.references import Pinned
from contracts.submission import TrainingCodeSubmission

if TYPE_CHECKING:
    from collections.abc import Mapping

    from contracts.errors import RuntimeFault
    from runtime.store.objects import ObjectStore

BUCKET: Final = "default"
PREFIX: Final = "training-code-runtime/executions/"


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """One admitted execution, complete: whoever has it needs nothing else but the object store.

    Attributes:
        label: what people recognise it by, such as `digits 0.1.0 on digits-png`.
        submission: what was asked for; its `message_id` is that of the first message.
        manifest: of the package.
        dataset: the header of its data, without items.
    """

    label: str
    submission: TrainingCodeSubmission
    manifest: PackageManifest
    dataset: DatasetManifest

    @property
    def execution_id(self) -> str:
        """Whose plan it is."""
        return self.submission.execution_id

    def publish(self, store: ObjectStore) -> Pinned:
        """Afterwards the store has this plan; published again it is the same object.

        Raises:
            ConflictError: the execution has another plan; it stays.
        """
        content = strict_json.dump_canonical(
            {
                "label": self.label,
                "submission": self.submission.to_document(),
                "manifest": self.manifest.to_document(),
                "dataset": self.dataset.to_document(),
            }
        )
        key = f"{PREFIX}{self.execution_id}/plan.json"
        store.publish_bytes(content, BUCKET, key)
        return Pinned(BUCKET, key, hashlib.sha256(content).hexdigest(), len(content))

    @classmethod
    def load(cls, store: ObjectStore, pinned: Pinned) -> Self:
        """The plan whose stored bytes are `pinned`.

        Raises:
            DigestMismatchError: other bytes are stored there.
            ObjectMissingError: nothing is stored there.
            InvalidDocumentError: it is no plan.
        """
        document = strict_json.parse(store.read_verified(pinned, max_bytes=MAX_RECORD_BYTES))
        missing = {"label", "submission", "manifest", "dataset"} - set(document if isinstance(document, dict) else ())
        if missing:
            raise InvalidDocumentError.of(
                "plan", [{"path": name, "message": "required here"} for name in sorted(missing)]
            )
        return cls(
            label=str(document["label"]),
            submission=validate(TrainingCodeSubmission, document["submission"]),
            manifest=validate(PackageManifest, document["manifest"]),
            dataset=validate(DatasetManifest, document["dataset"]),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptEnd:
    """How one attempt ended, written by the attempt itself.

    Attributes:
        execution_id: whose attempt.
        attempt: which one, from 1.
        outcome: `succeeded` or the code of `error`.
        stage: where `error` arose; `None` for a success.
        error: the typed error as a document.
        completion: what `train` returned, verified; `None` where training did not finish.
        artifacts: `[{"artifact", "object"}]`, every one of them stored.
        record: the process's record.
        paid_seconds: time in which the package's code ran for this attempt's end, however many attempts it took to
            bring it home.
        training_finished: training came to its end.
        timings: seconds of each stage that this attempt ran.
        dataset: `{"items", "bytes", "downloaded_items", "cached_items"}` of the materialized data, where there was any.
    """

    execution_id: str
    attempt: int
    outcome: str
    stage: str | None = None
    error: dict[str, Any] | None = None
    completion: dict[str, Any] | None = None
    artifacts: list[dict[str, Any]] = field(default_factory=list)
    record: dict[str, Any] = field(default_factory=dict)
    paid_seconds: float = 0.0
    training_finished: bool = False
    timings: dict[str, float] = field(default_factory=dict)
    dataset: dict[str, Any] = field(default_factory=dict)

    def fault(self) -> RuntimeFault | None:
        """The typed error, if it failed."""
        return None if self.error is None else fault_from_document(self.error)

    def published_completion(self) -> Completion | None:
        """What `train` returned."""
        return None if self.completion is None else validate(Completion, self.completion)

    def publish(self, store: ObjectStore) -> AttemptEnd:
        """The end that the store has afterwards: this one, or an earlier one, which stays."""
        try:
            store.publish_bytes(
                strict_json.dump_canonical(asdict(self)), BUCKET, _end_key(self.execution_id, self.attempt)
            )
        except ConflictError:
            return find_end(store, self.execution_id, self.attempt) or self
        return self

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> Self:
        """The end that `publish` wrote.

        Raises:
            InvalidDocumentError: it is none.
        """
        try:
            return cls(**document)
        except TypeError as error:
            raise InvalidDocumentError.of("attempt end", [{"path": "", "message": str(error)}]) from error


@dataclass(frozen=True, slots=True, kw_only=True)
class PodRecord:
    """How the pod of an attempt ended, written by its first process (`runtime.pod.init`): it outlives the pod.

    Attributes:
        execution_id: whose attempt.
        attempt: which one, from 1.
        pod: its name.
        exit_code: with which the container ended.
        signal: that ended the command; `None` where it ended by itself, or was never started.
        message: why the command could not be run; empty where it was.
        oom_kills: how many processes of the container the kernel ended for memory.
        memory_peak_bytes: the most that the container had; `None` where the kernel does not count it.
        memory_limit_bytes: the most that it might have had; `None` without a limit.
        asked_to_end_by: the first signal that asked for an end, such as `SIGTERM`; `None` where none did.
        asked_to_end_after_seconds: since the command's start.
        killed_after_grace: the command went on until its grace was over.
        ended_survivors: `[{"pid", "name"}]` of what the command left behind; at most 50.
        left: pids of what could not be ended, since it hangs in the kernel.
        seconds: from the command's start to the end of all.
    """

    execution_id: str
    attempt: int
    pod: str
    exit_code: int
    signal: int | None = None
    message: str = ""
    oom_kills: int = 0
    memory_peak_bytes: int | None = None
    memory_limit_bytes: int | None = None
    asked_to_end_by: str | None = None
    asked_to_end_after_seconds: float | None = None
    killed_after_grace: bool = False
    ended_survivors: list[dict[str, Any]] = field(default_factory=list)
    left: list[int] = field(default_factory=list)
    seconds: float = 0.0

    def publish(self, store: ObjectStore) -> PodRecord:
        """The record that the store has afterwards: this one, or an earlier one, which stays.

        Raises:
            StorageUnavailableError: safe to call again.
        """
        try:
            store.publish_bytes(
                strict_json.dump_canonical(asdict(self)), BUCKET, _pod_key(self.execution_id, self.attempt)
            )
        except ConflictError:
            return find_pod_record(store, self.execution_id, self.attempt) or self
        return self

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> Self:
        """The record that `publish` wrote.

        Raises:
            InvalidDocumentError: it is none.
        """
        try:
            return cls(**document)
        except TypeError as error:
            raise InvalidDocumentError.of("pod record", [{"path": "", "message": str(error)}]) from error


def find_end(store: ObjectStore, execution_id: str, attempt: int) -> AttemptEnd | None:
    """The end record of an attempt; `None` while it has none.

    Raises:
        StorageUnavailableError: safe to call again.
        InvalidDocumentError: what lies there is no end record.
    """
    document = _find_record(store, _end_key(execution_id, attempt), "attempt end")
    return None if document is None else AttemptEnd.from_document(document)


def find_pod_record(store: ObjectStore, execution_id: str, attempt: int) -> PodRecord | None:
    """The record of an attempt's pod; `None` while it has none, or where it could write none.

    Raises:
        StorageUnavailableError: safe to call again.
        InvalidDocumentError: what lies there is no such record.
    """
    document = _find_record(store, _pod_key(execution_id, attempt), "pod record")
    return None if document is None else PodRecord.from_document(document)


def _find_record(store: ObjectStore, key: str, what: str) -> dict[str, Any] | None:
    try:
        content = store.read_small(BUCKET, key, max_bytes=MAX_RECORD_BYTES)
    except ObjectMissingError:
        return None
    document = strict_json.parse(content)
    if not isinstance(document, dict):
        raise InvalidDocumentError.of(what, [{"path": "", "message": "is no object"}])
    return document


def output_key(execution_id: str, attempt: int) -> str:
    """Where all plain output of an attempt is kept, in bucket `default`."""
    return f"{PREFIX}{execution_id}/attempts/{attempt}/output.log"


def artifact_place(execution_id: str, *, role: str, sha256: str, file_name: str) -> tuple[str, str]:
    """Bucket and key of an artifact, by the platform's layout."""
    bucket = "models" if role in {"model", "checkpoint"} else BUCKET
    return bucket, f"{PREFIX}{execution_id}/{sha256}/{_safe_name(file_name)}"


def _end_key(execution_id: str, attempt: int) -> str:
    return f"{PREFIX}{execution_id}/attempts/{attempt}/end.json"


def _pod_key(execution_id: str, attempt: int) -> str:
    return f"{PREFIX}{execution_id}/attempts/{attempt}/pod.json"


def _safe_name(name: str) -> str:
    """A file's name with nothing that a key, a shell or a URL would have to quote."""
    safe = "".join(letter if letter.isascii() and (letter.isalnum() or letter in "._-") else "_" for letter in name)
    return safe.lstrip(".")[-128:] or "artifact"
