"""The only place among the services that knows Prefect: runs executions, brings up servers and workers, applies deployments.

Nothing here imports Prefect before `prepare_environment` has said where its files lie and that it must not phone home.
"""

from services.orchestrator.application import Difference, apply
from services.orchestrator.dispatcher import Dispatcher, detach
from services.orchestrator.environment import prepare_environment
from services.orchestrator.runs import cancel, check, has_deployments, run_deployed, run_embedded
from services.orchestrator.sources import open_source
from services.orchestrator.stack import Stack

__all__ = [
    "Difference",
    "Dispatcher",
    "Stack",
    "apply",
    "cancel",
    "check",
    "detach",
    "has_deployments",
    "open_source",
    "prepare_environment",
    "run_deployed",
    "run_embedded",
]
