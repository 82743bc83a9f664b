"""The cluster of KUBECONFIG, whichever it is: nothing here needs an image or a GPU."""

import time
import uuid
from datetime import UTC, datetime

import pytest
from kubernetes import client, config

from runtime.cluster.cluster import FLOW_RUN_LABEL, Cluster
from runtime.cluster.diagnosis import Graces, diagnose
from runtime.settings import Settings

pytestmark = pytest.mark.cluster

AT_ONCE = Graces(pending_seconds=0, start_seconds=0)


@pytest.fixture
def namespace():
    config.load_kube_config()
    core, name = client.CoreV1Api(), f"mtr-test-{uuid.uuid4().hex[:8]}"
    core.create_namespace({"metadata": {"name": name}})
    yield name
    core.delete_namespace(name)


@pytest.fixture
def cluster(namespace, tmp_path):
    opened = Cluster.open(Settings(home=tmp_path, cluster_namespace=namespace))
    yield opened
    opened.close()


def begin(namespace):
    """A Job whose image is nowhere; afterwards its flow run's id."""
    run = str(uuid.uuid4())
    labels = {FLOW_RUN_LABEL: run}
    container = {
        "name": "prefect-job",
        "image": "localhost/nothing:1",
        "resources": {"limits": {"cpu": "10m", "memory": "16Mi"}},
    }
    template = {"metadata": {"labels": labels}, "spec": {"restartPolicy": "Never", "containers": [container]}}
    client.BatchV1Api().create_namespaced_job(
        namespace,
        {"metadata": {"name": f"run-{run[:8]}", "labels": labels}, "spec": {"backoffLimit": 0, "template": template}},
    )
    return run


def cause(cluster, run, asked_at):
    """The first cause that is seen within a minute."""
    for _ in range(120):
        fault = diagnose(cluster.observe(run, asked_at=asked_at), AT_ONCE)
        if fault is not None and fault.code != "unschedulable":  # with no grace, before its scheduling
            return fault
        time.sleep(0.5)
    pytest.fail("nothing was seen")


def test_an_image_that_is_nowhere_is_named_and_its_job_is_removed(cluster, namespace):
    asked_at = datetime.now(UTC)
    run = begin(namespace)

    fault = cause(cluster, run, asked_at)

    assert fault.code == "image_pull"
    assert "localhost/nothing:1" in fault.message
    assert cluster.remove(run, grace_seconds=1, within_seconds=60) == ()
    gone = cluster.observe(run, asked_at=asked_at)
    assert (gone.job, gone.pods) == (None, ())


def test_a_quota_that_lets_no_pod_be_made_is_named(cluster, namespace):
    core = client.CoreV1Api()
    core.create_namespaced_resource_quota(namespace, {"metadata": {"name": "none"}, "spec": {"hard": {"pods": "0"}}})
    for _ in range(60):  # until the controller counts
        if core.read_namespaced_resource_quota("none", namespace).status.hard:
            break
        time.sleep(0.5)
    asked_at = datetime.now(UTC)
    run = begin(namespace)

    assert cause(cluster, run, asked_at).code == "quota_exceeded"
    assert cluster.remove(run, grace_seconds=1, within_seconds=60) == ()


def test_capacity_can_be_asked(cluster):
    found = cluster.capacity()

    assert 0 <= found.largest_node_gpus <= found.gpus
