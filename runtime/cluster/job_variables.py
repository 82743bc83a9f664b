"""What one attempt asks of a Kubernetes pool, as the variables of `deployments/kubernetes/job-template.yaml`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from contracts.limits import POD_OVERHEAD_BYTES
from runtime.cluster.cluster import GPU_RESOURCE
from runtime.cluster.requirements import require_cluster_settings
from runtime.pod.init import ATTEMPT_NAME, EXECUTION_NAME

if TYPE_CHECKING:
    from contracts.submission import Resources
    from runtime.settings import Settings

EXECUTION_LABEL: Final = "training-runtime/execution-id"
ATTEMPT_LABEL: Final = "training-runtime/attempt"
_HOME: Final = "/var/lib/mtr"
"""As the image has it, and where the job template mounts what can be written."""
_TOLD: Final = (
    "store", "s3_endpoint", "s3_region", "s3_default_bucket", "s3_datasets_bucket", "s3_models_bucket",
    "s3_annotations_bucket", "execution_enabled", "runtime_ids", "allow_script_managed_data", "idle_timeout_seconds",
    "max_output_bytes", "max_processes", "process_fsize_bytes", "process_nofile", "max_workspace_bytes",
    "terminate_grace_seconds", "fail_on_left_processes", "isolation", "cache_max_bytes",
)  # fmt: skip
"""The settings that hold in the pod as they do here; its secrets it gets from the pool's `env_from`."""


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
        settings: name the namespace and the image, and hold in the pod too, the platform's decisions included.
        memory_bytes: for the package where it is to have other than what was submitted.

    Raises:
        InvalidSettingsError: something that the pool needs is not set.
    """
    require_cluster_settings(settings)
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
            **settings.shared_environment(_TOLD),
            "MTR_HOME": _HOME,
            "MTR_USE_NACOS": "false",
            "PREFECT_HOME": f"{_HOME}/prefect",
            # Prefect's own answer to an evicted pod is to run it again as another Job; retries have one owner, us.
            "PREFECT_FLOW_RUN_EXECUTE_SIGTERM_BEHAVIOR": "",
        },
        "resources": {"limits": limits, "requests": limits},
    }
