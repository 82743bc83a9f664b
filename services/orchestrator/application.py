"""Bringing a Prefect server to the state that this version needs: `prefect.yaml`, the automations and the blocks.

Everything is compared with what the server has, and only differences are written, so that applying twice changes nothing
the second time and a dry run is exact.
"""

from __future__ import annotations

import contextlib
import importlib
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

from contracts.errors import InvalidSettingsError, OrchestratorUnavailableError
from services.orchestrator.environment import has_server, prepare_environment

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from prefect.blocks.core import Block
    from prefect.client.orchestration import SyncPrefectClient

    from runtime.settings import Settings

# ruff: noqa: PLC0415 - Prefect is imported once its environment is prepared: it reads it at import

ROOT: Final = Path(__file__).resolve().parents[2]
"""Where `prefect.yaml` lies: the checkout, or the image's application folder."""
_IMAGE_ROOT: Final = "/opt/mtr"
"""The application folder of the image, see deployments/image/Containerfile."""
_TRIES: Final = 5
_PAUSE_SECONDS: Final = 1.0

Action = Literal["create", "change", "keep"]


@dataclass(frozen=True, slots=True)
class Difference:
    """One thing that the server has to have.

    Attributes:
        action: what applying does, or did.
        kind: `bucket`, `work pool`, `block`, `deployment` or `automation`.
        name: its name on the server.
        fields: of a change, the fields that differ; never their values, which may be secret.
    """

    action: Action
    kind: str
    name: str
    fields: tuple[str, ...] = ()

    def to_document(self) -> dict[str, Any]:
        """The form of `mtr apply --json`."""
        return {"action": self.action, "kind": self.kind, "name": self.name, "fields": list(self.fields)}


@dataclass(slots=True)
class _Wanted:
    """One thing, how it compares with the server's, and what writes it."""

    difference: Difference
    write: Callable[[], object] = field(default=lambda: None)


def apply(settings: Settings, *, dry_run: bool = False) -> tuple[Difference, ...]:
    """Afterwards the store has its buckets, and the configured Prefect server our pools, blocks, deployments, automations.

    An installation with an S3 store and no server needs the buckets alone.

    Args:
        settings: name the pools and the buckets. Blocks start empty, so that applying switches nothing on.
        dry_run: only say what would be done.

    Returns:
        Everything that is wanted, in the order in which it is written, what is there already included.

    Raises:
        InvalidSettingsError: neither a server nor an S3 store is configured, or a cluster's pool lacks a setting.
        StorageRefusedError: a bucket is not there and we may not make it.
        StorageUnavailableError: the S3 server does not answer.
        OrchestratorUnavailableError: it does not answer, or somebody else keeps writing the same.
    """
    differences = _buckets(settings, dry_run=dry_run)
    prepare_environment(settings)
    if not has_server():
        if settings.uses_s3:
            return tuple(differences)
        raise InvalidSettingsError(
            "no Prefect server is configured",
            hint="Set PREFECT_API_URL, such as http://127.0.0.1:4200/api; `mtr up` starts one and applies by itself.",
        )
    import httpx
    from prefect.client.orchestration import get_client
    from prefect.exceptions import ObjectAlreadyExists

    try:
        with get_client(sync_client=True) as client:
            for wanted in _everything(client, settings):
                if not dry_run and wanted.difference.action != "keep":
                    _patiently(wanted.write)
                differences.append(wanted.difference)
    except (httpx.HTTPError, ObjectAlreadyExists) as error:
        raise OrchestratorUnavailableError(
            f"the Prefect server refused or did not answer: {error or type(error).__name__}",
            hint="Repeat: what is applied already is kept. `mtr doctor` says whether the server answers.",
        ) from error
    return tuple(differences)


def _buckets(settings: Settings, *, dry_run: bool) -> list[Difference]:
    """The real buckets of an S3 store; local folders come into being with their first object."""
    if not settings.uses_s3:
        return []
    from runtime.store.objects import open_store

    store = open_store(settings)
    missing = store.missing_buckets()
    if not dry_run:
        store.ensure_buckets()
    wanted = dict.fromkeys(settings.buckets.values())
    return [Difference("create" if real in missing else "keep", "bucket", real) for real in wanted]


def _everything(client: SyncPrefectClient, settings: Settings) -> Iterator[_Wanted]:
    import yaml

    described = yaml.safe_load((ROOT / "prefect.yaml").read_text(encoding="utf-8"))["deployments"]
    training = next(one for one in described if one["name"] == "cpu")
    if settings.cpu_pool is not None:
        training["work_pool"] = {"name": settings.cpu_pool}
    if settings.gpu_pool is not None:
        said = training["description"].replace("without GPU", "with GPUs")
        described.append({**training, "name": "gpu", "description": said, "work_pool": {"name": settings.gpu_pool}})
    pools = dict.fromkeys(deployment["work_pool"]["name"] for deployment in described)
    for pool in pools:
        yield _work_pool(client, pool, settings)
    yield from _blocks(client)
    for deployment in described:
        in_pods = deployment["work_pool"]["name"] in settings.cluster_pools
        yield _deployment(client, deployment, _IMAGE_ROOT if in_pods else str(ROOT))
    automations = ROOT / "deployments" / "automations.yaml"
    for automation in yaml.safe_load(automations.read_text(encoding="utf-8")):
        yield _automation(client, automation)


def _patiently(write: Callable[[], object]) -> None:
    """Writes once the server lets it.

    SQLite under load answers 503 to writes in a row. What another `mtr apply` or a worker creates at the same moment is
    there "already"; the next try finds it.
    """
    import httpx
    from prefect.exceptions import ObjectAlreadyExists

    for left in reversed(range(_TRIES)):
        try:
            write()
        except httpx.HTTPStatusError as error:
            if error.response.status_code != httpx.codes.SERVICE_UNAVAILABLE or not left:
                raise
        except ObjectAlreadyExists:
            if not left:
                raise
        else:
            return
        time.sleep(_PAUSE_SECONDS)


# --- work pools ------------------------------------------------------------------------------------------------------


def _work_pool(client: SyncPrefectClient, name: str, settings: Settings) -> _Wanted:
    """A pool that is there is the operator's: its type and limits are left alone."""
    from prefect.client.schemas.actions import WorkPoolCreate
    from prefect.exceptions import ObjectAlreadyExists, ObjectNotFound

    try:
        client.read_work_pool(name)
    except ObjectNotFound:
        kind, template = _cluster_job(settings) if name in settings.cluster_pools else _process_job()
        new = WorkPoolCreate(name=name, type=kind, base_job_template=template)

        def write() -> None:
            with contextlib.suppress(ObjectAlreadyExists):  # a worker that starts now creates the pool that it misses
                client.create_work_pool(new)

        return _Wanted(Difference("create", "work pool", name), write)
    return _Wanted(Difference("keep", "work pool", name))


def _process_job() -> tuple[str, dict[str, Any]]:
    from prefect.workers.process import ProcessWorker

    return ProcessWorker.type, ProcessWorker.get_default_base_job_template()


def _cluster_job(settings: Settings) -> tuple[str, dict[str, Any]]:
    """Type and template of a pool whose runs are Jobs in our namespace."""
    import yaml

    from runtime.cluster.requirements import require_cluster_settings

    require_cluster_settings(settings)

    file = ROOT / "deployments" / "kubernetes" / "job-template.yaml"
    template: dict[str, Any] = yaml.safe_load(file.read_text(encoding="utf-8"))
    variables = template["variables"]["properties"]
    variables["namespace"]["default"] = settings.cluster_namespace
    variables["image"]["default"] = settings.cluster_image
    return "kubernetes", template


# --- blocks ----------------------------------------------------------------------------------------------------------


def _blocks(client: SyncPrefectClient) -> Iterator[_Wanted]:
    """The two block types, so that an operator can fill them in; the documents start empty and change nothing."""
    from prefect.exceptions import ObjectNotFound

    from blocks.configuration import BLOCK_NAME
    from blocks.execution_policy import ExecutionPolicy
    from blocks.object_store import ObjectStore

    for block in (ExecutionPolicy(), ObjectStore()):
        slug = block.get_block_type_slug()
        name = f"{slug}/{BLOCK_NAME}"
        try:
            client.read_block_document_by_name(BLOCK_NAME, slug)
        except ObjectNotFound:
            yield _Wanted(Difference("create", "block", name), _saver(block, BLOCK_NAME))
        else:
            yield _Wanted(Difference("keep", "block", name))


def _saver(block: Block, name: str) -> Callable[[], object]:
    return lambda: block.save(name, overwrite=True)


# --- deployments -----------------------------------------------------------------------------------------------------


def _deployment(client: SyncPrefectClient, described: dict[str, Any], folder: str) -> _Wanted:
    """A deployment whose runs start in `folder` of their machine."""
    from prefect.exceptions import ObjectNotFound
    from prefect.utilities.callables import parameter_schema

    module, _, symbol = described["entrypoint"].rpartition(".")
    flow = getattr(importlib.import_module(module), symbol)
    wanted = {
        "entrypoint": described["entrypoint"],
        "description": (described.get("description") or "").strip(),
        "tags": described.get("tags") or [],
        "work_pool_name": described["work_pool"]["name"],
        "work_queue_name": None,
        "path": None,
        # The flows are installed: nothing is pulled. Without a step Prefect would look for code in its own storage.
        "pull_steps": [{"prefect.deployments.steps.set_working_directory": {"directory": folder}}],
        "parameter_openapi_schema": parameter_schema(flow).model_dump_for_openapi(),
        "enforce_parameter_schema": True,
        "parameters": described.get("parameters") or {},
    }
    name = f"{flow.name}/{described['name']}"
    try:
        found = client.read_deployment_by_name(name).model_dump(mode="json")
    except ObjectNotFound:
        found = None
    timing = _timing(described, found)

    def write() -> None:
        client.create_deployment(client.create_flow(flow), described["name"], **wanted, **timing.to_write)

    if found is None:
        return _Wanted(Difference("create", "deployment", name), write)
    differing = tuple(
        sorted({one for one in wanted if one != "work_queue_name" and found.get(one) != wanted[one]} | timing.differing)
    )
    return _Wanted(Difference("change" if differing else "keep", "deployment", name, differing), write)


@dataclass(frozen=True, slots=True)
class _Timing:
    """When a deployment runs by itself, and how many of its runs at once: what differs, and what is written."""

    differing: frozenset[str]
    to_write: dict[str, Any]


def _timing(described: dict[str, Any], found: dict[str, Any] | None) -> _Timing:
    """The server tells a schedule with its own ids and times; whether it is active is the operator's to decide."""
    from prefect.client.schemas.actions import DeploymentScheduleCreate
    from prefect.client.schemas.objects import ConcurrencyOptions
    from prefect.client.schemas.schedules import CronSchedule

    schedules = [CronSchedule.model_validate(one) for one in described.get("schedules") or []]
    wanted = [schedule.model_dump(mode="json") for schedule in schedules]
    there = {"schedules": [], "concurrency_options": None, "global_concurrency_limit": None} | (found or {})
    scheduled = [one["schedule"] for one in there["schedules"]]
    limit = described.get("concurrency_limit") or {}
    strategy = limit.get("collision_strategy")
    differing = set()
    if scheduled != wanted:
        differing.add("schedules")
    if (
        (there["global_concurrency_limit"] or {}).get("limit"),
        (there["concurrency_options"] or {}).get("collision_strategy"),
    ) != (
        limit.get("limit"),
        strategy,
    ):
        differing.add("concurrency_limit")
    active = [one["active"] for one in there["schedules"]] if scheduled == wanted else [True] * len(wanted)
    return _Timing(
        frozenset(differing),
        {
            "schedules": [
                DeploymentScheduleCreate(schedule=schedule, active=on)
                for schedule, on in zip(schedules, active, strict=True)
            ],
            "concurrency_limit": limit.get("limit"),
            "concurrency_options": ConcurrencyOptions(collision_strategy=strategy) if strategy else None,
        },
    )


# --- automations -----------------------------------------------------------------------------------------------------


def _automation(client: SyncPrefectClient, described: dict[str, Any]) -> _Wanted:
    from prefect.events.schemas.automations import AutomationCore

    wanted = AutomationCore.model_validate(described)
    name = wanted.name
    found = client.read_automations_by_name(name)
    if not found:
        return _Wanted(Difference("create", "automation", name), lambda: client.create_automation(wanted))
    there, ours = (AutomationCore.model_validate(one.model_dump(exclude={"id"})) for one in (found[0], wanted))
    before, after = there.model_dump(mode="json"), ours.model_dump(mode="json")
    differing = tuple(sorted(one for one in after if before.get(one) != after[one]))
    return _Wanted(
        Difference("change" if differing else "keep", "automation", name, differing),
        lambda: client.update_automation(found[0].id, wanted),
    )
