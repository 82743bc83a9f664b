"""Running a package's training in a process that is not trusted, and knowing how it ended.

Security, in order:

1. One process at a time works in a workspace: a lock that the kernel gives back when its holder dies.
2. Nothing of an earlier run of the attempt lives.
3. The supervisor confines the process (`supervisor.py`), says what the machine allowed, and waits. Where inputs could
   not be made read-only, what they look like is taken down now.
4. The package runs, with an environment made for it, its own pipes, and no descriptor of ours.
5. What it says is checked line by line; the first lie ends it.
6. Every end, ours included, ends the whole tree: by order, by the closing of the supervisor's stdin, by its death
   signal, and at last by looking for the attempt's mark in every process.
7. Only then is judged what became of it.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import os
import re
import selectors
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import orjson

from contracts import strict_json
from contracts.errors import (
    CancelledError,
    ExecutionBusyError,
    IdleTimeoutError,
    InternalError,
    RuntimeFault,
    RuntimeUnavailableError,
    TimeoutReachedError,
    WorkspaceLimitError,
)
from contracts.limits import THREADS_PER_PROCESS
from runtime.execution.environment import SAFE_PATH_PYTHON, child_environment
from runtime.execution.inputs import Inputs
from runtime.execution.oom import kernel_oom_kills
from runtime.execution.output import PlainOutput
from runtime.execution.protocol import Completed, Event, Phase, Plain, ProtocolReader, Started
from runtime.execution.record import ISOLATED, NOT_ISOLATED, ProcessRecord, TrainingEnd
from runtime.execution.survivors import end_survivors
from runtime.execution.verdict import NO_ROOM, Evidence, Survivor, fault_of
from runtime.execution.view import RUNNER, view_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from runtime.execution.launch import Launch, ProcessLimits, TrainingListener
    from runtime.execution.workspace import Workspace

_SUPERVISOR: Final = Path(__file__).with_name("supervisor.py")
_FEATURES: Final = ("network", "filesystem", "processes")
_READ_BYTES: Final = 64 * 1024
"""A pipe holds no more."""
_TICK_SECONDS: Final = 0.25
_CANCEL_SECONDS: Final = 1.0
_STACKS_SECONDS: Final = 3.0
_STACKS_BYTES: Final = 256 * 1024
_SETTLE_SECONDS: Final = 0.2
_SUPERVISOR_END_SECONDS: Final = 30.0
_DRAIN_SECONDS: Final = 5.0
_LOCK_SECONDS: Final = 30.0
_LOCK_NAME: Final = "lock"
_PR_GET_DUMPABLE, _PR_SET_DUMPABLE = 3, 4


def train(
    launch: Launch, limits: ProcessLimits, listener: TrainingListener, cancelled: Callable[[], bool]
) -> TrainingEnd:
    """Afterwards training has finished and no process of it is left; where it had finished before, it is not run again.

    Call it in the main thread, inline. Whatever ends the caller, also SIGKILL, ends the whole tree.

    Args:
        launch: what runs, and where.
        limits: what ends it.
        listener: is told what it says; an error that it raises ends the training and is raised.
        cancelled: asked about once a second; true ends the training.

    Raises:
        RuntimeFault: the training did not finish. `context["process"]` is the `ProcessRecord` as a document. The code
            says why: `package_import_failed`, `entrypoint_missing`, `package_raised`, `wrong_return_value`,
            `artifact_outside`, `no_result`, `package_crashed`, `protocol_violation`, `timeout`, `idle_timeout`,
            `output_limit`, `out_of_memory`, `workspace_limit`, `process_limit`, `input_modified`, `workspace_lost`,
            `killed`, `processes_left`, `cancelled`, `runtime_unavailable`.
        ExecutionBusyError: another process works in this workspace.
    """
    workspace = replace(launch.workspace, root=launch.workspace.root.resolve())
    launch = replace(launch, workspace=workspace)
    with _locked(workspace) as lock:
        finished = workspace.training_end()
        if finished is not None:
            return finished
        end_survivors(workspace.execution_id, workspace.attempt, workspace.directory)
        if cancelled():
            raise _cancelled(ProcessRecord(attempt=workspace.attempt))
        try:
            with contextlib.closing(_Training(launch, limits, listener, cancelled, lock)) as training:
                end = training.run()
        except OSError as error:
            if error.errno not in NO_ROOM:
                raise
            raise WorkspaceLimitError(
                f"the disk is full: {error}",
                hint="Free space on the disks of workspace_root and MTR_HOME; the training has to run again.",
                context={"path": str(error.filename or "")},
            ) from error
        with contextlib.suppress(
            OSError
        ):  # without room for the mark a re-run would train again; this run need not fail
            workspace.keep_end(end)
        return end


@contextlib.contextmanager
def _locked(workspace: Workspace) -> Iterator[int]:
    """Holds the workspace. The supervisor inherits the lock: it is free only once the tree is gone as well."""
    path = workspace.private / _LOCK_NAME
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        deadline = time.monotonic() + _LOCK_SECONDS
        while True:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError as error:
                if time.monotonic() > deadline:
                    raise ExecutionBusyError(
                        f"another process trains in {workspace.directory}",
                        hint="Wait for it: `mtr executions show` says what it does.",
                        context={"workspace": str(workspace.directory)},
                    ) from error
                time.sleep(0.05)
        yield handle
    finally:
        os.close(handle)


class _Training:
    """One run of one package, from the launch to the verdict."""

    def __init__(
        self,
        launch: Launch,
        limits: ProcessLimits,
        listener: TrainingListener,
        cancelled: Callable[[], bool],
        lock: int,
    ) -> None:
        self._launch = launch
        self._limits = limits
        self._listener = listener
        self._cancelled = cancelled
        self._workspace = launch.workspace
        self._inputs = Inputs(launch)
        self._handles = contextlib.ExitStack()
        self._selector = self._handles.enter_context(selectors.DefaultSelector())
        self._reader = ProtocolReader(self._workspace.execution_id, max_events=limits.max_events)
        self._output = PlainOutput(launch.output_log, limits.max_output_bytes, listener.output)
        self._handles.callback(self._output.close)
        self._lock = lock
        self._supervisor: subprocess.Popen[bytes]
        self._control: int | None = None
        self._reports = b""
        self._stacks = b""
        self._deaf = False
        self._phase = ""
        self._pid = 0
        self._isolated: tuple[str, ...] = ()
        self._refused: dict[str, str] = {}
        self._limit: dict[str, Any] = {}
        self._ended: dict[str, Any] | None = None
        self._fault: RuntimeFault | None = None
        self._plan: list[tuple[float, bytes]] = []
        self._sent: list[bytes] = []
        self._oom_kills = kernel_oom_kills()
        self._launched = time.monotonic()
        self._started: float | None = None
        self._heard = self._launched
        self._finished: float | None = None
        self._exited = False
        self._asked_cancel = self._launched

    def run(self) -> TrainingEnd:
        """Afterwards it has run and nothing of it lives.

        Raises:
            RuntimeFault: see `train`.
        """
        self._inputs.prepare()
        self._start()
        self._follow()
        self._end_tree()
        if self._supervisor.returncode > 0:
            raise InternalError(
                f"the supervisor failed: {' '.join(self._output.tail()[-1:])}"[:2000],
                hint="Report this with the execution's output log.",
                context={"process": self._record().to_document()},
            )
        record = self._record()
        completion = self._reader.completion
        fault = fault_of(
            Evidence(
                record=record,
                stopped=self._fault,
                limit=self._limit,
                failure=self._reader.failure,
                completed=completion is not None,
                started=self._reader.started,
                lost=self._lost(),
                changed_inputs=self._inputs.changed(),
                input_dir=str(self._workspace.input),
                phase=self._phase,
                runtime_id=self._launch.request.runtime.id,
                survivors=self._survivors() if self._limits.fail_on_left_processes else (),
                survivor_seconds=self._limits.survivor_seconds,
            )
        )
        if fault is not None:
            fault.context["process"] = record.to_document()
            raise fault
        assert completion is not None  # noqa: S101 - `fault_of` has an error for every other end
        return TrainingEnd(completion, record)

    def close(self) -> None:
        """Afterwards no process of it lives and no descriptor is open, whatever happened before."""
        try:
            self._end_tree()
        finally:
            self._workspace.remove_short_tmp()
            self._handles.close()

    # --- starting ----------------------------------------------------------------------------------------------------

    def _start(self) -> None:
        request = self._workspace.private / "request.json"
        request.write_bytes(strict_json.dump(self._order_for_runner()))
        order = os.open(request, os.O_RDONLY | os.O_CLOEXEC)
        protocol, plain, stacks, report = (self._pipe(name) for name in ("protocol", "plain", "stacks", "report"))
        os.set_blocking(stacks, False)  # a package that fills it must not stop the supervisor
        read_control, self._control = os.pipe()
        descriptors = (order, protocol, plain, stacks)
        theirs = (*descriptors, report, read_control)
        try:
            self._supervisor = subprocess.Popen(
                [sys.executable, "-I", "-S", _SUPERVISOR, str(report)],
                stdin=read_control,
                stdout=subprocess.DEVNULL,
                stderr=plain,  # a defect of the supervisor shows in the log
                env={},
                cwd="/",
                pass_fds=(*descriptors, report, self._lock),
                start_new_session=True,
            )
        finally:
            for handle in theirs:
                os.close(handle)
        order_text = orjson.dumps(self._order_for_supervisor(descriptors), option=orjson.OPT_APPEND_NEWLINE)
        with contextlib.suppress(BrokenPipeError):  # it is gone: its report pipe ends, and that is an end
            waiting = memoryview(order_text)
            while waiting:
                waiting = waiting[os.write(self._control, waiting) :]

    def _pipe(self, name: str) -> int:
        """A pipe that we read; answers its other end."""
        ours, theirs = os.pipe()
        self._handles.callback(os.close, ours)
        self._selector.register(ours, selectors.EVENT_READ, name)
        return theirs

    def _order_for_runner(self) -> dict[str, Any]:
        return {
            "code_dir": str(self._workspace.code),
            "entrypoint": self._launch.entrypoint,
            "symbol": self._launch.entrypoint_symbol,
            "context": context_for(self._launch),
        }

    def _order_for_supervisor(self, descriptors: tuple[int, ...]) -> dict[str, Any]:
        launch, limits = self._launch, self._limits
        python = launch.python
        features = [] if launch.isolation == "none" else [f for f in _FEATURES if f != "network" or not launch.network]
        safe_path = ["-P"] if python.version >= SAFE_PATH_PYTHON else []
        stacks_signal = signal.SIGRTMAX - 2
        return {
            "parent": os.getpid(),
            "command": [str(python.path), *safe_path, str(RUNNER), str(descriptors[3]), str(int(stacks_signal))],
            "environment": child_environment(self._workspace, python, launch.request.resources, network=launch.network),
            "own_tmp": {"TMPDIR": "/tmp"},  # noqa: S108 - the workspace's, where the package has a view of its own
            "working_directory": str(self._workspace.code),
            "descriptors": list(descriptors),
            "lock": self._lock,
            "stacks_signal": int(stacks_signal),
            "features": features,
            "view": view_of(launch, limits.memory_bytes),
            "memory_bytes": limits.memory_bytes,
            "max_processes": limits.max_processes,
            "max_threads": limits.max_processes * THREADS_PER_PROCESS,
            "max_workspace_bytes": limits.max_workspace_bytes,
            "min_free_disk_bytes": limits.min_free_disk_bytes,
            "survivor_seconds": limits.survivor_seconds,
            "file_size_bytes": limits.file_size_bytes or limits.max_workspace_bytes,  # also of a file full of holes
            "open_files": limits.open_files,
        }

    # --- following ---------------------------------------------------------------------------------------------------

    def _follow(self) -> None:
        """Reads until the supervisor has reported the end, or is gone, and everything that was said is read."""
        drained_by: float | None = None
        while self._selector.get_map():
            now = time.monotonic()
            if self._ended is not None:
                drained_by = drained_by or now + _DRAIN_SECONDS
                if now > drained_by:  # something that hangs in the kernel holds a pipe
                    return
            else:
                self._watch_clock(now)
            silent = self._exited  # what the runner said before its end is in the pipe when its end is known
            for key, _ in self._selector.select(self._wait(now)):
                chunk = os.read(key.fd, _READ_BYTES)
                self._take(str(key.data), chunk)
                silent = silent and not (key.data == "protocol" and chunk)
                if not chunk:
                    self._selector.unregister(key.fd)
            if silent and self._finished is None and b"end" not in self._sent:
                self._send(b"end")  # it failed: nobody waits for what it left
            if self._ended is not None and self._only_stacks_open():
                return

    def _only_stacks_open(self) -> bool:
        return all(key.data == "stacks" for key in self._selector.get_map().values())

    def _wait(self, now: float) -> float:
        unsure = self._exited and self._finished is None and b"end" not in self._sent
        if self._ended is not None or unsure or (self._plan and self._plan[0][0] <= now):
            return 0.01
        until = self._plan[0][0] - now if self._plan else _TICK_SECONDS
        return max(0.0, min(_TICK_SECONDS, until))

    def _take(self, name: str, chunk: bytes) -> None:
        if name == "report":
            self._hear_report(chunk)
            return
        if name == "stacks":
            self._stacks = (self._stacks + chunk)[:_STACKS_BYTES]
            return
        if chunk:
            self._heard = time.monotonic()
        if self._deaf:
            return  # it is being ended for what it said; nobody listens any more
        try:
            if name == "plain":
                self._output.feed(chunk)
            else:
                self._hear_protocol(chunk)
        except RuntimeFault as fault:
            self._deaf = True
            self._stop(fault, gently=False)

    def _hear_protocol(self, chunk: bytes) -> None:
        for message in self._reader.feed(chunk):
            if isinstance(message, Started):
                self._started = time.monotonic()
                isolation, _ = self._isolation()
                self._listener.started(pid=self._pid, isolation=isolation)
            elif isinstance(message, Plain):
                self._output.feed(message.line + b"\n")
            elif isinstance(message, Completed):
                self._finished = time.monotonic()
            elif isinstance(message, Event):
                if isinstance(message, Phase):
                    self._phase = message.phase
                self._listener.event(message)

    def _hear_report(self, chunk: bytes) -> None:
        *lines, self._reports = (self._reports + chunk).split(b"\n")
        for line in lines:
            report = orjson.loads(line)
            event = report.pop("event")
            if event == "ready":
                self._isolated = tuple(report["features"])
                self._refused = dict(report["refused"])
                self._inputs.settle(read_only="filesystem" in self._isolated)
                if "filesystem" not in self._isolated:
                    self._workspace.make_short_tmp()
                if "processes" not in self._isolated:
                    self._handles.enter_context(_unseen())
                self._send(b"go")
            elif event == "running":
                self._pid = int(report["pid"])
            elif event == "limit":
                self._limit = self._limit or report
            elif event == "stacks":
                self._plan = [(time.monotonic() + _SETTLE_SECONDS, b"terminate")]
            elif event == "exited":
                self._exited = True
            elif event == "ended":
                self._ended = report
        if not chunk and self._ended is None:  # the supervisor itself was ended
            self._ended = {"exit_code": None, "signal": int(signal.SIGKILL)}
            self._end_survivors()  # or what it left would hold our pipes open

    # --- ending ------------------------------------------------------------------------------------------------------

    def _watch_clock(self, now: float) -> None:
        """Ends it when a time has come; the first reason stays."""
        while self._plan and self._plan[0][0] <= now:
            _, command = self._plan.pop(0)
            self._send(command)
            if command == b"stacks":
                self._plan = [(now + _STACKS_SECONDS, b"terminate")]
            elif command == b"terminate":
                self._plan = [(now + self._limits.grace_seconds, b"kill")]
        if self._fault is not None or self._limit:
            return
        if self._finished is not None:
            lingers = not self._exited and now - self._finished > self._limits.linger_seconds
            if lingers and b"kill" not in self._sent:
                self._send(b"kill")  # the result stands: its exit handlers have had their time
            return
        if now - self._asked_cancel >= _CANCEL_SECONDS:
            self._asked_cancel = now
            if self._cancelled():
                self._stop(_cancelled(None), gently=True)
                return
        if self._started is None:
            if now - self._launched > self._limits.startup_seconds:
                self._stop(self._too_slow(), gently=False)
        elif now - self._started > self._limits.timeout_seconds:
            self._stop(self._timed_out(), gently=True, stacks=True)
        elif now - max(self._heard, self._started) > self._limits.idle_timeout_seconds:
            self._stop(self._idle(), gently=True, stacks=True)

    def _stop(self, fault: RuntimeFault, *, gently: bool, stacks: bool = False) -> None:
        if self._fault is not None or self._limit:
            return
        self._fault = fault
        first = b"stacks" if stacks else b"terminate" if gently else b"kill"
        self._plan = [(time.monotonic(), first)]

    def _send(self, command: bytes) -> None:
        self._sent.append(command)
        if self._control is not None:
            with contextlib.suppress(BrokenPipeError):
                os.write(self._control, command + b"\n")

    def _end_tree(self) -> None:
        """Afterwards no process of it lives. The closing of its stdin ends the supervisor, and with it the tree."""
        if self._control is not None:
            os.close(self._control)
            self._control = None
        supervisor = getattr(self, "_supervisor", None)
        if supervisor is None:
            return
        if supervisor.poll() is None:
            try:
                supervisor.wait(_SUPERVISOR_END_SECONDS)
            except subprocess.TimeoutExpired:
                supervisor.kill()
                supervisor.wait()
        if self._ended is None or supervisor.returncode != 0:
            self._end_survivors()

    def _end_survivors(self) -> None:
        end_survivors(self._workspace.execution_id, self._workspace.attempt, self._workspace.directory)

    # --- judging -----------------------------------------------------------------------------------------------------

    def _record(self) -> ProcessRecord:
        ended = self._ended or {}
        now = time.monotonic()
        started = self._started or now
        isolation, refused = self._isolation()
        number = int(ended.get("signal") or 0)
        if self._stacks:
            with contextlib.suppress(RuntimeFault):
                self._output.keep(b"\n--- Python stacks before the end ---\n" + self._stacks)
        self._explain_stacks()
        return ProcessRecord(
            attempt=self._workspace.attempt,
            exit_code=ended.get("exit_code"),
            signal=signal.Signals(number).name
            if number in set(signal.Signals)
            else f"signal {number}"
            if number
            else "",
            isolation=isolation,
            isolation_refused=refused,
            startup_seconds=round(started - self._launched, 3),
            training_seconds=round(now - started, 3),
            cpu_seconds=round(float(ended.get("cpu_seconds", 0.0)), 3),
            peak_memory_bytes=int(ended.get("peak_memory", 0)),
            peak_processes=int(ended.get("peak_processes", 0)),
            workspace_bytes=int(ended.get("workspace_bytes", 0)),
            output_bytes=self._output.bytes,
            events=self._reader.events,
            ended_survivors=int(ended.get("outlived", 0)),
            asked_to_end=b"terminate" in self._sent,
            ended_by_force=b"kill" in self._sent or bool(self._limit),
            kernel_oom_kills=max(0, kernel_oom_kills() - self._oom_kills),
            output_tail=self._output.tail(),
        )

    def _survivors(self) -> tuple[Survivor, ...]:
        named = (self._ended or {}).get("survivors", ())
        return tuple(Survivor(int(one["pid"]), str(one["name"])) for one in named)

    def _isolation(self) -> tuple[dict[str, str], dict[str, str]]:
        state = {feature: ISOLATED if feature in self._isolated else NOT_ISOLATED for feature in _FEATURES}
        refused = dict(self._refused)
        if self._launch.isolation == "none":
            refused = dict.fromkeys(_FEATURES, "switched off by the setting isolation")
        elif self._launch.network:
            refused["network"] = "the package may reach the network"
        return state, refused

    def _lost(self) -> str:
        """The folder that the package removed; where it could not remove a folder, what it emptied."""
        lost = self._workspace.lost()
        if lost or not self._reader.started:
            return lost
        return "" if (self._workspace.code / self._launch.entrypoint).exists() else f"code/{self._launch.entrypoint}"

    def _explain_stacks(self) -> None:
        """Names the place where the main thread was, in the message of the error that ended it."""
        place = main_thread_place(self._stacks.decode(errors="replace"))
        if place and isinstance(self._fault, (IdleTimeoutError, TimeoutReachedError)):
            self._fault.message += f"; main thread in {place}"
            self._fault.args = (self._fault.message,)
            self._fault.context["stacks"] = self._stacks.decode(errors="replace")[:16_000]

    def _too_slow(self) -> RuntimeUnavailableError:
        return RuntimeUnavailableError(
            f"the Python of runtime {self._launch.request.runtime.id!r} did not reach the package's first line within "
            f"{self._limits.startup_seconds:g} s",
            hint="Check that environment with `mtr doctor`; the package has not run.",
            context={"startup_seconds": self._limits.startup_seconds},
        )

    def _timed_out(self) -> TimeoutReachedError:
        during = f" in phase {self._phase!r}" if self._phase else ""
        return TimeoutReachedError(
            f"training took longer than {self._limits.timeout_seconds:g} s{during}",
            hint="Allow more time (--timeout), train for fewer epochs, or use more cores.",
            context={"timeout_seconds": self._limits.timeout_seconds},
        )

    def _idle(self) -> IdleTimeoutError:
        during = f" in phase {self._phase!r}" if self._phase else ""
        return IdleTimeoutError(
            f"no output for {self._limits.idle_timeout_seconds:g} s{during}",
            hint="Report a phase or a metric now and then, or raise idle_timeout_seconds.",
            context={"idle_timeout_seconds": self._limits.idle_timeout_seconds},
        )


def context_for(launch: Launch) -> dict[str, Any]:
    """The `context` that `train` receives: the request with this machine's real paths, without `package_manifest`."""
    workspace, portable = launch.workspace, launch.request.workspace
    document = launch.request.to_document()
    del document["package_manifest"]
    document["workspace"] = {
        "root_dir": str(workspace.directory),
        "code_dir": str(workspace.code),
        "input_dir": str(workspace.input),
        "output_dir": str(workspace.output),
        "dataset_manifest_path": str(workspace.dataset_manifest),
    }
    if launch.request.model_input_path is not None:
        below = launch.request.model_input_path.removeprefix(portable.input_dir.rstrip("/") + "/")
        document["model_input_path"] = str(workspace.input / below)
    return document


_FRAME: Final = re.compile(r'^ +File "([^"]*)", line (\d+) in (\S+)')


def main_thread_place(stacks: str) -> str:
    """Where the runner's main thread was, such as `__next__ (loader.py:633)`; empty when the stacks do not tell.

    Args:
        stacks: what the processes wrote, the runner first, each after a line `process <pid>`.
    """
    first = stacks.partition("process ")[2].partition("process ")[0]
    threads = re.split(r"^(?:Current thread|Thread) .*$", first, flags=re.MULTILINE)
    for line in threads[-1].splitlines():  # the main thread is the oldest, and the oldest comes last
        frame = _FRAME.match(line)
        if frame:
            path, number, function = frame.groups()
            return f"{function} ({Path(path).name}:{number})"
    return ""


def _cancelled(record: ProcessRecord | None) -> CancelledError:
    return CancelledError(
        "the training was cancelled",
        hint="Run it again when it is wanted: `mtr executions retry`.",
        context={"process": record.to_document()} if record else {},
    )


@contextlib.contextmanager
def _unseen() -> Iterator[None]:
    """Keeps processes of the same user, the package's, from reading our environment and memory: credentials are there."""
    libc = ctypes.CDLL(None)
    before = libc.prctl(_PR_GET_DUMPABLE, 0, 0, 0, 0)
    libc.prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
    try:
        yield
    finally:
        if before == 1:
            libc.prctl(_PR_SET_DUMPABLE, before, 0, 0, 0)
