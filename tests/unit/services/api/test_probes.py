"""Asking dependencies: in parallel, bounded, and not more often than is good for them."""

from __future__ import annotations

import asyncio
import shutil
import socket
import threading
from typing import TYPE_CHECKING

import pytest

from contracts.errors import StorageUnavailableError
from contracts.limits import MIB
from runtime.installation import Installation
from runtime.live_installation import Fixed
from services.api import probes as module
from services.api.probes import Probe, Probes, probes_of
from tests.assets.executions import settings_at

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def ask(probes: Probes, times: int = 1) -> list:
    async def all_of_them() -> list:
        async with asyncio.timeout(60):
            return await asyncio.gather(*(probes.answers() for _ in range(times)))

    try:
        return asyncio.run(all_of_them())
    finally:
        probes.close()


def fails() -> str:
    raise StorageUnavailableError("the store is away", hint="start it")


def test_each_dependency_answers_for_itself() -> None:
    (found,) = ask(
        Probes(
            {
                "a": Probe(lambda: "well", needed=True),
                "b": Probe(fails, needed=False),
                "c": Probe(lambda: None, needed=False),
            }
        )
    )

    assert {name: (answer.state, answer.message) for name, answer in found.items()} == {
        "a": ("ok", "well"),
        "b": ("unavailable", "the store is away"),
        "c": ("unused", "none is configured"),
    }


def test_one_that_says_nothing_is_not_waited_for_and_hinders_no_other(monkeypatch) -> None:
    monkeypatch.setattr(module, "PROBE_SECONDS", 0.2)
    released = threading.Event()
    (found,) = ask_then(
        Probes(
            {"slow": Probe(lambda: str(released.wait(60)), needed=True), "quick": Probe(lambda: "well", needed=True)}
        ),
        released.set,
    )

    assert (found["slow"].state, found["quick"].state) == ("unavailable", "ok")


def ask_then(probes: Probes, release: Callable[[], None], times: int = 1) -> list:
    async def all_of_them() -> list:
        try:
            return [await probes.answers() for _ in range(times)]
        finally:
            release()

    try:
        return asyncio.run(all_of_them())
    finally:
        probes.close()


def test_one_that_says_nothing_is_asked_once_at_a_time(monkeypatch) -> None:
    monkeypatch.setattr(module, "PROBE_SECONDS", 0.05)
    monkeypatch.setattr(module, "PROBE_MEMORY_SECONDS", 0)
    released, asked = threading.Event(), []

    def slow() -> str:
        asked.append(1)
        return str(released.wait(60))

    ask_then(Probes({"slow": Probe(slow, needed=True)}), released.set, times=5)

    assert len(asked) == 1


def test_many_who_ask_at_once_cost_one_asking() -> None:
    asked = []
    ask(Probes({"a": Probe(lambda: str(asked.append(1)), needed=True)}), times=50)

    assert len(asked) == 1


def test_a_defect_of_one_probe_hides_no_other() -> None:
    (found,) = ask(Probes({"a": Probe(lambda: 1 / 0, needed=True), "b": Probe(lambda: "well", needed=True)}))

    assert {name: answer.state for name, answer in found.items()} == {"a": "unavailable", "b": "ok"}


def test_a_new_installation_is_well(tmp_path: Path) -> None:
    with Installation.open(settings_at(tmp_path / "home")) as here:
        here.ledger.figures()  # its tables are made now: on a busy machine that takes longer than a probe waits
        (found,) = ask(probes_of(Fixed(here)))

    states = {name: answer.state for name, answer in found.items()}
    assert states == {"store": "ok", "ledger": "ok", "prefect": "unused", "broker": "unused"}


def test_a_store_that_is_a_file_is_said(tmp_path: Path) -> None:
    with Installation.open(settings_at(tmp_path / "home")) as here:
        here.settings.store_root.write_text("")
        (found,) = ask(probes_of(Fixed(here)))

    assert found["store"].message == f"{here.settings.store_root} is no folder"


def test_a_broker_that_takes_no_connections_is_said(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound, and not listening: connections are refused
        port = str(taken.getsockname()[1])
        with Installation.open(settings_at(tmp_path / "home", RABBITMQ_HOST="127.0.0.1", RABBITMQ_PORT=port)) as here:
            (found,) = ask(probes_of(Fixed(here)))

    assert (found["broker"].state, found["broker"].needed) == ("unavailable", False)


def test_a_prefect_server_that_is_away_is_said(tmp_path: Path, monkeypatch) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        monkeypatch.setenv("PREFECT_API_URL", f"http://127.0.0.1:{taken.getsockname()[1]}/api")
        with Installation.open(settings_at(tmp_path / "home")) as here:
            (found,) = ask(probes_of(Fixed(here)))

    assert "does not answer" in found["prefect"].message


@pytest.mark.service
def test_a_ledger_whose_server_is_away_is_said(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        url = f"postgresql+psycopg://nobody@127.0.0.1:{taken.getsockname()[1]}/none"
        with Installation.open(settings_at(tmp_path / "home", MTR_DATABASE_URL=url)) as here:
            (found,) = ask(probes_of(Fixed(here)))

    assert (found["ledger"].state, found["ledger"].needed) == ("unavailable", True)


def test_a_full_disk_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = shutil.disk_usage(tmp_path)
    with Installation.open(settings_at(tmp_path / "home")) as here:
        here.ledger.figures()
        monkeypatch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=100 * MIB))
        (found,) = ask(probes_of(Fixed(here)))

    assert (found["store"].state, found["ledger"].state) == ("unavailable", "ok")
    assert found["store"].message == f"the disk of {here.settings.home} has 100.0 MiB left, and 512.0 MiB are needed"
