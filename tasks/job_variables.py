"""What one attempt asks of a Kubernetes pool, as the variables of `deployments/kubernetes/job-template.yaml`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from contracts.limits import POD_OVERHEAD_BYTES
from runtime.cluster.cluster import GPU_RESOURCE
from runtime.pod.init import ATTEMPT_NAME, EXECUTION_NAME

if TYPE_CHECKING:
    from contracts.submission import Resources
    from runtime.settings import Settings

EXECUTION_LABEL: Final = "training-runtime/execution-id"
ATTEMPT_LABEL: Final = "training-runtime/attempt"
_HOME: Final = "/var/lib/mtr"
"""As the image has it, and where the job template mounts what can be written."""


def job_variables(
    execution_id: str, attempt: int, resources: Resources, settings: Settings, *, memory_bytes: int | None = None
) -> dict[str, Any]:
    """The variables of one attempt's Job.

    Requests are the limits: a training that may be squeezed is one that may be evicted. No secret is among them: Prefect
    shows variables to everybody, and the Job shows its environment.

    Args:
        execution_id: whose attempt.
        attempt: its number, from 1.
        resources: of the submission.
        settings: name the namespace and the image.
        memory_bytes: for the package where it is to have other than what was submitted.
    """
    memory = (memory_bytes or resources.memory_bytes) + POD_OVERHEAD_BYTES
    limits = {"cpu": f"{resources.cpu_cores:g}", "memory": str(memory)}
    if resources.gpu_count:
        limits[GPU_RESOURCE] = str(resources.gpu_count)
    return {
        "namespace": settings.cluster_namespace,
        "image": settings.cluster_image,
        "labels": {EXECUTION_LABEL: execution_id, ATTEMPT_LABEL: str(attempt)},
        "env": {
            EXECUTION_NAME: execution_id,
            ATTEMPT_NAME: str(attempt),
            "MTR_HOME": _HOME,
            "PREFECT_HOME": f"{_HOME}/prefect",
            # Prefect's own answer to an evicted pod is to run it again as another Job; retries have one owner, us.
            "PREFECT_FLOW_RUN_EXECUTE_SIGTERM_BEHAVIOR": "",
        },
        "resources": {"limits": limits, "requests": limits},
    }
