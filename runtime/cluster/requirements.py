"""What a pool on a cluster needs to be told before anything can train there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from contracts.errors import InvalidSettingsError

if TYPE_CHECKING:
    from runtime.settings import Settings


def require_cluster_settings(settings: Settings) -> None:
    """Returns where `settings` say all that the pools of `cluster_pools` need.

    Raises:
        InvalidSettingsError: with everything that is missing in `context["violations"]`.
    """
    missing = [
        {"path": name, "message": f"required, since cluster_pools names {', '.join(settings.cluster_pools)}"}
        for name, given in (
            ("cluster_namespace", settings.cluster_namespace),
            ("cluster_image", settings.cluster_image),
        )
        if not given
    ]
    if not settings.uses_s3:
        missing.append({"path": "store", "message": "must be S3: a pod does not reach the folders of this machine"})
    unknown = sorted(set(settings.cluster_pools) - {settings.cpu_pool, settings.gpu_pool})
    missing += [
        {"path": "cluster_pools", "message": f"{name} is neither cpu_pool nor gpu_pool, so nothing would train there"}
        for name in unknown
    ]
    if missing:
        raise InvalidSettingsError(
            "; ".join(f"{one['path']}: {one['message']}" for one in missing),
            hint="Set them in mtr.toml or as MTR_… variables of every worker and door; `mtr doctor` shows what holds.",
            context={"violations": missing},
        )
