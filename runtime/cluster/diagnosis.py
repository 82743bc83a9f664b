"""Why an attempt on a cluster ended or does not begin: a pure function from what was seen to one typed cause.

The API's own verdicts do not suffice: a container whose training was killed for memory may end with status 0 in a pod that
`Succeeded` and a Job that is `Complete`. So causes are looked for in the order of what they can be mistaken for:

1. memory, wherever somebody says so: it hides behind every other end;
2. disruptions, whose victim ends like a program that was asked to: preemption, eviction, a lost node, a deadline;
3. a deletion by somebody;
4. the container's own end;
5. what keeps a pod from beginning, each after its grace: image, refusal, quota, no room;
6. absence.

An attempt that left an end record needs no diagnosis: what a package did stands there. So nothing here blames a package.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any, Final, Protocol

from contracts.errors import (
    AttemptLostError,
    ClusterRefusedError,
    ImagePullError,
    KilledError,
    NodeLostError,
    OutOfMemoryError,
    PodDeletedError,
    PodEvictedError,
    PodPreemptedError,
    QuotaExceededError,
    RuntimeFault,
    TimeoutReachedError,
    UnschedulableError,
)
from contracts.limits import CLUSTER_JOB_SECONDS
from runtime.sizes import readable_size

if TYPE_CHECKING:
    from collections.abc import Iterator

    from runtime.cluster.evidence import ContainerSeen, EventSeen, Evidence, PodSeen

_IMAGE_WAITS: Final = frozenset(
    {
        "ErrImagePull",
        "ImagePullBackOff",
        "InvalidImageName",
        "ErrImageNeverPull",
        "ImageInspectError",
        "RegistryUnavailable",
    }
)
_REFUSED_WAITS: Final = frozenset({"CreateContainerConfigError", "CreateContainerError", "RunContainerError"})
_MORE_MEMORY: Final = "Ask for more memory (--memory), or let the training use less: smaller batches, fewer loaders."
_BY_SIGNAL: Final = {128 + 9: 9, 128 + 15: 15}
_DISRUPTIONS: Final[dict[str, type[RuntimeFault]]] = {
    "PreemptionByScheduler": PodPreemptedError,
    "PreemptionByKubeScheduler": PodPreemptedError,
    "EvictionByEvictionAPI": PodEvictedError,
    "TerminationByKubelet": PodEvictedError,
    "DeletionByTaintManager": NodeLostError,
    "DeletionByPodGC": NodeLostError,
}
"""Reasons of the pod condition `DisruptionTarget`."""


@dataclass(frozen=True, slots=True)
class Graces:
    """How long what may pass by itself is waited for.

    Attributes:
        pending_seconds: for room on a node.
        start_seconds: for an image, a secret, a quota.
    """

    pending_seconds: float
    start_seconds: float


class MemoryRecord(Protocol):
    """What the first process of a pod wrote down about memory before it ended: it outlives the pod.

    Attributes:
        pod: whose record it is.
        oom_kills: how many of its processes the kernel ended for memory.
        memory_peak_bytes: the most that it had, where that is counted.
        memory_limit_bytes: the most that it might have had.
    """

    @property
    def pod(self) -> str: ...  # noqa: D102 - see the class
    @property
    def oom_kills(self) -> int: ...  # noqa: D102 - see the class
    @property
    def memory_peak_bytes(self) -> int | None: ...  # noqa: D102 - see the class
    @property
    def memory_limit_bytes(self) -> int | None: ...  # noqa: D102 - see the class


def diagnose(evidence: Evidence, graces: Graces, record: MemoryRecord | None = None) -> RuntimeFault | None:
    """The cause, with the evidence for it in `context`; `None` while nothing is wrong, or may pass within its grace.

    Args:
        evidence: what the cluster shows.
        graces: how long what may pass by itself is waited for.
        record: the pod's own, where it has written one: it is believed before the cluster.
    """
    recorded = () if record is None else _recorded_memory(evidence, record)
    return next(chain(recorded, _causes(evidence, graces)), None)


def waits_for(evidence: Evidence) -> str | None:
    """What an attempt that has not begun waits for, in one line for people; `None` for one that has, or has ended."""
    refusal = _refusal(evidence)
    if not evidence.pods:
        if refusal is not None:
            return _line(refusal.message)
        return "a pod to be made" if evidence.job is not None else "a Job to be made"
    pod = evidence.pods[-1]
    if pod.over or pod.deletion_at is not None:
        return None
    scheduled = pod.condition("PodScheduled")
    if scheduled is not None and scheduled.status == "False":
        return f"a node: {_line(scheduled.message or scheduled.reason)}"
    waiting = _waiting(pod)
    if waiting is None:
        return None
    said = f"{waiting.waiting}: {_line(waiting.message)}" if waiting.message else waiting.waiting
    return f"its container: {said}"


# --- causes, in order -------------------------------------------------------------------------------------------------


def _causes(evidence: Evidence, graces: Graces) -> Iterator[RuntimeFault]:
    pods = tuple(reversed(evidence.pods))
    for pod in pods:
        yield from _memory(evidence, pod)
    for pod in pods:
        yield from _disruption(evidence, pod)
    yield from _deadline(evidence)
    for pod in pods:
        yield from _deletion(evidence, pod)
    if evidence.job is not None and evidence.job.deletion_at is not None:
        yield _deleted(evidence, "its Job is being deleted")
    for pod in pods:
        yield from _end(evidence, pod)
    for pod in pods:
        yield from _standstill(evidence, pod, graces)
    if not pods:
        yield from _nothing_made(evidence, graces)


def _recorded_memory(evidence: Evidence, record: MemoryRecord) -> Iterator[RuntimeFault]:
    if record.oom_kills > 0:
        limit = record.memory_limit_bytes
        most = f" of {readable_size(limit)}" if limit else ""
        seen = {
            "pod": record.pod,
            "oom_kills": record.oom_kills,
            "memory_peak_bytes": record.memory_peak_bytes,
            "memory_limit_bytes": limit,
        }
        yield OutOfMemoryError(
            f"the kernel ended a process of {record.pod} for memory: its limit{most} was reached",
            hint=_MORE_MEMORY,
            context={**_shown(evidence, None, None), **seen},
        )


def _memory(evidence: Evidence, pod: PodSeen) -> Iterator[RuntimeFault]:
    for container in pod.containers:
        if container.reason == "OOMKilled":
            limit = container.memory_limit_bytes
            most = f" of {readable_size(limit)}" if limit else ""
            yield OutOfMemoryError(
                f"the kernel ended a process of {pod.name} for memory: its limit{most} was reached",
                hint=_MORE_MEMORY,
                context=_shown(evidence, pod, container),
            )


def _disruption(evidence: Evidence, pod: PodSeen) -> Iterator[RuntimeFault]:
    target = pod.condition("DisruptionTarget")
    reason = target.reason if target is not None and target.status == "True" else pod.reason
    message = _line(target.message if target is not None and target.message else pod.message)
    kind = _DISRUPTIONS.get(reason) or {"Evicted": PodEvictedError, "NodeLost": NodeLostError}.get(reason)
    if kind is None and target is not None and target.status == "True":
        kind = PodEvictedError  # a reason that a later Kubernetes has: the pod goes all the same
    if kind is NodeLostError and _node_is_ready(evidence, pod):
        kind = PodEvictedError  # a taint that somebody put on a node that is well
    if kind is None:
        return
    hints = {
        PodEvictedError: "Another attempt follows where it is allowed; look at the node's pressure, drains and taints.",
        PodPreemptedError: "Another attempt follows where it is allowed; give training pods a higher priority class.",
        NodeLostError: "Another attempt follows where it is allowed; look at the node.",
    }
    where = f" on {pod.node}" if pod.node else ""
    yield kind(
        f"{pod.name} was taken away{where}: {reason}{f', {message}' if message else ''}",
        hint=hints[kind],
        context=_shown(evidence, pod, _first(pod)),
    )


def _deadline(evidence: Evidence) -> Iterator[RuntimeFault]:
    failed = [
        one for one in (evidence.job.conditions if evidence.job else ()) if one.type in {"Failed", "FailureTarget"}
    ]
    if any(one.status == "True" and one.reason == "DeadlineExceeded" for one in failed) or any(
        pod.reason == "DeadlineExceeded" for pod in evidence.pods
    ):
        yield TimeoutReachedError(
            "the Job's deadline passed, its start and its wait for a node included",
            hint="Ask for more time (--timeout), or find out what kept it from beginning.",
            context=_shown(evidence, evidence.pods[-1] if evidence.pods else None, None),
        )


def _deletion(evidence: Evidence, pod: PodSeen) -> Iterator[RuntimeFault]:
    if pod.deletion_at is None:
        return
    ready = evidence.node.ready if evidence.node is not None and evidence.node.name == pod.node else None
    if ready is not None and ready.status != "True" and not pod.over:
        yield NodeLostError(
            f"{pod.name} is to go, and its node {pod.node} is not heard of: {_line(ready.message or ready.reason)}",
            hint="Another attempt follows where it is allowed; look at the node.",
            context=_shown(evidence, pod, _first(pod)),
        )
    yield _deleted(evidence, f"{pod.name} was deleted", pod)


def _deleted(evidence: Evidence, message: str, pod: PodSeen | None = None) -> RuntimeFault:
    return PodDeletedError(
        message,
        hint="Another attempt follows where it is allowed; the cluster's audit log says who it was.",
        context=_shown(evidence, pod, None if pod is None else _first(pod)),
    )


def _end(evidence: Evidence, pod: PodSeen) -> Iterator[RuntimeFault]:
    container = _first(pod)
    if container is None or not container.ended:
        if pod.over:
            yield AttemptLostError(
                f"{pod.name} ended as {pod.phase}, and nothing says how",
                hint="Another attempt follows where it is allowed.",
                context=_shown(evidence, pod, container),
            )
        return
    signal = container.signal or _BY_SIGNAL.get(container.exit_code or 0)
    if signal is not None:
        yield KilledError(
            f"{pod.name} was ended by signal {signal}, and nobody says why",
            hint="Another attempt follows where it is allowed; look at what ends processes on that node.",
            context=_shown(evidence, pod, container),
        )
        return
    said = f" ({_line(container.message)})" if container.message else ""
    yield AttemptLostError(
        f"{pod.name} ended with status {container.exit_code} and left no end record{said}",
        hint="Look at the pod's log; another attempt follows where it is allowed.",
        context=_shown(evidence, pod, container),
    )


def _standstill(evidence: Evidence, pod: PodSeen, graces: Graces) -> Iterator[RuntimeFault]:
    scheduled = pod.condition("PodScheduled")
    if scheduled is not None and scheduled.status == "False":
        since = scheduled.at or evidence.asked_at
        if (evidence.seen_at - since).total_seconds() >= graces.pending_seconds:
            yield UnschedulableError(
                f"no node had room for {pod.name} for {graces.pending_seconds:.0f} s: {_line(scheduled.message)}",
                hint="Ask for less, or add nodes; the operator decides how long is waited.",
                context=_shown(evidence, pod, _first(pod)),
            )
        return
    waiting = _waiting(pod)
    since = (scheduled.at if scheduled is not None else None) or evidence.asked_at
    if waiting is None or (evidence.seen_at - since).total_seconds() < graces.start_seconds:
        return
    if waiting.waiting in _IMAGE_WAITS:
        yield ImagePullError(
            f"the image {waiting.image} cannot be had: {waiting.waiting}, {_line(waiting.message)}",
            hint="Correct the image's name, push it, or give the pool an image pull secret.",
            context=_shown(evidence, pod, waiting),
        )
    elif waiting.waiting in _REFUSED_WAITS:
        yield ClusterRefusedError(
            f"the container of {pod.name} cannot be started: {waiting.waiting}, {_line(waiting.message)}",
            hint="Make the secret, volume or setting that the message names, or take it out of the pool's job template.",
            context=_shown(evidence, pod, waiting),
        )


def _nothing_made(evidence: Evidence, graces: Graces) -> Iterator[RuntimeFault]:
    waited = (evidence.seen_at - evidence.asked_at).total_seconds()
    refusal = _refusal(evidence)
    if refusal is not None:
        if waited < graces.start_seconds:
            return
        kind: type[RuntimeFault] = QuotaExceededError if "exceeded quota" in refusal.message else ClusterRefusedError
        hint = (
            "Ask for less, wait for others to end, or raise the namespace's quota."
            if kind is QuotaExceededError
            else "Change the pool's job template to what the cluster's admission rules allow, or the rules."
        )
        yield kind(f"no pod can be made: {_line(refusal.message)}", hint=hint, context=_shown(evidence, None, None))
    elif evidence.job is None and waited >= CLUSTER_JOB_SECONDS:
        yield _deleted(evidence, "there is neither a Job nor a pod of it")
    elif evidence.job is not None and any(
        one.type in {"Complete", "Failed"} and one.status == "True" for one in evidence.job.conditions
    ):
        if any(one.about == "Pod" and one.reason == "Killing" for one in evidence.events):
            yield _deleted(evidence, f"the pod of {evidence.job.name} was stopped from outside, and is gone")
        yield AttemptLostError(
            f"{evidence.job.name} has ended, and its pod is gone with all that it could say",
            hint="Another attempt follows where it is allowed.",
            context=_shown(evidence, None, None),
        )


# --- reading it -------------------------------------------------------------------------------------------------------


def _refusal(evidence: Evidence) -> EventSeen | None:
    """The last refusal to make a pod, where none was made."""
    if evidence.pods:
        return None
    return next((one for one in reversed(evidence.events) if one.about == "Job" and one.reason == "FailedCreate"), None)


def _waiting(pod: PodSeen) -> ContainerSeen | None:
    return next((one for one in pod.containers if one.waiting is not None), None)


def _first(pod: PodSeen) -> ContainerSeen | None:
    return pod.containers[0] if pod.containers else None


def _node_is_ready(evidence: Evidence, pod: PodSeen) -> bool:
    node = evidence.node
    return node is not None and node.name == pod.node and node.ready is not None and node.ready.status == "True"


def _shown(evidence: Evidence, pod: PodSeen | None, container: ContainerSeen | None) -> dict[str, Any]:
    """What people and scripts read first, and below it all that was seen."""
    shown: dict[str, Any] = {}
    if evidence.job is not None:
        shown["job"] = evidence.job.name
    if pod is not None:
        shown |= {"pod": pod.name, "phase": pod.phase, "node": pod.node or None}
    if container is not None:
        shown |= {
            "exit_code": container.exit_code,
            "reason": container.reason or container.waiting,
            "memory_limit_bytes": container.memory_limit_bytes,
        }
    return {**shown, "evidence": evidence.to_document()}


def _line(text: str) -> str:
    """`text` on one line of bounded length."""
    line = " ".join(text.split())
    return line if len(line) <= _MOST_CHARACTERS else f"{line[: _MOST_CHARACTERS - 1]}…"


_MOST_CHARACTERS: Final = 300
