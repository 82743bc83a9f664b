"""`mtr up`: a server, its UI, a worker and the HTTP API, used by the other commands, and gone after a Ctrl-C."""

from __future__ import annotations

import json
import signal
import time
import urllib.request
from typing import TYPE_CHECKING

import psutil
import pytest

from tests.assets.cli_inputs import write_class_folders, write_package
from tests.assets.mtr_program import WAIT_SECONDS, Mtr

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.service


class Up:
    """A running `mtr up`."""

    def __init__(self, mtr: Mtr) -> None:
        self.mtr = mtr
        self.process = mtr.start("up", "--port", "0", "--api-port", "0", "--json")
        self.links = json.loads(self._document())
        self.tree = psutil.Process(self.process.pid).children(recursive=True)

    def _document(self) -> str:
        said = ""
        for line in self.process.stdout:
            said += line
            if line.startswith("}"):
                return said
        raise AssertionError(self.process.stderr.read())

    def end(self, number: int = signal.SIGINT) -> int:
        self.process.send_signal(number)
        self.process.communicate(timeout=WAIT_SECONDS)
        return self.process.returncode


@pytest.fixture(scope="module")
def mtr(tmp_path_factory) -> Mtr:
    return Mtr(tmp_path_factory.mktemp("installation") / "home")


@pytest.fixture(scope="module")
def up(mtr) -> Iterator[Up]:
    running = Up(mtr)
    try:
        yield running
    finally:
        if running.process.poll() is None:
            running.end()


def test_the_links_answer(up) -> None:
    assert up.links.keys() == {"ui", "form", "api", "runtime_api"}
    asked = urllib.request.Request(up.links["ui"], headers={"Accept": "text/html"})
    with urllib.request.urlopen(asked, timeout=30) as page:
        assert b"<html" in page.read(4096).lower()


def test_the_http_api_executes_as_one_s_own_machine_does(up) -> None:
    with urllib.request.urlopen(f"{up.links['runtime_api']}/health", timeout=30) as answer:
        said = json.load(answer)

    assert (said["mode"], said["execution_enabled"]) == ("in_service_execution", True)


def test_doctor_finds_the_http_api_where_base_url_says(mtr, up) -> None:
    found = mtr("doctor", PREFECT_API_URL=up.links["api"], MTR_BASE_URL=up.links["runtime_api"])

    assert {check["name"]: check["status"] for check in found.document["checks"]}["http api"] == "ok"


def test_a_port_of_the_api_that_is_taken_is_said_before_anything_starts(mtr, up) -> None:
    taken = up.links["runtime_api"].rpartition(":")[2]
    refused = mtr("up", "--port", "0", "--api-port", taken)

    assert (refused.code, refused.document["error"]["code"]) == (4, "conflict")


def test_what_up_applied_needs_nothing_more(mtr, up) -> None:
    applied = mtr("apply", "--dry-run", PREFECT_API_URL=up.links["api"])
    assert applied.code == 0
    assert applied.document["dry_run"] is True
    assert {one["action"] for one in applied.document["differences"]} == {"keep"}


def test_doctor_finds_the_server(mtr, up) -> None:
    assert mtr("doctor", PREFECT_API_URL=up.links["api"]).code == 0


def test_doctor_says_when_the_server_is_away(mtr) -> None:
    found = mtr("doctor", PREFECT_API_URL="http://127.0.0.1:9/api")
    assert found.code == 5
    (failed,) = [check for check in found.document["checks"] if check["status"] == "failed"]
    assert failed["name"] == "orchestrator"
    assert "PREFECT_API_URL" in failed["remedy"]


def test_a_detached_run_is_carried_out_by_the_worker(mtr, up, tmp_path) -> None:
    data = write_class_folders(tmp_path / "pets")
    mtr("dataset", "import", data, "--name", "pets")
    shown = mtr("dataset", "show", "pets").document
    kinds = {name: shown[name] for name in ("task_kind", "data_modalities", "annotation_kinds")}
    package = write_package(tmp_path / "counter", supported_tasks=[kinds])
    detached = mtr("run", package, "--data", "pets", "--memory", "1GiB", "--detach", PREFECT_API_URL=up.links["api"])
    assert detached.code == 0, detached.stderr
    assert detached.document["ui_url"].startswith(up.links["ui"].partition("/v2")[0])
    deadline = time.monotonic() + WAIT_SECONDS
    while (now := mtr("executions", "show", detached.document["execution_id"]).document)["state"] in {
        "queued",
        "running",
    }:
        assert time.monotonic() < deadline, now
    assert now["state"] == "succeeded"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ending_it_leaves_nothing(mtr, up, tmp_path, number: int) -> None:
    own = up if number == signal.SIGINT else Up(Mtr(tmp_path / "home"))
    assert len(own.tree) >= 3
    assert own.end(number) == 0
    assert not [process for process in own.tree if process.is_running() and process.status() != psutil.STATUS_ZOMBIE]
