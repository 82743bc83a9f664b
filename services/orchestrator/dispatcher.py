"""Whatever the ledger has accepted for the platform is carried out, whoever accepted it and whatever died since.

A thread of `mtr serve` and `mtr bridge` looks through the ledger when it is woken and every `SWEEP_SECONDS`. For each
execution that nobody works on it starts a Prefect run where a server with our deployments is configured, and otherwise
a process of its own, `max_executions` at once, the oldest first. Several dispatchers may do so at the same time: a
Prefect run is idempotent by its key, a process holds a lock, and in the end the ledger's claim lets one through.
"""

from __future__ import annotations

import contextvars
import logging
import os
import threading
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final, Self

from contracts.errors import RuntimeFault
from contracts.limits import (
    DISPATCH_FIRST_PAUSE_SECONDS,
    DISPATCH_LONGEST_PAUSE_SECONDS,
    DISPATCH_SWEEP_SECONDS,
    DISPATCH_UNTOLD_SECONDS,
)
from services.orchestrator.carrier import start_carrier, take_place
from services.orchestrator.runs import cancel, has_deployments, run_deployed, run_states

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import TracebackType

    from runtime.installation import Installation
    from runtime.ledger import Execution, ExecutionSummary

_LOG: Final = logging.getLogger(__name__)
_NO_PLACE_SECONDS: Final = 2.0
"""Another dispatcher's process may end at any time, and nobody tells us."""
_STOP_SECONDS: Final = 10.0
"""A call to Prefect may take longer; the thread then ends with the process."""


@dataclass(slots=True)
class _Starts:
    """How often an execution was started from here, and when it may be again."""

    count: int = 0
    not_before: float = 0.0

    def note(self) -> None:
        self.count += 1
        self.not_before = time.monotonic() + pause_after(self.count)


def pause_after(failures: int) -> float:
    """Seconds until the next try after so many that led to nothing: doubled each time, and bounded."""
    return float(min(DISPATCH_FIRST_PAUSE_SECONDS * 2 ** min(failures - 1, 16), DISPATCH_LONGEST_PAUSE_SECONDS))


class Dispatcher:
    """Has executions carried out for as long as it is open. They outlive it, and another one takes over.

    Taken care of are the executions that were announced to the platform and those that `wake` named. A person's
    `mtr run`, which is neither, stays that person's.
    """

    def __init__(self, here: Installation) -> None:
        self._here = here
        self._told: set[str] = set()
        self._starts: dict[str, _Starts] = {}
        self._guard = threading.Lock()
        self._rung, self._closing = threading.Event(), threading.Event()
        self._thread = threading.Thread(name="dispatcher", daemon=True)

    def start(self) -> Self:
        """Afterwards its thread works, with the Prefect server of whoever calls this. Call it once."""
        # Prefect keeps what `temporary_settings` says in the caller's context, which a new thread does not have.
        context = contextvars.copy_context()
        self._thread = threading.Thread(target=context.run, args=(self._work,), name="dispatcher", daemon=True)
        self._thread.start()
        return self

    def wake(self, execution_id: str | None = None) -> None:
        """Afterwards it looks again at once, and takes care of this execution. Never waits for anything."""
        if execution_id is not None:
            with self._guard:
                self._told.add(execution_id)
        self._rung.set()

    def close(self) -> None:
        """Afterwards it starts nothing more. What it started goes on."""
        self._closing.set()
        self._rung.set()
        if self._thread.is_alive():
            self._thread.join(_STOP_SECONDS)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # --- the thread ---------------------------------------------------------------------------------------------------

    def _work(self) -> None:
        failures = 0
        while not self._closing.is_set():
            self._rung.clear()
            try:
                pause = self._sweep()
            except RuntimeFault as fault:
                failures += 1
                _LOG.warning("executions wait: %s %s", fault.message, fault.hint)
            except Exception:  # noqa: BLE001 - whatever it was, the next executions must not wait for a restart
                failures += 1
                _LOG.exception("executions wait because of a defect; report it")
            else:
                failures = 0
                self._rung.wait(pause)
                continue
            # A bell changes nothing about what is away.
            self._closing.wait(min(pause_after(failures), DISPATCH_SWEEP_SECONDS))

    def _sweep(self) -> float:
        """Afterwards whatever waited and could be started is; how long there is nothing to do unless somebody rings."""
        waiting = self._waiting()
        if not waiting:
            return DISPATCH_SWEEP_SECONDS
        if has_deployments(self._here.settings):
            self._deploy(waiting)
            pause = DISPATCH_SWEEP_SECONDS
        else:
            pause = self._carry_out(waiting)
        due = [starts.not_before - time.monotonic() for starts in self._starts.values()]
        return max(0.1, min([pause, *(seconds for seconds in due if seconds > 0)]))

    def _waiting(self) -> list[ExecutionSummary]:
        """Executions that somebody must take up, the oldest first."""
        with self._guard:
            told = set(self._told)  # before the ledger is asked: what is told meanwhile it may not have seen
        unfinished = self._here.ledger.unfinished(limit=None)
        known = {one.execution.execution_id for one in unfinished}
        with self._guard:
            self._told -= told - known
        for execution_id in self._starts.keys() - known:
            del self._starts[execution_id]
        return [
            one.execution
            for one in unfinished
            if not one.attended and (one.execution.announced or one.execution.execution_id in told)
        ]

    # --- Prefect's workers --------------------------------------------------------------------------------------------

    def _deploy(self, waiting: Sequence[ExecutionSummary]) -> None:
        """Afterwards each of them has a run that has not ended, but for those whose last one just led to nothing.

        A run that is not there any more, because Prefect's database was lost, is started anew like one that crashed.
        """
        settings = self._here.settings
        shown = run_states(settings, [one.flow_run_id for one in waiting if one.flow_run_id is not None])
        for execution in waiting:
            state = shown.get(execution.flow_run_id or "")
            going = state is not None and not state.ended
            if going or self._closing.is_set() or not self._may_start(execution):
                continue
            try:
                if state is not None and state.cancelled:  # by a person in Prefect's UI, before a worker took it
                    cancel(self._here, execution.execution_id)
                elif not self._here.ledger.get(execution.execution_id).ended:
                    self._noted_start(execution)
                    run_deployed(self._here, execution.execution_id)
            except RuntimeFault as fault:
                has_deployments(settings)  # raises where the server is away, which is nobody's fault in particular
                _LOG.warning("%s waits: %s %s", execution.label, fault.message, fault.hint)

    # --- processes of this machine ------------------------------------------------------------------------------------

    def _carry_out(self, waiting: Sequence[ExecutionSummary]) -> float:
        """Afterwards as many of them are carried out as there are places; how long until it is worth looking again."""
        for execution in waiting:
            if self._closing.is_set():
                break
            if not self._may_start(execution):
                continue
            try:
                place = take_place(self._here.settings)
                if place is None:
                    return _NO_PLACE_SECONDS
                try:
                    if start_carrier(self._here.settings, execution.execution_id, place=place, ended=self._rung.set):
                        self._noted_start(execution)
                finally:
                    os.close(place)
            except OSError as error:
                self._noted_start(execution)
                _LOG.warning("%s waits: this machine cannot start a process now: %s", execution.label, error)
        return DISPATCH_SWEEP_SECONDS

    def _noted_start(self, execution: ExecutionSummary) -> None:
        self._starts.setdefault(execution.execution_id, _Starts()).note()

    def _may_start(self, execution: ExecutionSummary) -> bool:
        starts = self._starts.get(execution.execution_id)
        if starts is not None:
            return time.monotonic() >= starts.not_before
        if execution.execution_id in self._told:
            return True
        # Whoever accepted it a moment ago may be about to carry it out.
        age = (datetime.now(UTC) - execution.created_at).total_seconds()
        return not 0 <= age < DISPATCH_UNTOLD_SECONDS


def detach(here: Installation, execution_id: str) -> Execution:
    """Afterwards another process takes the execution to its end, whatever becomes of this one.

    On a Prefect server with our deployments it is their worker, else a process of its own on this machine.

    Raises:
        OrchestratorUnavailableError: a Prefect server is configured and does not answer.
    """
    if has_deployments(here.settings):
        run_deployed(here, execution_id)
    else:
        start_carrier(here.settings, execution_id)
    return here.ledger.get(execution_id)
