"""The first process of a pod, in pods of the product's image on the cluster of KUBECONFIG.

The image is `MTR_TEST_IMAGE`, by default what `make image` names; the cluster has it already, or can pull it.
"""

from __future__ import annotations

import json
import os
import time
import uuid
from typing import TYPE_CHECKING, Any

import pytest
from kubernetes import client, config

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(600)]

IMAGE = os.environ.get("MTR_TEST_IMAGE", "localhost/mtr:latest")
END_SECONDS = 180
GRACE_SECONDS = 20
HOG = "held = []\nwhile True: held.append(b'x' * (8 << 20))"


@pytest.fixture(scope="module")
def namespace() -> Iterator[str]:
    config.load_kube_config()
    core, name = client.CoreV1Api(), f"mtr-test-{uuid.uuid4().hex[:8]}"
    core.create_namespace({"metadata": {"name": name}})
    yield name
    core.delete_namespace(name)


def start(namespace: str, *command: str, grace_seconds: int = GRACE_SECONDS) -> str:
    """The name of a new pod whose first process runs `command`, as little allowed as a training is."""
    name = f"init-{uuid.uuid4().hex[:8]}"
    container = {
        "name": "prefect-job",
        "image": IMAGE,
        "imagePullPolicy": "IfNotPresent",
        "command": ["python", "-m", "runtime.pod.init", "--grace-seconds", str(grace_seconds), "--", *command],
        "resources": {"limits": {"cpu": "1", "memory": "128Mi"}},
        "securityContext": {
            "runAsNonRoot": True,
            "readOnlyRootFilesystem": True,
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "volumeMounts": [{"name": "scratch", "mountPath": "/tmp"}],
    }
    spec = {
        "restartPolicy": "Never",
        "automountServiceAccountToken": False,
        "terminationGracePeriodSeconds": 60,
        "containers": [container],
        "volumes": [{"name": "scratch", "emptyDir": {}}],
    }
    client.CoreV1Api().create_namespaced_pod(namespace, {"metadata": {"name": name}, "spec": spec})
    return name


def read(namespace: str, name: str) -> client.V1Pod:
    return client.CoreV1Api().read_namespaced_pod(name, namespace)


def await_end(namespace: str, name: str) -> client.V1ContainerStateTerminated:
    deadline = time.monotonic() + END_SECONDS
    while True:
        pod = read(namespace, name)
        (status,) = pod.status.container_statuses or [None]
        if status is not None and status.state.terminated is not None:
            return status.state.terminated
        assert time.monotonic() < deadline, pod.status
        time.sleep(0.2)


def await_line(namespace: str, name: str, line: str) -> None:
    """Returns once the pod has printed `line`."""
    deadline = time.monotonic() + END_SECONDS
    while True:
        try:
            printed = client.CoreV1Api().read_namespaced_pod_log(name, namespace)
        except client.ApiException:  # its container is not there yet
            printed = ""
        if line in printed.splitlines():
            return
        assert time.monotonic() < deadline, printed
        time.sleep(0.2)


def record(ended: client.V1ContainerStateTerminated) -> dict[str, Any]:
    return json.loads(ended.message)


def test_a_child_that_is_killed_for_memory_is_recorded_however_the_command_ends(namespace: str) -> None:
    """The stock worker's pod ends here with status 0, `Succeeded`."""
    name = start(namespace, "sh", "-c", f'python -c "{HOG}"; echo went on; exit 1')

    ended = await_end(namespace, name)

    said = record(ended)
    assert (ended.exit_code, said["oom_kills"], said["memory_limit_bytes"]) == (137, 1, 128 << 20)
    assert said["memory_peak_bytes"] > 100 << 20
    assert said["pod"] == name


def test_a_deleted_pod_writes_its_checkpoint(namespace: str) -> None:
    """As process 1 a program without a handler would not even see the signal."""
    script = "trap 'echo saved; exit 5' TERM; echo ready; while :; do sleep 0.1; done"
    name = start(namespace, "sh", "-c", script)
    core = client.CoreV1Api()
    core.patch_namespaced_pod(name, namespace, {"metadata": {"finalizers": ["tests.example/kept"]}})
    try:
        await_line(namespace, name, "ready")
        core.delete_namespaced_pod(name, namespace)
        ended = await_end(namespace, name)
        assert "saved" in core.read_namespaced_pod_log(name, namespace).splitlines()
    finally:
        core.patch_namespaced_pod(name, namespace, {"metadata": {"finalizers": None}})

    said = record(ended)
    assert (ended.exit_code, said["asked_to_end_by"], said["killed_after_grace"]) == (5, "SIGTERM", False)


def test_a_grandchild_in_a_session_of_its_own_does_not_keep_the_pod(namespace: str) -> None:
    """With the stock worker's first process it keeps the pod, and its GPU, until it ends by itself."""
    left = (
        "setsid sh -c 'trap \"\" TERM HUP INT; echo $$ > /tmp/left; sleep 600' & while [ ! -s /tmp/left ]; do :; done"
    )
    name = start(namespace, "sh", "-c", left)

    ended = await_end(namespace, name)

    assert ended.exit_code == 0
    assert {one["name"] for one in record(ended)["ended_survivors"]} == {"sh", "sleep"}
    assert record(ended)["left"] == []
