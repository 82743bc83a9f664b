"""An installation: its parts are made once, when they are first asked for."""

from __future__ import annotations

import stat
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from contracts.errors import InvalidSettingsError
from runtime.installation import Installation
from runtime.settings import Settings


@pytest.fixture
def installation(tmp_path):
    with Installation.open(Settings(home=tmp_path / "home")) as opened:
        yield opened


def test_home_is_made_for_its_owner_alone(installation) -> None:
    assert stat.S_IMODE(installation.settings.home.stat().st_mode) == 0o700


def test_a_home_that_cannot_be_made_is_named_with_the_setting(tmp_path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InvalidSettingsError, match="file/home, which cannot be made") as caught:
        Installation.open(Settings(home=tmp_path / "file" / "home"))
    assert "MTR_HOME" in caught.value.hint


def test_opening_makes_no_more_than_the_folder(installation) -> None:
    assert list(installation.settings.home.iterdir()) == []


@pytest.mark.parametrize(
    "part", ["store", "ledger", "cache", "packages", "model_packages", "snapshots", "models", "datasets"]
)
def test_a_part_is_made_once_however_many_threads_ask(installation, part) -> None:
    together = threading.Barrier(8)

    def ask(_: int) -> object:
        together.wait()
        return getattr(installation, part)

    with ThreadPoolExecutor(8) as pool:
        assert len({id(found) for found in pool.map(ask, range(8))}) == 1


def test_a_closed_installation_makes_its_parts_anew(installation) -> None:
    first = installation.ledger
    assert first.next_task_id() == 1

    installation.close()

    assert installation.ledger is not first
    assert installation.ledger.next_task_id() == 2


def test_settings_that_are_not_given_are_those_of_the_current_folder(tmp_path, monkeypatch) -> None:
    (tmp_path / "mtr.toml").write_text("")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("MTR_HOME", raising=False)

    with Installation.open() as opened:
        assert opened.settings.home == tmp_path / ".mtr"


def test_wrong_settings_open_nothing(tmp_path, monkeypatch) -> None:
    (tmp_path / "mtr.toml").write_text("hom = 1")
    monkeypatch.chdir(tmp_path)

    with pytest.raises(InvalidSettingsError, match="did you mean home"):
        Installation.open()


def test_an_installation_costs_no_database_and_no_store_before_they_are_asked_for() -> None:
    program = (
        "import sys, runtime.installation\n"
        "heavy = {'sqlalchemy', 'alembic', 'opendal', 'prefect', 'jsonschema', 'numpy'} & set(sys.modules)\n"
        "assert not heavy, heavy"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
