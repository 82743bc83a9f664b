"""What the platform writes into Nacos holds for the next execution, on the command line and on workers."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest

from runtime.installation import Installation
from runtime.settings import Settings
from services import orchestrator
from services.orchestrator import Stack
from tests.assets.api_server import ApiServer
from tests.assets.executions import ASSETS, Site, settings_at, write_images
from tests.assets.nacos_server import NacosServer
from tests.assets.produced_codes import note_codes

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.service

ON = "model-training-runtime: {enabled: true, execution: {enabled: true}}\n"
OFF = "model-training-runtime: {enabled: true, execution: {enabled: false}}\n"
TEXT = 'model-training-runtime: {enabled: "true", execution: {enabled: true}}\n'
REFUSED_OFF = "model-training-runtime.execution.enabled is false"

LOOK = (
    "from blocks.configuration import open_served_installation\n"
    "with open_served_installation() as here: print(here.settings.execution_enabled)\n"
)
"""What a worker's flow does first, in a process of its own."""


@pytest.fixture
def nacos() -> Iterator[NacosServer]:
    with NacosServer() as running:
        yield running


@pytest.fixture
def site(tmp_path: Path, nacos: NacosServer) -> Site:
    settings = settings_at(tmp_path / "home", USE_NACOS="true", NACOS_SERVER_ADDR=nacos.address)
    return Site(settings)


def program(site: Site, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments],
        env=site.environment(),
        cwd=ASSETS.parents[1],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def seen_by_a_worker(site: Site) -> str:
    return program(site, "-c", LOOK).stdout.strip()


def submission_of(site: Site, folder: Path):
    """A submission of a site whose machine allows what its platform may not."""
    allowing = Site(site.settings.model_copy(update={"use_nacos": False}))
    return allowing.submission(data=write_images(folder / "images"))


def test_a_command_is_refused_by_the_platform_s_setting_and_then_is_not(
    site: Site, nacos: NacosServer, tmp_path: Path
) -> None:
    submission = submission_of(site, tmp_path)
    nacos.publish(OFF)
    refused = json.loads(site.submit(submission).stdout)
    nacos.publish(ON)

    done = site.submit(submission)

    assert refused["error"]["message"] == REFUSED_OFF
    assert done.returncode == 0, done.stderr
    site.require_one_clean_success(submission.execution_id)


def test_a_command_says_what_is_wrong_with_the_document(site: Site, nacos: NacosServer, tmp_path: Path) -> None:
    nacos.publish(TEXT)

    done = site.submit(submission_of(site, tmp_path))

    assert "model-training-runtime.enabled is text, must be true; execution stays off" in done.stderr
    assert json.loads(done.stdout)["error"]["message"] == ("model-training-runtime.enabled is text, must be true")


def test_a_flow_s_process_goes_by_the_document_of_its_moment_and_by_the_last_good_one(
    site: Site, nacos: NacosServer
) -> None:
    seen = []
    for text in (OFF, ON, OFF, ON):
        nacos.publish(text)
        seen.append(seen_by_a_worker(site))
    nacos.stop()
    seen.append(seen_by_a_worker(site))

    assert seen == ["False", "True", "False", "True", "True"]


def test_a_flow_s_process_that_never_saw_a_document_stays_off(site: Site, nacos: NacosServer) -> None:
    nacos.stop()

    assert seen_by_a_worker(site) == "False"


def test_a_worker_s_run_is_refused_and_the_next_one_is_not_without_a_restart(
    site: Site, nacos: NacosServer, tmp_path: Path
) -> None:
    nacos.publish(OFF)
    submissions = [submission_of(site, tmp_path / name) for name in "ab"]
    ended = []
    with (
        Stack.start(site.settings, port=None) as stack,
        stack.as_client(),
        Installation.open(site.settings) as here,
    ):
        for text, submission in zip((OFF, ON), submissions, strict=True):
            nacos.publish(text)
            here.ledger.accept(submission, label="quick 1.0.0 on images")
            orchestrator.run_deployed(here, submission.execution_id)
            ended.append(_ended(here, submission.execution_id))

    assert [(execution.state, execution.error and execution.error["message"]) for execution in ended] == [
        ("failed", REFUSED_OFF),
        ("succeeded", None),
    ]
    note_codes(ended[0].error["code"])


def _ended(here: Installation, execution_id: str):
    deadline = time.monotonic() + 240
    while (execution := here.ledger.get(execution_id)).state in {"queued", "running"}:
        assert time.monotonic() < deadline, execution
        time.sleep(0.2)
    return execution


def test_the_http_api_follows_the_document_while_it_serves(nacos: NacosServer, tmp_path: Path) -> None:
    nacos.publish("model-training-runtime: {enabled: true, token: first, execution: {enabled: false}}\n")
    with ApiServer(tmp_path / "home", USE_NACOS="true", NACOS_SERVER_ADDR=nacos.address) as api:
        before = _as_served(api)
        nacos.publish("model-training-runtime: {enabled: true, token: second, execution: {enabled: true}}\n")
        _wait_until_on(api)
        after = _as_served(api)
        nacos.stop()
        _wait_until_logged(api, "the last good settings stay")
        away = _as_served(api)

    assert before == (False, 422, 401)
    assert after == away == (True, 401, 422)


def test_the_http_api_that_starts_without_nacos_is_up_and_runs_nothing(nacos: NacosServer, tmp_path: Path) -> None:
    nacos.stop()
    with ApiServer(tmp_path / "home", USE_NACOS="true", NACOS_SERVER_ADDR=nacos.address) as api:
        away = _as_served(api)
        nacos.publish("model-training-runtime: {enabled: true, token: second, execution: {enabled: true}}\n")
        nacos.start()
        _wait_until_on(api)
        back = _as_served(api)

    assert away == (False, 401, 401)
    assert back == (True, 401, 422)


def _as_served(api: ApiServer) -> tuple[bool, int, int]:
    """Whether execution is on, and what a write gets that bears the first token, and the second."""
    first, second = (
        api.ask("POST", "/v1/registrations/dataset-snapshots", b"{}", {"Authorization": f"Bearer {token}"}).status
        for token in ("first", "second")
    )
    return _is_on(api), first, second


def _is_on(api: ApiServer) -> bool:
    return api.ask("GET", "/health").document["execution_enabled"]


def _wait_until_on(api: ApiServer) -> None:
    deadline = time.monotonic() + 60
    while not _is_on(api):
        assert time.monotonic() < deadline, api.log
        time.sleep(0.05)


def _wait_until_logged(api: ApiServer, text: str) -> None:
    deadline = time.monotonic() + 60
    while text not in api.log:
        assert time.monotonic() < deadline, api.log
        time.sleep(0.05)


def test_what_serves_without_nacos_does_not_ask_it(site: Site, nacos: NacosServer) -> None:
    without = Site(
        Settings(home=site.settings.home, use_nacos=False, nacos_server_addr=nacos.address, execution_enabled=True)
    )

    assert seen_by_a_worker(without) == "True"
    assert nacos.requests == []
