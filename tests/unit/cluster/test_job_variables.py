"""What an attempt asks of a Kubernetes pool, and that it fits the template which takes it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from contracts.errors import InvalidSettingsError
from contracts.limits import GIB, POD_OVERHEAD_BYTES
from contracts.submission import Resources
from runtime.cluster.job_variables import job_variables
from runtime.settings import Settings
from services.orchestrator.application import ROOT
from tests.assets import documents

if TYPE_CHECKING:
    from pathlib import Path

TEMPLATE = yaml.safe_load((ROOT / "deployments" / "kubernetes" / "job-template.yaml").read_text())
GPUS = Resources(device="cuda", gpu_count=2, cpu_cores=1.5, memory_bytes=4 * GIB)


def cluster_settings(home: Path, **changes: Any) -> Settings:
    return Settings(
        **{
            "home": home,
            "s3_endpoint": "http://store.test",
            "s3_secret_key": "never shown",
            "gpu_pool": "gpus",
            "cluster_pools": ("gpus",),
            "cluster_namespace": "training",
            "cluster_image": "registry.test/mtr:1",
            **changes,
        }
    )


def variables(settings: Settings, **changes: Any) -> dict[str, Any]:
    return job_variables(documents.EXECUTION_ID, 2, GPUS, settings, **changes)


def test_resources_are_asked_for_as_limits_that_nobody_squeezes(tmp_path: Path) -> None:
    resources = variables(cluster_settings(tmp_path))["resources"]
    assert resources["limits"] == resources["requests"] == {
        "cpu": "1.5",
        "memory": str(4 * GIB + POD_OVERHEAD_BYTES),
        "nvidia.com/gpu": "2",
    }  # fmt: skip


def test_a_second_try_has_the_memory_that_it_was_given(tmp_path: Path) -> None:
    found = variables(cluster_settings(tmp_path), memory_bytes=8 * GIB)
    assert found["resources"]["limits"]["memory"] == str(8 * GIB + POD_OVERHEAD_BYTES)


def test_a_pod_is_found_by_its_execution_and_attempt(tmp_path: Path) -> None:
    assert variables(cluster_settings(tmp_path))["labels"] == {
        "training-runtime/execution-id": documents.EXECUTION_ID,
        "training-runtime/attempt": "2",
    }


def test_what_holds_here_holds_in_the_pod_but_no_secret_is_shown(tmp_path: Path) -> None:
    found = variables(cluster_settings(tmp_path, idle_timeout_seconds=77.0))
    assert found["env"]["MTR_IDLE_TIMEOUT_SECONDS"] == "77.0"
    assert found["env"]["MTR_S3_ENDPOINT"] == "http://store.test"
    assert "never shown" not in str(found)
    assert not [name for name in found["env"] if "KEY" in name or "TOKEN" in name or "PASSWORD" in name]


def test_a_secret_is_never_put_into_a_shared_environment(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="s3_secret_key"):
        cluster_settings(tmp_path).shared_environment(["s3_region", "s3_secret_key"])


def test_every_variable_is_one_of_the_template(tmp_path: Path) -> None:
    assert set(variables(cluster_settings(tmp_path))) <= set(TEMPLATE["variables"]["properties"])


def test_every_place_in_the_template_is_a_variable() -> None:
    places = set(re.findall(r"{{ (\w+) }}", yaml.safe_dump(TEMPLATE["job_configuration"])))
    assert places == set(TEMPLATE["variables"]["properties"])


@pytest.mark.parametrize(
    ("changes", "path"),
    [
        ({"cluster_namespace": ""}, "cluster_namespace"),
        ({"cluster_image": ""}, "cluster_image"),
        ({"s3_endpoint": ""}, "store"),
        ({"gpu_pool": "others"}, "cluster_pools"),
    ],
)
def test_what_the_pool_lacks_is_named(tmp_path: Path, changes: dict[str, Any], path: str) -> None:
    with pytest.raises(InvalidSettingsError) as refused:
        variables(cluster_settings(tmp_path, **changes))
    assert [one["path"] for one in refused.value.context["violations"]] == [path]
