"""What is applied to a server, read from the files that describe it."""

import importlib
from pathlib import Path

import pytest
import yaml
from prefect.events.schemas.automations import AutomationCore
from prefect.flows import Flow

from contracts.errors import InvalidSettingsError
from runtime.settings import Settings
from services.orchestrator.application import ROOT, apply

DEPLOYMENTS = yaml.safe_load((ROOT / "prefect.yaml").read_text())["deployments"]


def flow_of(deployment: dict[str, str]) -> Flow:
    module, _, symbol = deployment["entrypoint"].rpartition(".")
    return getattr(importlib.import_module(module), symbol)


def test_the_deployments_have_the_names_that_others_rely_on() -> None:
    assert {f"{flow_of(one).name}/{one['name']}" for one in DEPLOYMENTS} == {
        "execute-training/platform",
        "run-package/form",
        "register-package/form",
        "register-model-package/form",
        "pin-dataset/form",
        "train-package/cpu",
        "reap-uploads/hourly",
    }


def test_only_reaping_runs_by_itself_and_once_at_a_time() -> None:
    scheduled = [one for one in DEPLOYMENTS if "schedules" in one]
    assert [(flow_of(one).name, one["concurrency_limit"]) for one in scheduled] == [
        ("reap-uploads", {"limit": 1, "collision_strategy": "CANCEL_NEW"})
    ]


@pytest.mark.parametrize("deployment", DEPLOYMENTS, ids=lambda one: one["entrypoint"])
def test_every_run_has_the_tag_that_the_automation_watches(deployment: dict[str, str]) -> None:
    assert "mtr" in deployment["tags"]


def test_only_training_needs_a_machine_of_its_own() -> None:
    pools = {flow_of(one).name: one["work_pool"]["name"] for one in DEPLOYMENTS}
    assert pools.pop("train-package") == "mtr-cpu"
    assert set(pools.values()) == {"mtr-control"}


def test_the_automation_is_valid_and_waits_for_three_heartbeats() -> None:
    (described,) = yaml.safe_load((ROOT / "deployments" / "automations.yaml").read_text())
    automation = AutomationCore.model_validate(described)
    assert automation.trigger.within.total_seconds() == 90


def test_applying_without_a_server_says_which_setting_is_missing(tmp_path: Path) -> None:
    with pytest.raises(InvalidSettingsError, match="no Prefect server is configured"):
        apply(Settings(home=tmp_path))
