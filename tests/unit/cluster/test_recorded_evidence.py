"""What a real cluster showed (Kubernetes 1.34, one node), recorded from its API, has its cause.

Recorded with a Job each, `backoffLimit: 0`, whose container did what the file's name says; fields that nothing reads are left out.
"""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from runtime.cluster.diagnosis import Graces, diagnose, waits_for
from runtime.cluster.evidence import Evidence

RECORDED = Path(__file__).parents[2] / "assets" / "cluster_evidence"
GRACES = Graces(pending_seconds=600, start_seconds=120)
CAUSES = {
    "oom": "out_of_memory",
    "oom-child": "out_of_memory",  # the pod succeeded, the Job is complete, the exit status is 0
    "deleted": "pod_deleted",
    "deleted-and-gone": "pod_deleted",
    "evicted": "pod_evicted",
    "evicted-and-gone": "pod_deleted",  # by whom and what for stood on the pod
    "deadline": "timeout",
    "status-one": "attempt_lost",
    "in-order": "attempt_lost",
    "killed": "attempt_lost",  # it killed itself as the first process, which Linux does not do
    "running": None,
    "no-image": None,
    "no-room": None,
    "no-secret": None,
    "quota": None,
}
AFTER_ITS_GRACE = {
    "no-image": "image_pull",
    "no-room": "unschedulable",
    "no-secret": "cluster_refused",
    "quota": "quota_exceeded",
    "running": None,
}
WAITS = {
    "no-image": "its container: ImagePullBackOff: ",
    "no-room": "a node: 0/1 nodes are available: 1 Insufficient nvidia.com/gpu.",
    "no-secret": 'its container: CreateContainerConfigError: secret "store" not found',
    "quota": "Error creating: pods ",
}


def recorded(name: str, *, later_seconds: float = 0) -> Evidence:
    document = json.loads((RECORDED / f"{name}.json").read_text())
    asked_at = datetime.fromisoformat(document["job"]["metadata"]["creationTimestamp"])
    return Evidence.of(
        asked_at=asked_at,
        seen_at=datetime.fromisoformat(document["seen_at"]) + timedelta(seconds=later_seconds),
        job=document["job"],
        pods=document["pods"],
        events=document["events"],
        node=document["node"],
    )


def code_of(evidence: Evidence) -> str | None:
    fault = diagnose(evidence, GRACES)
    return None if fault is None else fault.code


def test_every_recording_is_looked_at() -> None:
    assert {file.stem for file in RECORDED.glob("*.json")} == set(CAUSES)


@pytest.mark.parametrize(("name", "code"), CAUSES.items())
def test_what_a_cluster_showed_has_its_cause(name: str, code: str | None) -> None:
    assert code_of(recorded(name)) == code


@pytest.mark.parametrize(("name", "code"), AFTER_ITS_GRACE.items())
def test_what_does_not_pass_is_a_cause_after_its_grace(name: str, code: str | None) -> None:
    assert code_of(recorded(name, later_seconds=1_000)) == code


@pytest.mark.parametrize(("name", "line"), WAITS.items())
def test_people_are_told_what_it_waits_for(name: str, line: str) -> None:
    assert (waits_for(recorded(name)) or "").startswith(line)
