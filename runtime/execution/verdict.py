"""What became of a training: one typed error, or none, from all the evidence. Pure: no process, no clock."""

from __future__ import annotations

import errno
import os
import re
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import orjson

from contracts.errors import (
    ArtifactOutsideError,
    EntrypointMissingError,
    InputModifiedError,
    KilledError,
    NoResultError,
    OutOfMemoryError,
    PackageCrashedError,
    PackageImportError,
    PackageRaisedError,
    ProcessesLeftError,
    ProcessLimitError,
    RuntimeFault,
    RuntimeUnavailableError,
    WorkspaceLimitError,
    WorkspaceLostError,
    WrongReturnValueError,
)
from contracts.limits import GIB, SURVIVOR_SECONDS
from runtime.sizes import readable_size

if TYPE_CHECKING:
    from collections.abc import Mapping

    from runtime.execution.protocol import Failure
    from runtime.execution.record import ProcessRecord

_SENT_BY_OTHERS: Final = frozenset({"SIGKILL", "SIGTERM", "SIGINT", "SIGHUP", "SIGQUIT"})
"""Signals that come from outside; all others a program brings upon itself."""
_READ_ONLY: Final = frozenset({errno.EROFS, errno.EBUSY, errno.EACCES, errno.EPERM})
NO_ROOM: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
"""Error numbers of a write that found no room: on the disk, in a quota, in the largest file allowed."""
_TAIL_LINES: Final = 5
_KILLED: Final = re.compile(r"killed|SIGKILL|signal 9|code:? -9", re.IGNORECASE)
"""What libraries say when a worker of theirs was killed."""
_NAMES_SHOWN: Final = 5


@dataclass(frozen=True, slots=True)
class Survivor:
    """A process of the package that its training process left behind.

    Attributes:
        pid: on this machine.
        name: what it called itself: the package's words.
    """

    pid: int
    name: str

    @property
    def shown(self) -> str:
        """Its name in one line of printable characters."""
        return "".join(letter if letter.isprintable() else "?" for letter in self.name[:64]).strip() or "(no name)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """All that is known once no process is left.

    Attributes:
        record: the process's record.
        stopped: why the runtime itself ended it, if it did.
        limit: the supervisor's report of a limit: `limit`, `measured`, `most`; empty without one.
        failure: what the runner said went wrong.
        completed: whether the runner delivered a completion.
        started: whether the package's first line was reached.
        lost: the folder of its workspace that is gone; empty if none is.
        changed_inputs: input files that are not what they were.
        input_dir: where the package saw its inputs.
        phase: the last phase that it reported; empty before the first.
        runtime_id: whose Python ran it.
        survivors: the first of what it left, where that is an error; `record.ended_survivors` counts all.
        survivor_seconds: how long they had to end by themselves.
    """

    record: ProcessRecord
    stopped: RuntimeFault | None = None
    limit: Mapping[str, Any]
    failure: Failure | None = None
    completed: bool = False
    started: bool = True
    lost: str = ""
    changed_inputs: tuple[str, ...] = ()
    input_dir: str = ""
    phase: str = ""
    runtime_id: str = ""
    survivors: tuple[Survivor, ...] = ()
    survivor_seconds: float = SURVIVOR_SECONDS


def fault_of(evidence: Evidence) -> RuntimeFault | None:
    """The one error that explains the end best, or `None` for a training that finished.

    1. What the runtime ended it for. 2. What the package did to its workspace and inputs, whatever it says. 3. A
    completion stands, however its process ended afterwards, unless others live on that it left. 4. What the kernel ended for memory. 5. What the package
    did instead of finishing. 6. How the process ended.
    """
    if evidence.stopped is not None:
        return evidence.stopped
    if evidence.limit:
        return _over_limit(evidence)
    if evidence.lost:
        return WorkspaceLostError(
            f"the package removed its workspace: {evidence.lost} is gone",
            hint="Remove only what the package made itself, under output_dir or the temporary folder.",
            context={"lost": evidence.lost},
        )
    if evidence.changed_inputs:
        return _modified(evidence.changed_inputs)
    if evidence.completed:
        return _left_behind(evidence) if evidence.survivors else None
    if not evidence.started:
        return _not_started(evidence)
    if evidence.record.kernel_oom_kills and _fits_a_kill(evidence):
        return _out_of_memory(
            f"memory was short and the kernel ended {evidence.record.kernel_oom_kills} process(es) here",
            evidence,
        )
    if evidence.failure is not None:
        return _failed(evidence.failure, evidence)
    return _ended(evidence)


def _fits_a_kill(evidence: Evidence) -> bool:
    """Whether the end is what a kill by the kernel looks like; the counter alone may tell of another execution's."""
    if evidence.failure is None:
        return evidence.record.signal == "SIGKILL"
    return evidence.failure.kind == "raised" and _KILLED.search(evidence.failure.message) is not None


def _over_limit(evidence: Evidence) -> RuntimeFault:
    kind, measured, most = (evidence.limit[name] for name in ("limit", "measured", "most"))
    context = {"limit": kind, "measured": measured, "most": most}
    if kind == "memory":
        return _out_of_memory(f"the package's processes reached {readable_size(measured)} of memory", evidence)
    if kind == "workspace":
        return WorkspaceLimitError(
            f"the package wrote {readable_size(measured)} into its workspace, {readable_size(most)} are allowed",
            hint="Keep fewer checkpoints, delete temporary files, or raise max_workspace_bytes.",
            context=context,
        )
    if kind == "disk":
        return WorkspaceLimitError(
            f"the workspace's disk is full: {readable_size(measured)} are left, {readable_size(most)} must stay free",
            hint="Free space, or set workspace_root to a folder on a larger disk; look at what the package wrote: "
            f"{readable_size(evidence.record.workspace_bytes)}.",
            context=context,
        )
    return ProcessLimitError(
        f"the package had {measured} {kind} at once, {most} are allowed",
        hint="Start fewer workers, or raise max_processes.",
        context=context,
    )


def _out_of_memory(what: str, evidence: Evidence) -> OutOfMemoryError:
    most = int(evidence.limit.get("most", 0)) if evidence.limit.get("limit") == "memory" else 0
    during = f" in phase {evidence.phase!r}" if evidence.phase else " before it reported a phase"
    wanted = max(1, -(-2 * max(most, evidence.record.peak_memory_bytes) // GIB))
    said = f"; it raised {evidence.failure.error_type}: {evidence.failure.message[:300]}" if evidence.failure else ""
    return OutOfMemoryError(
        f"{what}{f', {readable_size(most)} are allowed,' if most else ''}{during}{said}",
        hint=f"Ask for more memory (--memory {wanted}GiB), or use smaller batches or fewer data loaders.",
        context={
            "most_bytes": most or None,
            "peak_bytes": evidence.record.peak_memory_bytes,
            "kernel_oom_kills": evidence.record.kernel_oom_kills,
        },
    )


def _modified(changed: tuple[str, ...]) -> InputModifiedError:
    shown = ", ".join(changed[:5]) + (f" and {len(changed) - 5} more" if len(changed) > 5 else "")
    return InputModifiedError(
        f"the package changed its input: {shown}",
        hint="Inputs are read-only: copy what must be changed into output_dir or the temporary folder first.",
        context={"changed": list(changed[:1000])},
    )


def _left_behind(evidence: Evidence) -> ProcessesLeftError:
    many = max(evidence.record.ended_survivors, len(evidence.survivors))
    counts = Counter(one.shown for one in evidence.survivors)
    names = [name if count == 1 else f"{name} ({count} times)" for name, count in counts.items()]
    rest = f" and {len(names) - _NAMES_SHOWN} other names" if len(names) > _NAMES_SHOWN else ""
    what = "1 process" if many == 1 else f"{many} processes"
    return ProcessesLeftError(
        f"the package left {what} behind: {', '.join(names[:_NAMES_SHOWN])}{rest}",
        hint="Wait for, or end, whatever the package starts before train() returns: what still lives "
        f"{evidence.survivor_seconds:g} s after its process has ended counts. fail_on_left_processes = false accepts it.",
        context={"left_processes": [{"pid": one.pid, "name": one.shown} for one in evidence.survivors]},
    )


def _not_started(evidence: Evidence) -> RuntimeUnavailableError:
    record = evidence.record
    how = f"ended by {record.signal}" if record.signal else f"ended with exit code {record.exit_code}"
    said = f": {record.output_tail[-1]}" if record.output_tail else ""
    return RuntimeUnavailableError(
        f"the Python of runtime {evidence.runtime_id!r} {how} before the package's first line{said}"[:2000],
        hint="Check that environment with `mtr doctor`; the package has not run.",
        context={"runtime_id": evidence.runtime_id},
    )


def _failed(failure: Failure, evidence: Evidence) -> RuntimeFault:
    place = f"{failure.file}:{failure.line}" if failure.file else ""
    context: dict[str, object] = {
        "error_type": failure.error_type,
        "place": place,
        "function": failure.function,
        "traceback": failure.traceback[-8000:],
    }
    said = f"{failure.error_type}: {failure.message}"[:2000].rstrip(": ")
    at = f" ({place})" if place else ""
    if failure.kind == "entrypoint_missing":
        return EntrypointMissingError(
            failure.message[:2000],
            hint="Name the function in the manifest's entrypoint_symbol, or define it in the entry file.",
            context={"found": failure.error_type},
        )
    if failure.kind == "wrong_return_value":
        return _wrong_value(failure)
    if failure.errno in NO_ROOM and failure.path.startswith("/"):
        return WorkspaceLimitError(
            f"the package could not write {failure.path}: {os.strerror(failure.errno)}{at}",
            hint="Free space on the workspace's disk, write less, or raise process_fsize_bytes if one file was too large.",
            context=context,
        )
    if failure.errno in NO_ROOM:
        return WorkspaceLimitError(
            f"the package could not write: {said}{at}",
            hint="Free space on the workspace's disk, write less, or raise process_fsize_bytes if one file was too large.",
            context=context,
        )
    if failure.errno in _READ_ONLY and failure.path.startswith(evidence.input_dir + "/"):
        return _modified((os.path.relpath(failure.path, evidence.input_dir),))
    if failure.kind == "import_failed":
        return PackageImportError(
            f"the package cannot be imported: {said}{at}",
            hint="Correct it; modules that are missing here are not part of its runtime, and packages bring no dependencies.",
            context=context,
        )
    hint = f"Correct the package{f' at {place}' if place else ''}; the traceback is in the log and in the context."
    if failure.errno == errno.EROFS:
        hint = "Write to output_dir, the temporary folder or the home folder: everything else is read-only."
    return PackageRaisedError(f"the package raised {said}{at}", hint=hint, context=context)


def _wrong_value(failure: Failure) -> RuntimeFault:
    try:
        violations = orjson.loads(failure.message)
    except orjson.JSONDecodeError:
        violations = []
    if not isinstance(violations, list) or not violations:
        return WrongReturnValueError(
            failure.message[:2000],
            hint="Return a dict with summary, metrics, artifacts and model, of JSON values.",
            context={"violations": [{"path": "", "message": failure.message[:2000]}]},
        )
    outside = [one for one in violations if _is_artifact_path(one["path"]) and _leads_out(one["message"])]
    said = "; ".join(f"{one['path'] or '(value)'}: {one['message']}" for one in violations[:10])
    if outside:
        return ArtifactOutsideError(
            f"an artifact's path leads out of output_dir: {outside[0]['path']} {outside[0]['message']}",
            hint="Write artifacts under context['workspace']['output_dir'] and name them relative to it.",
            context={"violations": violations},
        )
    headline = "what train() returned is no completion"
    return WrongReturnValueError(
        f"{headline}: {said}"[:2000],
        hint="Correct the named fields; artifacts have path, role, format, deployable and metadata.",
        context={"headline": headline, "violations": violations},
    )


def _is_artifact_path(path: str) -> bool:
    return path.startswith("artifacts[") and path.endswith("].path")


def _leads_out(message: str) -> bool:
    return message.endswith(("it is absolute", "it has a '..' part"))


def _ended(evidence: Evidence) -> RuntimeFault:
    record = evidence.record
    tail = "\n".join(record.output_tail[-_TAIL_LINES:])
    if record.signal in _SENT_BY_OTHERS:
        peak = f"; its memory peaked at {readable_size(record.peak_memory_bytes)}" if record.peak_memory_bytes else ""
        return KilledError(
            f"the training process was ended by {record.signal} from outside{peak}",
            hint="Somebody or something on the machine ended it; it may run again as another attempt.",
            context={"signal": record.signal, "peak_bytes": record.peak_memory_bytes},
        )
    if record.signal == "SIGXFSZ":
        return WorkspaceLimitError(
            "the package wrote a file that is larger than one file may be",
            hint="Write smaller files, or raise process_fsize_bytes and max_workspace_bytes.",
            context={"signal": record.signal},
        )
    if record.signal:
        return PackageCrashedError(
            f"the training process crashed by {record.signal}",
            hint="Native code failed; the end of the log shows the Python stack where there was one.",
            context={"signal": record.signal, "output_tail": tail},
        )
    return NoResultError(
        f"the training process ended with exit code {record.exit_code} and delivered no result",
        hint="Return a completion from train(); do not call sys.exit() or os._exit() in it.",
        context={"exit_code": record.exit_code, "output_tail": tail},
    )
