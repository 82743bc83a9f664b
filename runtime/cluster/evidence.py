"""What a cluster shows of one attempt, read from the API's own documents and kept: afterwards the pod is gone.

Nothing is judged here; that is `runtime.cluster.diagnosis`. A field that the API leaves out is `None`, an unknown one is
passed over: clusters differ, and a view must not fail on what it does not need.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, Self

from runtime.cluster.quantity import parse_quantity

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

TRAINING_CONTAINER: Final = "prefect-job"
"""The container of our job template whose process is the attempt; what stands beside it is the cluster's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """A condition of a pod, Job or node.

    Attributes:
        type: such as `PodScheduled` or `DisruptionTarget`.
        status: `True`, `False` or `Unknown`.
        reason: one word of it.
        message: and for people.
        at: since when.
    """

    type: str
    status: str
    reason: str
    message: str
    at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerSeen:
    """One container.

    Attributes:
        name: its name.
        waiting: why it has not started, such as `ImagePullBackOff`; `None` once it has.
        exit_code: of its end; `None` before.
        signal: that ended it, where the runtime says so.
        reason: of its end, such as `OOMKilled`.
        message: of its waiting or its end.
        image: what it runs.
        memory_limit_bytes: the most that it may have.
    """

    name: str
    waiting: str | None
    exit_code: int | None
    signal: int | None
    reason: str
    message: str
    image: str
    memory_limit_bytes: int | None

    @property
    def ended(self) -> bool:
        """Whether it has ended."""
        return self.exit_code is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class PodSeen:
    """One pod.

    Attributes:
        name: its name.
        node: where it runs; `""` before it is scheduled.
        phase: the API's word, which is no proof of anything: a pod whose training was killed for memory may be `Succeeded`.
        reason: such as `Evicted`.
        message: for people.
        deletion_at: by when it should be gone; `None` where nobody deletes it.
        conditions: all of them.
        containers: the training's first.
    """

    name: str
    node: str
    phase: str
    reason: str
    message: str
    deletion_at: datetime | None
    conditions: tuple[Condition, ...]
    containers: tuple[ContainerSeen, ...]

    def condition(self, kind: str) -> Condition | None:
        """The condition of this type."""
        return next((one for one in self.conditions if one.type == kind), None)

    @property
    def over(self) -> bool:
        """Whether none of its containers can run any more."""
        return self.phase in {"Succeeded", "Failed"} or (
            bool(self.containers) and all(c.ended for c in self.containers)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSeen:
    """The Job that was made for the attempt.

    Attributes:
        name: its name.
        created_at: when it was made.
        deletion_at: by when it should be gone.
        conditions: such as `Failed` with reason `DeadlineExceeded`.
    """

    name: str
    created_at: datetime | None
    deletion_at: datetime | None
    conditions: tuple[Condition, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class EventSeen:
    """What a controller said about the Job or its pods: quota and admission refusals stand nowhere else.

    Attributes:
        about: `Job` or `Pod`.
        name: of it.
        reason: such as `FailedCreate`.
        message: for people.
        at: when it was said last.
    """

    about: str
    name: str
    reason: str
    message: str
    at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSeen:
    """The node of the pod.

    Attributes:
        name: its name.
        ready: its condition `Ready`.
    """

    name: str
    ready: Condition | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """All that was seen at one moment.

    Attributes:
        asked_at: since when a Job should be there.
        seen_at: the moment.
        job: `None` where there is none.
        pods: of the Job, the newest last.
        events: about them, the newest last.
        node: of the newest pod.
    """

    asked_at: datetime
    seen_at: datetime
    job: JobSeen | None = None
    pods: tuple[PodSeen, ...] = ()
    events: tuple[EventSeen, ...] = ()
    node: NodeSeen | None = None

    @classmethod
    def of(
        cls,
        *,
        asked_at: datetime,
        seen_at: datetime,
        job: Mapping[str, Any] | None,
        pods: Iterable[Mapping[str, Any]] = (),
        events: Iterable[Mapping[str, Any]] = (),
        node: Mapping[str, Any] | None = None,
    ) -> Self:
        """What these documents of the API say.

        Args:
            asked_at: since when a Job should be there.
            seen_at: when they were read.
            job: a `Job`, or `None`.
            pods: its `Pod`s.
            events: `Event`s about them.
            node: the `Node` of the newest pod.
        """
        return cls(
            asked_at=asked_at,
            seen_at=seen_at,
            job=None if job is None else _job(job),
            pods=tuple(map(_pod, sorted(pods, key=lambda one: str(_meta(one).get("creationTimestamp") or "")))),
            events=tuple(sorted(map(_event, events), key=lambda one: (one.at is not None, one.at or seen_at))),
            node=None if node is None else _node(node),
        )

    def to_document(self) -> dict[str, Any]:
        """All of it, in JSON's own kinds."""
        document: dict[str, Any] = _plain(asdict(self))
        return document


def _job(document: Mapping[str, Any]) -> JobSeen:
    meta = _meta(document)
    return JobSeen(
        name=str(meta.get("name") or ""),
        created_at=_time(meta.get("creationTimestamp")),
        deletion_at=_time(meta.get("deletionTimestamp")),
        conditions=tuple(_conditions(document)),
    )


def _pod(document: Mapping[str, Any]) -> PodSeen:
    meta, spec, status = _meta(document), document.get("spec") or {}, document.get("status") or {}
    said = {str(one.get("name")): one for one in status.get("containerStatuses") or ()}
    containers = [_container(one, said.get(str(one.get("name")), {})) for one in spec.get("containers") or ()]
    containers.sort(key=lambda one: one.name != TRAINING_CONTAINER)
    return PodSeen(
        name=str(meta.get("name") or ""),
        node=str(spec.get("nodeName") or ""),
        phase=str(status.get("phase") or ""),
        reason=str(status.get("reason") or ""),
        message=str(status.get("message") or ""),
        deletion_at=_time(meta.get("deletionTimestamp")),
        conditions=tuple(_conditions(document)),
        containers=tuple(containers),
    )


def _container(wanted: Mapping[str, Any], seen: Mapping[str, Any]) -> ContainerSeen:
    state = seen.get("state") or {}
    waiting, ended = state.get("waiting"), state.get("terminated")
    limit = ((wanted.get("resources") or {}).get("limits") or {}).get("memory")
    return ContainerSeen(
        name=str(wanted.get("name") or ""),
        waiting=str(waiting.get("reason") or "Waiting") if waiting is not None else None,
        exit_code=int(ended.get("exitCode", 0)) if ended is not None else None,
        signal=int(ended["signal"]) if ended is not None and ended.get("signal") else None,
        reason=str((ended or {}).get("reason") or ""),
        message=str((ended or waiting or {}).get("message") or ""),
        image=str(wanted.get("image") or ""),
        memory_limit_bytes=None if limit is None else round(parse_quantity(str(limit)) or 0) or None,
    )


def _event(document: Mapping[str, Any]) -> EventSeen:
    about = document.get("involvedObject") or document.get("regarding") or {}
    series = document.get("series") or {}
    at = series.get("lastObservedTime") or document.get("lastTimestamp") or document.get("eventTime")
    return EventSeen(
        about=str(about.get("kind") or ""),
        name=str(about.get("name") or ""),
        reason=str(document.get("reason") or ""),
        message=str(document.get("message") or document.get("note") or ""),
        at=_time(at or _meta(document).get("creationTimestamp")),
    )


def _node(document: Mapping[str, Any]) -> NodeSeen:
    ready = next((one for one in _conditions(document) if one.type == "Ready"), None)
    return NodeSeen(name=str(_meta(document).get("name") or ""), ready=ready)


def _conditions(document: Mapping[str, Any]) -> Iterator[Condition]:
    for one in (document.get("status") or {}).get("conditions") or ():
        yield Condition(
            type=str(one.get("type") or ""),
            status=str(one.get("status") or ""),
            reason=str(one.get("reason") or ""),
            message=str(one.get("message") or ""),
            at=_time(one.get("lastTransitionTime")),
        )


def _meta(document: Mapping[str, Any]) -> Mapping[str, Any]:
    found: Mapping[str, Any] = document.get("metadata") or {}
    return found


def _time(said: object) -> datetime | None:
    try:
        return datetime.fromisoformat(said) if isinstance(said, str) else None
    except ValueError:
        return None


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, dict):
        return {name: _plain(one) for name, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(one) for one in value]
    return value
