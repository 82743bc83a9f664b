"""What holds while Nacos answers, and while it does not."""

from __future__ import annotations

import os
import stat
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from contracts.limits import LAST_GOOD_SECONDS
from runtime.platform_settings import FileSettings, NacosSettings, uses_nacos
from runtime.platform_settings.memory import FILE_NAME
from runtime.settings import Settings
from tests.assets.nacos_server import NacosServer

if TYPE_CHECKING:
    from collections.abc import Iterator

    from contracts.admission import ExecutionPolicy

ON = "model-training-runtime: {enabled: true, token: hush, execution: {enabled: true, max_processes: 5}}\n"
OFF = "model-training-runtime: {enabled: true, execution: {enabled: false, max_processes: 6}}\n"


@pytest.fixture
def server() -> Iterator[NacosServer]:
    with NacosServer() as running:
        yield running


@pytest.fixture
def machine(server: NacosServer, tmp_path: Path) -> Settings:
    return Settings(home=tmp_path / "home", nacos_server_addr=server.address, execution_enabled=True)


def why_off(policy: ExecutionPolicy) -> list[str]:
    return [f"{origin.setting} {origin.reason}" for origin in policy.origins_of("execution_enabled")]


def test_a_change_holds_for_the_next_reading(server: NacosServer, machine: Settings) -> None:
    source = NacosSettings(machine)
    said = []
    for text in (OFF, ON, OFF):
        server.publish(text)
        said.append(source.read().settings.execution_enabled)

    assert said == [False, True, False]


def test_a_reading_says_where_each_setting_was_decided(server: NacosServer, machine: Settings) -> None:
    server.publish(ON)

    places = NacosSettings(machine).read().places

    assert places["max_processes"] == "model-training-runtime.execution.max_processes"
    assert places["execution_enabled"] == (
        "model-training-runtime.enabled and model-training-runtime.execution.enabled"
    )


def test_unreachable_from_the_start_is_off_whatever_the_machine_says(server: NacosServer, machine: Settings) -> None:
    server.stop()

    reading = NacosSettings(machine).read()

    assert reading.fault is not None
    assert why_off(reading.settings.policy()) == [
        f"model-training-runtime.execution.enabled is not known: {reading.fault.message}"
    ]
    assert reading.warnings == (f"{reading.fault.message}; execution stays off",)


def test_unreachable_from_the_start_does_not_open_the_api(server: NacosServer, machine: Settings) -> None:
    server.stop()

    assert NacosSettings(machine).read().settings.api_token.get_secret_value() != ""


@pytest.mark.parametrize("broken", [403, 500, "garbage"])
def test_later_the_last_good_settings_stay(server: NacosServer, machine: Settings, broken: str | int) -> None:
    server.publish(ON)
    source = NacosSettings(machine)
    good = source.read().settings
    server.broken = broken

    reading = source.read()

    assert reading.settings == good
    assert reading.warnings == (f"{reading.fault.message}; the last good settings stay",)


def test_a_document_that_was_spoiled_leaves_the_last_good_settings(server: NacosServer, machine: Settings) -> None:
    server.publish(ON)
    source = NacosSettings(machine)
    good = source.read().settings
    server.publish(ON + ON)

    reading = source.read()

    assert reading.settings == good
    assert reading.fault.message.endswith("model-training-runtime is given twice, line 1")
    assert reading.warnings == (f"{reading.fault.message}; the last good settings stay",)


def test_after_an_outage_what_nacos_says_holds_again(server: NacosServer, machine: Settings) -> None:
    server.publish(ON)
    source = NacosSettings(machine)
    source.read()
    server.stop()
    source.read()
    server.publish(OFF)
    server.start()

    reading = source.read()

    assert (reading.fault, reading.warnings, reading.settings.max_processes) == (None, (), 6)


def test_a_document_that_was_removed_turns_execution_off_also_for_later_processes(
    server: NacosServer, machine: Settings
) -> None:
    server.publish(ON)
    source = NacosSettings(machine)
    source.read()
    server.documents.clear()

    removed = source.read()
    server.stop()

    assert removed.fault is None
    assert removed.warnings == (f"there is no {source.name}; execution stays off",)
    assert not source.read().settings.execution_enabled
    assert not NacosSettings(machine).read().settings.execution_enabled


def test_the_next_process_of_an_execution_goes_by_what_was_good_last(server: NacosServer, machine: Settings) -> None:
    server.publish(ON)
    good = NacosSettings(machine).read().settings
    server.stop()

    assert NacosSettings(machine).read().settings == good


def test_a_program_that_serves_stays_off_until_nacos_has_answered_it(server: NacosServer, machine: Settings) -> None:
    server.publish(ON)
    NacosSettings(machine).read()
    server.stop()
    source = NacosSettings(machine, long_lived=True)

    reading = source.read()
    server.start()

    assert not reading.settings.execution_enabled
    assert (reading.settings.max_processes, reading.settings.api_token.get_secret_value()) == (5, "hush")
    assert why_off(reading.settings.policy())[0].startswith(
        "model-training-runtime.execution.enabled is not known since this program started: "
    )
    assert source.read().settings.execution_enabled


def test_what_is_kept_is_its_owner_s_alone(server: NacosServer, machine: Settings) -> None:
    server.publish(ON)
    NacosSettings(machine).read()

    (kept,) = machine.home.iterdir()
    assert (kept.name, stat.S_IMODE(kept.stat().st_mode)) == (FILE_NAME, 0o600)


def test_what_was_kept_a_day_ago_no_longer_counts(server: NacosServer, machine: Settings) -> None:
    server.publish(ON)
    NacosSettings(machine).read()
    server.stop()
    then = time.time() - LAST_GOOD_SECONDS - 1
    os.utime(machine.home / FILE_NAME, (then, then))

    assert not NacosSettings(machine).read().settings.execution_enabled


def test_every_good_answer_makes_it_count_anew(server: NacosServer, machine: Settings) -> None:
    server.publish(ON)
    source = NacosSettings(machine)
    source.read()
    os.utime(machine.home / FILE_NAME, (1, 1))
    source.read()
    server.stop()

    assert NacosSettings(machine).read().settings.execution_enabled


def test_what_another_place_said_does_not_count(server: NacosServer, machine: Settings) -> None:
    server.publish(ON)
    NacosSettings(machine).read()
    server.stop()

    elsewhere = machine.model_copy(update={"nacos_namespace": "lab"})
    assert not NacosSettings(elsewhere).read().settings.execution_enabled


@pytest.mark.slow
@pytest.mark.parametrize("content", [b"", b"{}", b"[]", b'{"place": 1, "document": 2}', b"\xff"])
def test_a_kept_file_that_was_spoiled_is_as_none(server: NacosServer, machine: Settings, content: bytes) -> None:
    server.publish(ON)
    NacosSettings(machine).read()
    server.stop()
    (machine.home / FILE_NAME).write_bytes(content)

    assert not NacosSettings(machine).read().settings.execution_enabled


def test_a_home_that_cannot_be_written_costs_only_the_memory(server: NacosServer, tmp_path: Path) -> None:
    server.publish(ON)
    (tmp_path / "file").write_text("")
    machine = Settings(home=tmp_path / "file" / "home", nacos_server_addr=server.address)

    assert NacosSettings(machine).read().settings.execution_enabled


@pytest.mark.parametrize(
    ("use_nacos", "served", "answer"),
    [(None, True, True), (None, False, False), (True, False, True), (False, True, False)],
)
def test_only_what_serves_reads_nacos_unless_it_is_said(tmp_path: Path, use_nacos, served, answer) -> None:
    assert uses_nacos(Settings(home=tmp_path, use_nacos=use_nacos), served=served) is answer


def test_files_are_read_anew_each_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    source = FileSettings()
    before = source.read().settings.execution_enabled
    Path("mtr.toml").write_text("execution_enabled = true\n")

    assert (before, source.read().settings.execution_enabled) == (False, True)
