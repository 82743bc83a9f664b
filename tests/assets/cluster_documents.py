"""What a Kubernetes API says of a Job, its pod, its node and its events: one of each, and the ways in which they end."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from runtime.cluster.evidence import Evidence

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

ASKED_AT = datetime(2026, 12, 1, 9, 0, tzinfo=UTC)
GIB = 1024**3


def at(seconds: float) -> str:
    """As the API writes a time so long after a Job was asked for."""
    return (ASKED_AT + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")


def condition(kind: str, status: str, reason: str = "", message: str = "", seconds: float = 1) -> dict[str, Any]:
    """A condition since so many seconds after the Job was asked for."""
    return {
        "type": kind,
        "status": status,
        "reason": reason,
        "message": message,
        "lastTransitionTime": at(seconds),
    }


SCHEDULED = condition("PodScheduled", "True")


def job(*conditions: dict[str, Any], deleted: bool = False) -> dict[str, Any]:
    """A Job that was made at once."""
    return {
        "metadata": {
            "name": "digits-1",
            "creationTimestamp": at(0),
            **({"deletionTimestamp": at(50)} if deleted else {}),
        },
        "status": {"conditions": list(conditions)},
    }


def pod(
    *conditions: dict[str, Any],
    phase: str = "Running",
    state: Mapping[str, Any] | None = None,
    deleted: bool = False,
    **status: Any,
) -> dict[str, Any]:
    """Its pod; `state` is that of the training's container, running by default."""
    return {
        "metadata": {
            "name": "digits-1-abcde",
            "creationTimestamp": at(1),
            **({"deletionTimestamp": at(50)} if deleted else {}),
        },
        "spec": {
            "nodeName": "gpu-7",
            "containers": [
                {"name": "prefect-job", "image": "registry/mtr:1", "resources": {"limits": {"memory": "16Gi"}}}
            ],
        },
        "status": {
            "phase": phase,
            "conditions": list(conditions) or [SCHEDULED],
            "containerStatuses": [{"name": "prefect-job", "state": state or {"running": {"startedAt": at(2)}}}],
            **status,
        },
    }


def ended(exit_code: int, reason: str = "Error", **more: Any) -> dict[str, Any]:
    """The state of a container that has ended."""
    return {"terminated": {"exitCode": exit_code, "reason": reason, "finishedAt": at(40), **more}}


def waiting(reason: str, message: str = "") -> dict[str, Any]:
    """The state of a container that has not begun."""
    return {"waiting": {"reason": reason, "message": message}}


def refused(message: str) -> dict[str, Any]:
    """The event that says why a Job makes no pod."""
    return {
        "metadata": {"creationTimestamp": at(1)},
        "involvedObject": {"kind": "Job", "name": "digits-1"},
        "reason": "FailedCreate",
        "message": message,
        "lastTimestamp": at(2),
    }


def node(ready: str) -> dict[str, Any]:
    """The pod's node."""
    return {
        "metadata": {"name": "gpu-7"},
        "status": {"conditions": [condition("Ready", ready, "NodeStatusUnknown", "Kubelet stopped posting")]},
    }


def seen(
    job_document: Mapping[str, Any] | None,
    *pods: Mapping[str, Any],
    events: Sequence[Mapping[str, Any]] = (),
    node_document: Mapping[str, Any] | None = None,
    seconds: float = 60,
) -> Evidence:
    """All of it, as it is seen so long after the Job was asked for."""
    return Evidence.of(
        asked_at=ASKED_AT,
        seen_at=ASKED_AT + timedelta(seconds=seconds),
        job=job_document,
        pods=pods,
        events=events,
        node=node_document,
    )
