"""What was seen on a cluster becomes one typed cause, whatever the API itself makes of it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.cluster.diagnosis import Graces, diagnose, waits_for
from tests.assets.cluster_documents import (
    ASKED_AT,
    GIB,
    SCHEDULED,
    condition,
    ended,
    job,
    node,
    pod,
    refused,
    seen,
    waiting,
)

if TYPE_CHECKING:
    from contracts.errors import RuntimeFault
    from runtime.cluster.evidence import Evidence

GRACES = Graces(pending_seconds=600, start_seconds=120)
COMPLETE = condition("Complete", "True")
FAILED = condition("Failed", "True", "BackoffLimitExceeded")
OVERDUE = condition("Failed", "True", "DeadlineExceeded")
NO_ROOM = condition("PodScheduled", "False", "Unschedulable", "0/4 nodes are available: 4 Insufficient nvidia.com/gpu.")
QUOTA = 'pods "digits-1-abcde" is forbidden: exceeded quota: gpus, requested: 1, used: 8, limited: 8'
WEBHOOK = 'admission webhook "policy.example" denied the request: images must come from registry'
PULL = waiting("ImagePullBackOff", 'Back-off pulling image "registry/mtr:1"')


def disrupted(reason: str, message: str = "") -> dict[str, Any]:
    return condition("DisruptionTarget", "True", reason, message)


CAUSES = {
    "the engine was killed for memory, and the pod succeeded": (
        seen(job(COMPLETE), pod(phase="Succeeded", state=ended(0, "OOMKilled"))),
        "out_of_memory",
    ),
    "the first process was killed for memory": (
        seen(job(FAILED), pod(phase="Failed", state=ended(137, "OOMKilled"))),
        "out_of_memory",
    ),
    "memory, in a pod that is being deleted": (
        seen(job(), pod(phase="Failed", state=ended(137, "OOMKilled"), deleted=True)),
        "out_of_memory",
    ),
    "deleted, and it trains on": (seen(job(), pod(deleted=True)), "pod_deleted"),
    "deleted, and ended when asked to": (
        seen(job(FAILED), pod(phase="Failed", state=ended(143), deleted=True)),
        "pod_deleted",
    ),
    "the Job is being deleted": (seen(job(deleted=True), pod()), "pod_deleted"),
    "no Job and no pod any more": (seen(None, seconds=90), "pod_deleted"),
    "evicted by the API": (
        seen(job(), pod(SCHEDULED, disrupted("EvictionByEvictionAPI"), deleted=True)),
        "pod_evicted",
    ),
    "evicted by its node": (
        seen(job(FAILED), pod(phase="Failed", reason="Evicted", message="The node was low on resource: memory.")),
        "pod_evicted",
    ),
    "evicted for a reason of a later Kubernetes": (
        seen(job(), pod(SCHEDULED, disrupted("Something"), deleted=True)),
        "pod_evicted",
    ),
    "preempted": (seen(job(), pod(SCHEDULED, disrupted("PreemptionByScheduler"), deleted=True)), "pod_preempted"),
    "its node was given up": (
        seen(job(), pod(SCHEDULED, disrupted("DeletionByTaintManager"), deleted=True), node_document=node("Unknown")),
        "node_lost",
    ),
    "a taint on a node that is well": (
        seen(job(), pod(SCHEDULED, disrupted("DeletionByTaintManager"), deleted=True), node_document=node("True")),
        "pod_evicted",
    ),
    "deleted on a node that is not heard of": (
        seen(job(), pod(deleted=True), node_document=node("Unknown")),
        "node_lost",
    ),
    "the Job's deadline": (seen(job(OVERDUE), pod(phase="Failed", state=ended(143))), "timeout"),
    "killed, and nobody says why": (seen(job(FAILED), pod(phase="Failed", state=ended(137))), "killed"),
    "ended in order, and left no record": (
        seen(job(COMPLETE), pod(phase="Succeeded", state=ended(0, "Completed"))),
        "attempt_lost",
    ),
    "ended with a status, and left no record": (
        seen(job(FAILED), pod(phase="Failed", state=ended(1))),
        "attempt_lost",
    ),
    "the Job has ended, and its pod is gone": (seen(job(FAILED)), "attempt_lost"),
    "no image, after its grace": (seen(job(), pod(phase="Pending", state=PULL), seconds=200), "image_pull"),
    "a secret is missing, after its grace": (
        seen(
            job(),
            pod(phase="Pending", state=waiting("CreateContainerConfigError", 'secret "store" not found')),
            seconds=200,
        ),
        "cluster_refused",
    ),
    "no room, after its grace": (seen(job(), pod(NO_ROOM, phase="Pending"), seconds=700), "unschedulable"),
    "quota, after its grace": (seen(job(), events=[refused(QUOTA)], seconds=200), "quota_exceeded"),
    "an admission rule, after its grace": (seen(job(), events=[refused(WEBHOOK)], seconds=200), "cluster_refused"),
}


@pytest.mark.parametrize(("evidence", "code"), CAUSES.values(), ids=CAUSES)
def test_what_was_seen_has_its_cause(evidence: Evidence, code: str) -> None:
    fault = diagnose(evidence, GRACES)
    assert fault is not None
    assert fault.code == code


PATIENCE = {
    "it runs": seen(job(), pod()),
    "the Job is about to be made": seen(None, seconds=20),
    "its pod is about to be made": seen(job()),
    "no image yet": seen(job(), pod(phase="Pending", state=PULL), seconds=100),
    "an image that takes long to come": seen(
        job(), pod(phase="Pending", state=waiting("ContainerCreating")), seconds=3_000
    ),
    "an image, long after a long wait for a node": seen(
        job(), pod(condition("PodScheduled", "True", seconds=1_000), phase="Pending", state=PULL), seconds=1_060
    ),
    "no room yet": seen(job(), pod(NO_ROOM, phase="Pending"), seconds=500),
    "over quota, still": seen(job(), events=[refused(QUOTA)], seconds=100),
    "its node is not heard of, and nobody has given it up": seen(
        job(), pod(), node_document=node("Unknown"), seconds=90
    ),
    "a refusal that passed": seen(job(), pod(), events=[refused(QUOTA)], seconds=3_000),
}


@pytest.mark.parametrize("evidence", PATIENCE.values(), ids=PATIENCE)
def test_what_may_pass_is_waited_for(evidence: Evidence) -> None:
    assert diagnose(evidence, GRACES) is None


@pytest.mark.parametrize(
    ("evidence", "line"),
    [
        (seen(None), "a Job to be made"),
        (seen(job()), "a pod to be made"),
        (seen(job(), events=[refused(QUOTA)]), QUOTA),
        (
            seen(job(), pod(NO_ROOM, phase="Pending")),
            "a node: 0/4 nodes are available: 4 Insufficient nvidia.com/gpu.",
        ),
        (
            seen(job(), pod(phase="Pending", state=PULL)),
            'its container: ImagePullBackOff: Back-off pulling image "registry/mtr:1"',
        ),
        (seen(job(), pod(phase="Pending", state=waiting("ContainerCreating"))), "its container: ContainerCreating"),
        (seen(job(), pod()), None),
        (seen(job(COMPLETE), pod(phase="Succeeded", state=ended(0))), None),
        (seen(job(), pod(NO_ROOM, phase="Pending", deleted=True)), None),
    ],
)
def test_people_are_told_what_it_waits_for(evidence: Evidence, line: str | None) -> None:
    assert waits_for(evidence) == line


def test_the_evidence_is_shown_with_the_cause() -> None:
    fault = diagnose(seen(job(FAILED), pod(phase="Failed", state=ended(137, "OOMKilled"))), GRACES)
    assert fault is not None
    shown = dict(fault.context)
    assert shown.pop("evidence")["pods"][0]["name"] == "digits-1-abcde"
    assert shown == {
        "job": "digits-1",
        "pod": "digits-1-abcde",
        "phase": "Failed",
        "node": "gpu-7",
        "exit_code": 137,
        "reason": "OOMKilled",
        "memory_limit_bytes": 16 * GIB,
    }
    assert fault.message == "the kernel ended a process of digits-1-abcde for memory: its limit of 16.0 GiB was reached"


def test_the_newest_pod_is_looked_at_first() -> None:
    older = pod(phase="Failed", state=ended(1))
    newer = pod(phase="Failed", state=ended(137))
    newer["metadata"] = {"name": "digits-1-zzzzz", "creationTimestamp": "2026-12-01T09:05:00Z"}
    fault = diagnose(seen(job(FAILED), newer, older), GRACES)
    assert fault is not None
    assert (fault.code, fault.context["pod"]) == ("killed", "digits-1-zzzzz")


TEXTS = st.sampled_from(
    ["", "True", "False", "Unknown", "OOMKilled", "Evicted", "ImagePullBackOff", "odd \n text", "x" * 999]
)
TIMES = st.sampled_from([None, "2026-12-01T09:00:10Z", "no time", ""])
CONDITIONS = st.lists(
    st.fixed_dictionaries(
        {},
        optional={
            "type": st.sampled_from(["PodScheduled", "DisruptionTarget", "Failed", "Complete", "Ready"]),
            "status": TEXTS,
            "reason": TEXTS,
            "message": TEXTS,
            "lastTransitionTime": TIMES,
        },
    ),
    max_size=3,
)
STATES = st.one_of(
    st.just({}),
    st.just({"running": {}}),
    st.fixed_dictionaries({"waiting": st.fixed_dictionaries({}, optional={"reason": TEXTS, "message": TEXTS})}),
    st.fixed_dictionaries(
        {
            "terminated": st.fixed_dictionaries(
                {}, optional={"exitCode": st.integers(0, 255), "signal": st.integers(0, 31), "reason": TEXTS}
            )
        }
    ),
)
METAS = st.fixed_dictionaries({}, optional={"name": TEXTS, "creationTimestamp": TIMES, "deletionTimestamp": TIMES})
PODS = st.fixed_dictionaries(
    {},
    optional={
        "metadata": METAS,
        "spec": st.fixed_dictionaries(
            {}, optional={"nodeName": TEXTS, "containers": st.just([{"name": "prefect-job"}, {}])}
        ),
        "status": st.fixed_dictionaries(
            {},
            optional={
                "phase": st.sampled_from(["Pending", "Running", "Succeeded", "Failed", "Unknown"]),
                "reason": TEXTS,
                "conditions": CONDITIONS,
                "containerStatuses": st.lists(
                    st.builds(lambda state: {"name": "prefect-job", "state": state}, STATES), max_size=2
                ),
            },
        ),
    },
)
JOBS = st.one_of(
    st.none(),
    st.fixed_dictionaries(
        {}, optional={"metadata": METAS, "status": st.builds(lambda some: {"conditions": some}, CONDITIONS)}
    ),
)
EVENTS = st.fixed_dictionaries(
    {},
    optional={
        "metadata": METAS,
        "involvedObject": st.just({"kind": "Job", "name": "x"}),
        "reason": st.sampled_from(["FailedCreate", "Pulled"]),
        "message": TEXTS,
        "lastTimestamp": TIMES,
    },
)
MACHINE = {
    "out_of_memory", "pod_preempted", "pod_evicted", "node_lost", "timeout", "pod_deleted", "killed", "attempt_lost",
    "image_pull", "cluster_refused", "unschedulable", "quota_exceeded",
}  # fmt: skip


@given(JOBS, st.lists(PODS, max_size=2), st.lists(EVENTS, max_size=2), st.sampled_from([0, 100, 10_000]))
def test_whatever_an_api_says_is_a_cause_of_the_machine_or_none(job_document, pods, events, seconds) -> None:
    evidence = seen(job_document, *pods, events=events, seconds=seconds)

    def said() -> dict[str, object] | None:
        fault: RuntimeFault | None = diagnose(evidence, GRACES)
        assert fault is None or fault.code in MACHINE
        return None if fault is None else fault.to_document()

    first = said()
    assert json.loads(json.dumps(first)) == first
    assert said() == first
    assert len(waits_for(evidence) or "") < 400
    assert evidence.asked_at == ASKED_AT
