"""Stage 6: the package trains. Everything before and after it exists so that this is paid for once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from runtime.execution.launch import ProcessLimits
from runtime.execution.process import train as train_package
from tasks.live import LiveView, announce_training
from tasks.stage import stage

if TYPE_CHECKING:
    from runtime.execution.record import TrainingEnd
    from tasks.materialize_inputs import Inputs
    from tasks.run import Run


@stage()
def train(run: Run, inputs: Inputs) -> TrainingEnd:
    """What the package returned, and how its process ended. In the UI: phases, live metrics, curve, log tail.

    Runs inline in the main thread: a cancellation arrives here as an exception, and the whole process tree ends.

    Retry: never here. The parent's waiting stage decides whether lost infrastructure is worth another attempt.

    Raises:
        RuntimeFault: it did not finish; `context["process"]` is the process's record.
    """
    request = inputs.launch.request
    limits = ProcessLimits.of(run.installation.settings, request.resources)
    view = announce_training(run, request.resources)
    try:
        return train_package(inputs.launch, limits, LiveView(run.journal.listener(), view), run.host.cancelled)
    finally:
        view.close()
