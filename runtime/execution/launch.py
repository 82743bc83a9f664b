"""What is launched, within which limits, and who listens."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Protocol, Self

from contracts.limits import (
    DEFAULT_IDLE_TIMEOUT_SECONDS,
    DEFAULT_MAX_OUTPUT_BYTES,
    DEFAULT_MAX_PROCESSES,
    DEFAULT_MAX_WORKSPACE_BYTES,
    MAX_EVENTS,
    MIN_FREE_DISK_BYTES,
    RESULT_LINGER_SECONDS,
    STARTUP_SECONDS,
    SURVIVOR_SECONDS,
    TERMINATE_GRACE_SECONDS,
)

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from contracts.execution import ExecutionRequest
    from contracts.submission import Resources
    from runtime.execution.environment import Python
    from runtime.execution.protocol import Event
    from runtime.execution.workspace import Workspace
    from runtime.settings import Settings

Isolation = Literal["auto", "none"]
"""`auto` uses every namespace that the machine allows; `none` uses none, as on a machine that refuses all."""


class InputEvidence(Protocol):
    """Tells whether read-only inputs are still what they were; asked only where they could not be made read-only."""

    def fingerprint(self) -> Any:
        """What the files look like now."""
        ...

    def changed_files(self, before: Any) -> list[str]:
        """The files that are no longer what they were at `before`."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """One package, ready to run.

    Attributes:
        workspace: its folders; `code` holds the unpacked package, `input/dataset-manifest.json` the manifest.
        request: the execution request in its portable form; the package receives it with real paths.
        entrypoint: the package's entry file, relative to its code folder.
        entrypoint_symbol: the callable in it.
        python: the Python that runs it.
        output_log: where all plain output goes.
        inputs: read-only inputs by their place relative to `input_dir`, such as `dataset` or `model-input/best.pt`;
            each a file or folder elsewhere, which the package sees there and cannot change.
        evidence: of those inputs, for machines where they cannot be protected.
        network: whether the package may reach the network.
        hidden: files and folders that it must not even read: this installation's home, settings, credentials.
        isolation: see `Isolation`.
    """

    workspace: Workspace
    request: ExecutionRequest
    entrypoint: str
    entrypoint_symbol: str = "train"
    python: Python
    output_log: Path
    inputs: Mapping[str, Path] = field(default_factory=dict)
    evidence: InputEvidence | None = None
    network: bool = False
    hidden: tuple[Path, ...] = ()
    isolation: Isolation = "auto"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessLimits:
    """What ends a training process from outside. Sizes in bytes, times in seconds.

    Attributes:
        timeout_seconds: from the package's first line.
        memory_bytes: resident size of the whole tree.
        idle_timeout_seconds: without any output or event.
        max_output_bytes: plain output.
        max_processes: at once; threads are bounded at eight times as many.
        max_workspace_bytes: in the workspace's folders.
        min_free_disk_bytes: what must stay free on the workspace's disk.
        max_events: typed events.
        file_size_bytes: of one file; `None` is the workspace's.
        open_files: of one process; `None` is what this machine allows.
        startup_seconds: from the launch to the package's first line.
        grace_seconds: between SIGTERM and SIGKILL.
        linger_seconds: between the result and the process's end.
        survivor_seconds: between the process's end and that of everything it started; what is left then is ended.
        fail_on_left_processes: whether anything that is left then is an error; it is counted in any case.
    """

    timeout_seconds: float
    memory_bytes: int
    idle_timeout_seconds: float = DEFAULT_IDLE_TIMEOUT_SECONDS
    max_output_bytes: int = DEFAULT_MAX_OUTPUT_BYTES
    max_processes: int = DEFAULT_MAX_PROCESSES
    max_workspace_bytes: int = DEFAULT_MAX_WORKSPACE_BYTES
    min_free_disk_bytes: int = MIN_FREE_DISK_BYTES
    max_events: int = MAX_EVENTS
    file_size_bytes: int | None = None
    open_files: int | None = None
    startup_seconds: float = STARTUP_SECONDS
    grace_seconds: float = TERMINATE_GRACE_SECONDS
    linger_seconds: float = RESULT_LINGER_SECONDS
    survivor_seconds: float = SURVIVOR_SECONDS
    fail_on_left_processes: bool = True

    @classmethod
    def of(cls, settings: Settings, resources: Resources) -> Self:
        """The limits of an execution that asks for `resources` in an installation with `settings`."""
        return cls(
            timeout_seconds=float(resources.timeout_seconds),
            memory_bytes=resources.memory_bytes,
            idle_timeout_seconds=settings.idle_timeout_seconds,
            max_output_bytes=settings.max_output_bytes,
            max_processes=settings.max_processes,
            max_workspace_bytes=settings.max_workspace_bytes,
            file_size_bytes=settings.process_fsize_bytes,
            open_files=settings.process_nofile,
            grace_seconds=settings.terminate_grace_seconds,
            fail_on_left_processes=settings.fail_on_left_processes,
        )


class TrainingListener(Protocol):
    """Is told what a training says, while it runs, in the caller's thread. What it raises ends the training."""

    def started(self, *, pid: int, isolation: Mapping[str, str]) -> None:
        """The package's first line is about to run, in process `pid`."""
        ...

    def event(self, event: Event) -> None:
        """One typed event, checked, in order."""
        ...

    def output(self, line: str, left_out: int) -> None:
        """One plain line; `left_out` lines before it are only in the log: the package prints faster than people read."""
        ...
