"""Running a package's training in a process that is not trusted."""

from __future__ import annotations

from typing import TYPE_CHECKING

from runtime.execution.launch import InputEvidence, Launch, ProcessLimits, TrainingListener
from runtime.execution.record import ProcessRecord, TrainingEnd

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["InputEvidence", "Launch", "ProcessLimits", "ProcessRecord", "TrainingEnd", "TrainingListener", "train"]


def train(
    launch: Launch, limits: ProcessLimits, listener: TrainingListener, cancelled: Callable[[], bool]
) -> TrainingEnd:
    """Afterwards training has finished and no process of it is left; a workspace where it had finished is not run again.

    Call it from the main thread, inline. Whatever ends the caller, also SIGKILL, ends the whole tree.

    Args:
        launch: what runs, and where.
        limits: what ends it.
        listener: is told what it says.
        cancelled: asked about once a second; true ends the training.

    Raises:
        RuntimeFault: the training did not finish; `context["process"]` is the `ProcessRecord` as a document.
    """
    raise NotImplementedError
