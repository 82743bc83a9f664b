"""What `mtr doctor` says of the platform's settings."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from runtime.installation import Installation
from runtime.settings import Settings
from services.cli.checks import _policy
from services.cli.platform_checks import platform_checks
from tests.assets.nacos_server import NacosServer

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

DOCUMENT = """
model-training-runtime:
  enabled: true
  tokn: x
  token: hush
  execution: {enabled: "true", runtime_ids: [base, torch]}
local-s3-config: {region: eu}
"""


@pytest.fixture
def nacos() -> Iterator[NacosServer]:
    with NacosServer() as running:
        yield running


def lines(settings: Settings) -> list[tuple[str, str, str]]:
    return [(check.name, check.status, check.message) for check in platform_checks(settings)]


def test_a_document_is_shown_with_its_faults_and_what_holds_from_where(nacos: NacosServer, tmp_path: Path) -> None:
    nacos.publish(DOCUMENT)
    section = "model-training-runtime"

    found = lines(Settings(home=tmp_path, use_nacos=True, nacos_server_addr=nacos.address))

    assert found == [
        (
            "platform settings",
            "ok",
            f"read AUTO_ML/AUTO_ML_CONFIG in namespace public of Nacos at http://{nacos.address}/nacos",
        ),
        ("platform settings", "warning", f"{section}.tokn is no setting of this service; it is not used"),
        ("platform settings", "warning", f"{section}.execution.enabled is text, must be true; execution stays off"),
        (
            "in force",
            "ok",
            (
                f"allow_script_managed_data = false from {section}.allow_script_managed_data; "
                f"api_token = (secret) from {section}.token; "
                f"execution_enabled = false from {section}.enabled and {section}.execution.enabled; "
                f"runtime_ids = base, torch from {section}.execution.runtime_ids; "
                "s3_region = eu from local-s3-config.region"
            ),
        ),
    ]


def test_a_document_that_is_not_there_is_a_warning(nacos: NacosServer, tmp_path: Path) -> None:
    found = lines(Settings(home=tmp_path, use_nacos=True, nacos_server_addr=nacos.address))

    assert found[1][1:] == (
        "warning",
        (
            f"there is no AUTO_ML/AUTO_ML_CONFIG in namespace public of Nacos at http://{nacos.address}/nacos; "
            "execution stays off"
        ),
    )


def test_a_nacos_that_does_not_answer_fails_with_what_to_do(nacos: NacosServer, tmp_path: Path) -> None:
    nacos.stop()

    first, *_ = platform_checks(Settings(home=tmp_path, use_nacos=True, nacos_server_addr=nacos.address))

    assert (first.status, first.exit_code) == ("failed", 5)
    assert first.message.endswith("Connection refused; execution stays off")
    assert "NACOS_SERVER_ADDR" in first.remedy


@pytest.mark.parametrize("use_nacos", [None, False])
def test_where_nacos_is_not_meant_it_is_not_asked(nacos: NacosServer, tmp_path: Path, use_nacos: object) -> None:
    found = lines(Settings(home=tmp_path, use_nacos=use_nacos, nacos_server_addr=nacos.address))

    assert [(name, status) for name, status, _ in found] == [("platform settings", "ok")]
    assert nacos.requests == []


def test_the_policy_s_line_names_the_platform_s_setting(
    nacos: NacosServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nacos.publish(DOCUMENT)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MTR_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("MTR_USE_NACOS", "true")
    monkeypatch.setenv("MTR_NACOS_SERVER_ADDR", nacos.address)

    with Installation.open() as here:
        found = _policy(here.settings)

    assert found.message == "model-training-runtime.execution.enabled is text, must be true"
