"""The cluster's API: what is there of a flow run, its removal, and how much there is to be had."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final, Self

import orjson

from contracts.errors import ClusterRefusedError, ClusterUnavailableError, InvalidSettingsError
from runtime.cluster.evidence import Evidence
from runtime.cluster.quantity import parse_quantity

if TYPE_CHECKING:
    from collections.abc import Callable

    from runtime.settings import Settings

FLOW_RUN_LABEL: Final = "prefect.io/flow-run-id"
GPU_RESOURCE: Final = "nvidia.com/gpu"
_TIMEOUTS_SECONDS: Final = (3, 15)
"""To connect, and to read: an API server that has stalled must not hold up the caller's own watching."""
_POLL_SECONDS: Final = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Capacity:
    """GPUs that the cluster's nodes offer, those in use included.

    Attributes:
        largest_node_gpus: the most that one pod could ever get.
        gpus: of all nodes together.
    """

    largest_node_gpus: int
    gpus: int


class Cluster:
    """One namespace of a Kubernetes cluster."""

    def __init__(self, api: Any, namespace: str) -> None:
        self._api = api
        self._namespace = namespace

    @classmethod
    def open(cls, settings: Settings) -> Self:
        """The cluster that `settings` name; nothing is asked of it yet.

        Raises:
            InvalidSettingsError: no namespace is set, or there is no usable kubeconfig.
        """
        from kubernetes import client, config  # noqa: PLC0415 - takes a second, and most processes have no cluster
        from kubernetes.config.config_exception import ConfigException  # noqa: PLC0415 - see above

        if not settings.cluster_namespace:
            raise InvalidSettingsError(
                "no cluster is set up", hint="Set cluster_namespace to the namespace of the GPU pool's Jobs."
            )
        configuration = client.Configuration()
        path = settings.cluster_kubeconfig or os.environ.get("KUBECONFIG")
        try:
            if path or "KUBERNETES_SERVICE_HOST" not in os.environ:
                config.load_kube_config(path or None, client_configuration=configuration)
            else:
                config.load_incluster_config(client_configuration=configuration)
        except (ConfigException, OSError) as error:
            raise InvalidSettingsError(
                f"there is no usable kubeconfig: {error}",
                hint="Set cluster_kubeconfig or KUBECONFIG to a file that kubectl can use.",
            ) from error
        configuration.retries = False  # who asks decides how often
        return cls(client.ApiClient(configuration), settings.cluster_namespace)

    def observe(self, flow_run_id: str, *, asked_at: datetime) -> Evidence:
        """All that the cluster shows of this flow run now.

        Args:
            flow_run_id: Prefect's id of the run, a label of its Job and pods.
            asked_at: since when a Job should be there.

        Raises:
            ClusterUnavailableError: the API does not answer; ask again.
            ClusterRefusedError: it does not let us look.
        """
        jobs, pods = self._jobs(flow_run_id), self._pods(flow_run_id)
        events = [
            event
            for document in (*jobs, *pods)
            for event in self._listed(
                self._path("events"), fieldSelector=f"involvedObject.name={document['metadata']['name']}"
            )
        ]
        newest = max(pods, key=lambda one: str(one["metadata"].get("creationTimestamp") or ""), default=None)
        return Evidence.of(
            asked_at=asked_at,
            seen_at=datetime.now(UTC),
            job=max(jobs, key=lambda one: str(one["metadata"].get("creationTimestamp") or ""), default=None),
            pods=pods,
            events=events,
            node=self._node(((newest or {}).get("spec") or {}).get("nodeName")),
        )

    def remove(
        self,
        flow_run_id: str,
        *,
        grace_seconds: int,
        within_seconds: float,
        sleep: Callable[[float], None] = time.sleep,
    ) -> tuple[str, ...]:
        """Afterwards no Job or pod of this flow run is there, or the answer names those that still are.

        Pods are never forced: the API would forget one whose processes go on.

        Args:
            flow_run_id: see `observe`.
            grace_seconds: between SIGTERM and SIGKILL.
            within_seconds: how long it is waited for.
            sleep: waits so many seconds.

        Raises:
            ClusterUnavailableError: the API does not answer; call again.
            ClusterRefusedError: it does not let us delete.
        """
        deadline = time.monotonic() + within_seconds
        while True:
            left = []
            # The Job first: it would make another pod.
            for folder, documents in (
                (self._path("jobs"), self._jobs(flow_run_id)),
                (self._path("pods"), self._pods(flow_run_id)),
            ):
                for document in documents:
                    meta = document["metadata"]
                    left.append(f"{folder.rsplit('/', 1)[-1]}/{meta['name']}")
                    if not meta.get("deletionTimestamp"):
                        self._delete(f"{folder}/{meta['name']}", grace_seconds)
            if not left or time.monotonic() >= deadline:
                return tuple(left)
            sleep(_POLL_SECONDS)

    def capacity(self) -> Capacity:
        """What the nodes that take pods offer.

        Raises:
            ClusterUnavailableError: the API does not answer; ask again.
            ClusterRefusedError: it does not let us list nodes.
        """
        gpus = [
            int(parse_quantity(str(((node.get("status") or {}).get("allocatable") or {}).get(GPU_RESOURCE, 0))) or 0)
            for node in self._listed("/api/v1/nodes")
            if not (node.get("spec") or {}).get("unschedulable")
        ]
        return Capacity(largest_node_gpus=max(gpus, default=0), gpus=sum(gpus))

    def close(self) -> None:
        """Afterwards no connection is open."""
        self._api.close()

    # --- asking -------------------------------------------------------------------------------------------------------

    def _path(self, kind: str) -> str:
        group = "/apis/batch/v1" if kind == "jobs" else "/api/v1"
        return f"{group}/namespaces/{self._namespace}/{kind}"

    def _jobs(self, flow_run_id: str) -> list[dict[str, Any]]:
        return self._listed(self._path("jobs"), labelSelector=f"{FLOW_RUN_LABEL}={flow_run_id}")

    def _pods(self, flow_run_id: str) -> list[dict[str, Any]]:
        return self._listed(self._path("pods"), labelSelector=f"{FLOW_RUN_LABEL}={flow_run_id}")

    def _node(self, name: str | None) -> dict[str, Any] | None:
        """`None` too where we may not look at nodes: what pods say suffices for most causes."""
        if not name:
            return None
        try:
            return self._ask("GET", f"/api/v1/nodes/{name}")
        except ClusterRefusedError:
            return None

    def _listed(self, path: str, **query: str) -> list[dict[str, Any]]:
        return list((self._ask("GET", path, query=query) or {}).get("items") or ())

    def _delete(self, path: str, grace_seconds: int) -> None:
        options = {"propagationPolicy": "Background", "gracePeriodSeconds": grace_seconds}
        self._ask("DELETE", path, body=options)

    def _ask(
        self, method: str, path: str, *, query: dict[str, str] | None = None, body: object = None
    ) -> dict[str, Any] | None:
        """The API's document; `None` where there is no such object."""
        from kubernetes.client.exceptions import ApiException  # noqa: PLC0415 - see `open`
        from urllib3.exceptions import HTTPError  # noqa: PLC0415 - comes with it

        asked = f"{method} {path}"
        try:
            response = self._api.call_api(
                path,
                method,
                query_params=list((query or {}).items()),
                header_params={"Accept": "application/json", "Content-Type": "application/json"},
                body=body,
                auth_settings=["BearerToken"],
                _preload_content=False,
                _request_timeout=_TIMEOUTS_SECONDS,
            )[0]
            found: dict[str, Any] = orjson.loads(response.data)
        except ApiException as error:
            if error.status == HTTPStatus.NOT_FOUND:
                return None
            if error.status in {HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN}:
                raise ClusterRefusedError(
                    f"the cluster refuses {asked}: {error.reason}",
                    hint="Give the account of this kubeconfig the verbs of the pool's role.",
                    context={"status": error.status},
                ) from error
            raise _unavailable(asked, f"{error.status} {error.reason}") from error
        except (HTTPError, OSError, orjson.JSONDecodeError) as error:
            raise _unavailable(asked, str(error)) from error
        return found


def _unavailable(asked: str, said: str) -> ClusterUnavailableError:
    return ClusterUnavailableError(
        f"the cluster's API does not answer {asked}: {said}",
        hint="Try again once `kubectl get --raw /readyz` answers ok.",
    )
