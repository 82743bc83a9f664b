"""Everything that can go wrong, once: code, who may try again, what each door answers.

A subclass of `RuntimeFault` with a `code` is an entry of the table; `docs/errors.md` is generated from it.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, ClassVar, Literal

from contracts.limits import MAX_VIOLATIONS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

RetryClass = Literal["never", "elsewhere", "later"]
BrokerAnswer = Literal["ack", "reject", "requeue"]


class RuntimeFault(Exception):  # noqa: N818 - the root is a notion of its own; its subclasses end in Error
    """Root of every error this product raises on purpose.

    A subclass is a code. `message` says what happened, `hint` what to do next, `context` holds the evidence
    (JSON values only).

    Class attributes:
        code: the stable name that scripts and the platform match on.
        retry: who may try again: `never`; `elsewhere`, another attempt of the same execution; `later`, the same
            call, once something outside is back.
        http_status: the HTTP answer.
        broker: what happens to a message that caused it: `ack` (answered by a failed status, or to the dead-letter
            queue where it names no task), `reject` (to the dead-letter queue: a status would speak of another
            execution), `requeue`.
        exit_code: the command line's exit status.
    """

    code: ClassVar[str]
    retry: ClassVar[RetryClass] = "never"
    http_status: ClassVar[int] = 500
    broker: ClassVar[BrokerAnswer] = "ack"
    exit_code: ClassVar[int] = 1

    def __init__(self, message: str, *, hint: str, context: Mapping[str, object] | None = None) -> None:
        super().__init__(message)
        self.message, self.hint, self.context = message, hint, dict(context or {})

    def __reduce__(self) -> tuple[object, ...]:
        """Errors cross process boundaries (Prefect results, multiprocessing), keyword arguments included."""
        return (_rebuild, (type(self), self.message, self.hint, self.context))

    @property
    def headline(self) -> str:
        """The message without the violations that it names, for who lists them; the message where nobody said one."""
        headline = self.context.get("headline")
        return headline if isinstance(headline, str) else self.message

    def to_document(self) -> dict[str, object]:
        """The `error` object of the command line and of HTTP bodies."""
        return {"code": self.code, "message": self.message, "hint": self.hint, "context": self.context}


def _rebuild(kind: type[RuntimeFault], message: str, hint: str, context: Mapping[str, object]) -> RuntimeFault:
    return kind(message, hint=hint, context=context)


def codes() -> dict[str, type[RuntimeFault]]:
    """Every code with its class, sorted by code."""
    return dict(sorted((kind.code, kind) for kind in _subclasses(RuntimeFault) if "code" in vars(kind)))


def _subclasses(kind: type[RuntimeFault]) -> Iterator[type[RuntimeFault]]:
    for below in kind.__subclasses__():
        yield below
        yield from _subclasses(below)


def fault_from_document(document: Mapping[str, object]) -> RuntimeFault:
    """The typed error that `to_document` wrote; an unknown code becomes `internal`."""
    kind = codes().get(str(document.get("code")), InternalError)
    context = document.get("context")
    return kind(
        str(document.get("message")),
        hint=str(document.get("hint")),
        context=context if isinstance(context, dict) else {},
    )


# --- refused before anything runs ------------------------------------------------------------------------------------


class InvalidDocumentError(RuntimeFault):
    """A document breaks its contract; `context["violations"]` lists every `{"path", "message"}`, up to a thousand."""

    code = "invalid_document"
    http_status = 422
    exit_code = 2

    @classmethod
    def of(cls, contract: str, violations: Iterable[Mapping[str, str]]) -> InvalidDocumentError:
        """The error for a document of `contract`; its message names the first paths, and its context up to `MAX_VIOLATIONS`."""
        found = [dict(violation) for violation in itertools.islice(violations, MAX_VIOLATIONS + 1)]
        if len(found) > MAX_VIOLATIONS:
            found[-1] = {"path": "", "message": f"has more violations than the first {MAX_VIOLATIONS}, named here"}
        said = "; ".join(f"{violation['path'] or '(document)'}: {violation['message']}" for violation in found[:20])
        more = f"; and {len(found) - 20} more" if len(found) > 20 else ""
        headline = f"not a valid {contract} document"
        return cls(
            f"{headline}: {said}{more}",
            hint="Correct the named fields; `mtr validate FILE` lists every violation.",
            context={"contract": contract, "headline": headline, "violations": found},
        )


class AdmissionError(RuntimeFault):
    """Valid documents that do not agree; `context["violations"]` as in `InvalidDocumentError`."""

    code = "admission_refused"
    http_status = 422
    exit_code = 2


class PolicyError(RuntimeFault):
    """The operator's settings refuse it; the message names the setting."""

    code = "policy_refused"
    http_status = 503
    exit_code = 3


class InvalidSettingsError(RuntimeFault):
    """`mtr.toml` or the environment says something that is no setting; the message names every key."""

    code = "invalid_settings"
    http_status = 503
    exit_code = 2


class ArchiveRejectedError(RuntimeFault):
    """A ZIP breaks the archive rules; `context["violations"]` lists every `{"path", "message"}`."""

    code = "archive_rejected"
    http_status = 422
    exit_code = 2


class ArchiveTooLargeError(RuntimeFault):
    """A ZIP is over a size limit, packed or unpacked."""

    code = "archive_too_large"
    http_status = 413
    exit_code = 2


class RuntimeUnavailableError(RuntimeFault):
    """No Python is configured for the package's `runtime.id`, or the one that is does not work."""

    code = "runtime_unavailable"
    http_status = 503
    exit_code = 3


class GpuUnavailableError(RuntimeFault):
    """The machine that would train has fewer GPUs than were asked for."""

    code = "gpu_unavailable"
    http_status = 503
    exit_code = 3


class UsageError(RuntimeFault):
    """A command line or a form that cannot be understood; the message names the option or field."""

    code = "usage"
    http_status = 422
    broker = "reject"
    exit_code = 2


class NotFoundError(RuntimeFault):
    """No execution, package, data set, model or file has this name."""

    code = "not_found"
    http_status = 404
    exit_code = 2


class RangeNotSatisfiableError(RuntimeFault):
    """A `Range` of a download that begins behind the object's last byte."""

    code = "range_not_satisfiable"
    http_status = 416
    exit_code = 2


class ConflictError(RuntimeFault):
    """The name exists with other content; the message names the first difference."""

    code = "conflict"
    http_status = 409
    broker = "reject"
    exit_code = 4


class UploadExpiredError(RuntimeFault):
    """A direct upload was not completed within its time."""

    code = "upload_expired"
    http_status = 410
    exit_code = 2


class UploadIncompleteError(RuntimeFault):
    """A direct upload is to be completed, and its bytes are not there."""

    code = "upload_incomplete"
    http_status = 409
    exit_code = 2


class DatasetUnreadableError(RuntimeFault):
    """A folder or annotation file cannot be read as a data set."""

    code = "dataset_unreadable"
    http_status = 422
    exit_code = 2


# --- requests over HTTP ----------------------------------------------------------------------------------------------


class UnauthorizedError(RuntimeFault):
    """A request that changes something bears no token, or one that is not valid here."""

    code = "unauthorized"
    http_status = 401
    exit_code = 3


class MethodNotAllowedError(RuntimeFault):
    """A path of the HTTP API does not take this method."""

    code = "method_not_allowed"
    http_status = 405
    exit_code = 2


class RequestTimeoutError(RuntimeFault):
    """A request's body came more slowly than the limit."""

    code = "request_timeout"
    http_status = 408
    exit_code = 2


class RequestTooLargeError(RuntimeFault):
    """A request's body is over its size limit."""

    code = "request_too_large"
    http_status = 413
    exit_code = 2


class UnsupportedMediaTypeError(RuntimeFault):
    """A request's body is said to be something else than what its path takes."""

    code = "unsupported_media_type"
    http_status = 415
    exit_code = 2


class HeadersTooLargeError(RuntimeFault):
    """A request's address and headers are over their size limit."""

    code = "headers_too_large"
    http_status = 431
    exit_code = 2


# --- bytes -----------------------------------------------------------------------------------------------------------


class DigestMismatchError(RuntimeFault):
    """An object, or a file, has other bytes than were pinned."""

    code = "digest_mismatch"
    http_status = 409
    exit_code = 2


class ObjectMissingError(RuntimeFault):
    """A referenced object is not in the store."""

    code = "object_missing"
    http_status = 422
    exit_code = 2


class ObjectTooLargeError(RuntimeFault):
    """An object that must be read whole is over its size limit."""

    code = "object_too_large"
    http_status = 413
    exit_code = 2


class ObjectChangedError(RuntimeFault):
    """An object was overwritten while it was being read."""

    code = "object_changed"
    http_status = 409
    exit_code = 4


class StorageUnavailableError(RuntimeFault):
    """The object store did not answer within its deadline and retries."""

    code = "storage_unavailable"
    retry = "later"
    http_status = 503
    broker = "requeue"
    exit_code = 5


class StorageRefusedError(RuntimeFault):
    """The object store answers and refuses: a credential, a permission, a bucket that is not there, no room left."""

    code = "storage_refused"
    retry = "later"
    http_status = 503
    broker = "requeue"
    exit_code = 5


class LedgerUnavailableError(RuntimeFault):
    """The ledger's database did not answer."""

    code = "ledger_unavailable"
    retry = "later"
    http_status = 503
    broker = "requeue"
    exit_code = 5


class OrchestratorUnavailableError(RuntimeFault):
    """The Prefect server did not answer."""

    code = "orchestrator_unavailable"
    retry = "later"
    http_status = 503
    broker = "requeue"
    exit_code = 5


class PlatformSettingsUnavailableError(RuntimeFault):
    """Nacos, which keeps the platform's settings, was not reached, refused us, or did not answer as Nacos does."""

    code = "platform_settings_unavailable"
    retry = "later"
    http_status = 503
    broker = "requeue"
    exit_code = 5


class BrokerUnavailableError(RuntimeFault):
    """The message broker does not answer, or ended the connection."""

    code = "broker_unavailable"
    retry = "later"
    http_status = 503
    broker = "requeue"
    exit_code = 5


class BrokerRefusedError(RuntimeFault):
    """The message broker answers and refuses: a credential, a permission, a virtual host that is not there."""

    code = "broker_refused"
    retry = "later"
    http_status = 503
    broker = "requeue"
    exit_code = 5


class BrokerMismatchError(RuntimeFault):
    """An exchange or queue is declared on the broker otherwise than the bridge needs it; `context` has both."""

    code = "broker_mismatch"
    http_status = 503
    broker = "requeue"
    exit_code = 4


class ServiceEndingError(RuntimeFault):
    """The HTTP API ended before it had an answer."""

    code = "service_ending"
    retry = "later"
    http_status = 503
    broker = "requeue"
    exit_code = 5


class ExecutionBusyError(RuntimeFault):
    """Another live process is working on this execution."""

    code = "execution_busy"
    retry = "later"
    http_status = 409
    exit_code = 5


# --- the package's own doing -----------------------------------------------------------------------------------------


class PackageImportError(RuntimeFault):
    """The entry module could not be imported."""

    code = "package_import_failed"


class EntrypointMissingError(RuntimeFault):
    """The entry module has no callable of the declared name."""

    code = "entrypoint_missing"


class PackageRaisedError(RuntimeFault):
    """The package's `train` raised."""

    code = "package_raised"


class WrongReturnValueError(RuntimeFault):
    """`train` returned something that is not a completion; `context["violations"]` names the fields."""

    code = "wrong_return_value"


class NoResultError(RuntimeFault):
    """The training process ended by itself without a result."""

    code = "no_result"


class PackageCrashedError(RuntimeFault):
    """The training process ended by a signal that a program causes itself (SIGSEGV, SIGABRT, ...)."""

    code = "package_crashed"


class ProtocolViolationError(RuntimeFault):
    """A protocol line was unreadable, foreign, out of sequence or repeated."""

    code = "protocol_violation"


class TimeoutReachedError(RuntimeFault):
    """Training took longer than `resources.timeout_seconds`."""

    code = "timeout"


class IdleTimeoutError(RuntimeFault):
    """The training process said nothing for `idle_timeout_seconds`."""

    code = "idle_timeout"


class OutputLimitError(RuntimeFault):
    """The training process printed more plain output than `max_output_bytes`."""

    code = "output_limit"


class OutOfMemoryError(RuntimeFault):
    """The process tree's resident size went over `resources.memory_bytes`, or the kernel ended it for memory."""

    code = "out_of_memory"
    retry = "elsewhere"


class WorkspaceLimitError(RuntimeFault):
    """The package wrote more than `max_workspace_bytes` into its workspace, or the disk is full."""

    code = "workspace_limit"


class ProcessLimitError(RuntimeFault):
    """The package started more processes than `max_processes`."""

    code = "process_limit"


class ProcessesLeftError(RuntimeFault):
    """The training finished, and processes that the package had started lived on; they were ended."""

    code = "processes_left"


class InputModifiedError(RuntimeFault):
    """The package changed its input files."""

    code = "input_modified"


class WorkspaceLostError(RuntimeFault):
    """The package removed its workspace."""

    code = "workspace_lost"


class ArtifactMissingError(RuntimeFault):
    """A declared artifact is not there, or is not a regular file."""

    code = "artifact_missing"


class ArtifactEmptyError(RuntimeFault):
    """A declared artifact has no bytes."""

    code = "artifact_empty"


class ArtifactOutsideError(RuntimeFault):
    """An artifact's path leads out of `output_dir` (`..`, an absolute path or a symbolic link)."""

    code = "artifact_outside"


class ArtifactChangedError(RuntimeFault):
    """An artifact changed between its verification and its upload."""

    code = "artifact_changed"


class ResultRefusedError(RuntimeFault):
    """The completion does not fit the package's `output_contract`; `context["violations"]` lists all."""

    code = "result_refused"


class OnnxInvalidError(RuntimeFault):
    """A deployable model is not a valid ONNX file or does not load in onnxruntime."""

    code = "onnx_invalid"


# --- the machine -----------------------------------------------------------------------------------------------------


class KilledError(RuntimeFault):
    """The training process was killed from outside (SIGKILL without a sign of memory shortage, or SIGTERM)."""

    code = "killed"
    retry = "elsewhere"


class AttemptLostError(RuntimeFault):
    """The process that ran an attempt is gone and left no end record."""

    code = "attempt_lost"
    retry = "elsewhere"


class PodEvictedError(RuntimeFault):
    """The cluster took the attempt's pod off its node: pressure on the node, a drain, or the eviction API."""

    code = "pod_evicted"
    retry = "elsewhere"


class PodPreemptedError(RuntimeFault):
    """A pod of higher priority took the place of the attempt's."""

    code = "pod_preempted"
    retry = "elsewhere"


class PodDeletedError(RuntimeFault):
    """Somebody deleted the attempt's pod or Job."""

    code = "pod_deleted"
    retry = "elsewhere"


class NodeLostError(RuntimeFault):
    """The node that ran the attempt is not heard of any more."""

    code = "node_lost"
    retry = "elsewhere"


class ImagePullError(RuntimeFault):
    """The cluster cannot get the image that the attempt runs in."""

    code = "image_pull"


class UnschedulableError(RuntimeFault):
    """No node had room for the attempt within the operator's grace."""

    code = "unschedulable"


class QuotaExceededError(RuntimeFault):
    """The namespace's quota does not let the attempt's pod be made."""

    code = "quota_exceeded"


class ClusterRefusedError(RuntimeFault):
    """The cluster does not let the attempt's pod be made or started, or us look: an admission rule, a missing secret or right."""

    code = "cluster_refused"


class ClusterUnavailableError(RuntimeFault):
    """The cluster's API does not answer."""

    code = "cluster_unavailable"
    retry = "later"
    http_status = 503
    exit_code = 5


class CancelledError(RuntimeFault):
    """Somebody asked for it."""

    code = "cancelled"
    http_status = 409
    exit_code = 130


class InternalError(RuntimeFault):
    """A defect of ours. Permanent, since GPU time is money."""

    code = "internal"
