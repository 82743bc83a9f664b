"""One execution as its stages see it: the installation, where progress is told, and whether somebody wants it to end."""

from __future__ import annotations

import contextlib
import time
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from prefect.logging import get_run_logger

from blocks.configuration import open_served_installation
from contracts.errors import LedgerUnavailableError, RuntimeFault
from runtime.execution.journal import Journal
from tasks.view_client import VIEW

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from logging import Logger, LoggerAdapter

    from runtime.execution.telling import Teller
    from runtime.installation import Installation
    from runtime.ledger import Owner

HEARTBEAT_SECONDS: Final = 10.0
"""How often the ledger is told that an execution's process lives; a claim from another machine expires without it."""


def _nobody_cancels() -> bool:
    return False


def _nobody_listens(_stage: str) -> None:
    return


@dataclass(slots=True)
class Host:
    """What a process that runs a flow inside itself gives to it; a worker's flow has none and opens its own.

    Attributes:
        installation: the one that the process has open.
        cancelled: whether somebody asked for the end.
        stage_entered: is told every stage.
        ui_url: where people will see the runs, if that is not the Prefect server's own address.
        fault: set by the flow where an execution did not come to an end: what has to be there before it can go on.
    """

    installation: Installation
    cancelled: Callable[[], bool] = _nobody_cancels
    stage_entered: Callable[[str], None] = _nobody_listens
    ui_url: str | None = None
    fault: RuntimeFault | None = None


HOST: Final[ContextVar[Host | None]] = ContextVar("mtr_host", default=None)


@contextlib.contextmanager
def hosted(host: Host) -> Iterator[Host]:
    """Within the block, flows called in this thread belong to `host`."""
    token = HOST.set(host)
    try:
        yield host
    finally:
        HOST.reset(token)


@contextlib.contextmanager
def host_of_this_flow() -> Iterator[Host]:
    """The host of the calling flow: the process's own, or one made from what the operator configured for workers.

    Raises:
        InvalidSettingsError: the configuration is wrong.
    """
    host = HOST.get()
    try:
        if host is not None:
            yield host
            return
        with open_served_installation() as installation:
            yield Host(installation)
    finally:
        VIEW.close()


def leave_to_host(fault: RuntimeFault) -> None:
    """Afterwards the process that runs this flow inside itself knows why an execution did not come to an end."""
    host = HOST.get()
    if host is not None:
        host.fault = fault


@dataclass(slots=True)
class Run:
    """What all stages of one execution share.

    Attributes:
        host: where it runs.
        execution_id: the execution.
        journal: what people follow.
        stage: the stage entered last, `""` before the first.
        timings: seconds of each stage so far.
        seen: every stage that was entered, here or in the child.
    """

    host: Host
    execution_id: str
    journal: Journal
    stage: str = ""
    timings: dict[str, float] = field(default_factory=dict)
    seen: set[str] = field(default_factory=set)

    @classmethod
    def of(cls, host: Host, execution_id: str) -> Run:
        """The run of `execution_id` on `host`."""
        return cls(host, execution_id, Journal.of(host.installation.settings.executions_root, execution_id))

    @property
    def installation(self) -> Installation:
        """The installation it runs in."""
        return self.host.installation

    def enter(self, stage: str) -> None:
        """Afterwards everybody who looks knows that `stage` began."""
        self.tell("stage", stage=stage, state="running")
        self.follow_stage(stage)

    def follow_stage(self, stage: str) -> None:
        """Afterwards the execution stands in `stage`, which the child has told its followers itself."""
        self.stage = stage
        self.seen.add(stage)
        self.host.stage_entered(stage)

    def leave(self, stage: str, *, seconds: float, error: Exception | None) -> None:
        """Afterwards everybody who looks knows that `stage` ended."""
        self.timings[stage] = round(self.timings.get(stage, 0.0) + seconds, 3)
        fields: dict[str, object] = {"stage": stage, "state": "failed" if error else "completed", "seconds": seconds}
        if isinstance(error, RuntimeFault):
            fields |= {"code": error.code, "message": error.message, "hint": error.hint}
        self.tell("stage", **fields)

    def tell(self, kind: str, **fields: object) -> None:
        """A line for those who follow; a full disk loses the line, never the execution."""
        with contextlib.suppress(OSError):
            self.journal.append(kind, **fields)

    @property
    def log(self) -> Logger | LoggerAdapter[Logger]:
        """The log of the Prefect run that is being executed."""
        return get_run_logger()


class Watch:
    """Asked about once a second while an execution runs: it keeps the claim alive and says whether to end.

    On the way it tells the platform what the journal has new. A ledger that does not answer for a moment must not cost a
    paid training: then the answer is no, and what was to be told waits for the next look.
    """

    def __init__(self, run: Run, owner: Owner, teller: Teller) -> None:
        self._run = run
        self._owner = owner
        self._teller = teller
        self._beat_at = time.monotonic()

    def __call__(self) -> bool:
        """Whether somebody asked for the end."""
        if self._run.host.cancelled():
            return True
        ledger = self._run.installation.ledger
        try:
            if time.monotonic() - self._beat_at > HEARTBEAT_SECONDS:
                self._beat_at = time.monotonic()
                ledger.heartbeat(self._run.execution_id, self._owner)
            self._teller.tell()
            return ledger.cancel_requested(self._run.execution_id)
        except LedgerUnavailableError:
            return False
