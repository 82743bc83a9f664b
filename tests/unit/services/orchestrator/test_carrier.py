"""Processes that carry executions out: one an execution, no more than there are places, whoever starts them."""

from __future__ import annotations

import os
import threading
import uuid
from typing import TYPE_CHECKING

import pytest

from services.orchestrator.carrier import _environment, carried_here, start_carrier, take_place
from tests.assets.executions import settings_at

if TYPE_CHECKING:
    from pathlib import Path

    from runtime.settings import Settings

UNKNOWN = str(uuid.uuid4())
"""No ledger has it, so whoever is to carry it out ends soon."""


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return settings_at(tmp_path / "home", MTR_MAX_EXECUTIONS="2")


def test_there_are_as_many_places_as_executions_at_once(settings: Settings) -> None:
    taken = [take_place(settings) for _ in range(3)]
    assert [place is not None for place in taken] == [True, True, False]

    os.close(taken[0])
    again = take_place(settings)
    assert again is not None
    os.close(again)
    os.close(taken[1])


def test_an_execution_that_is_carried_out_here_is_not_started_elsewhere(settings: Settings) -> None:
    with carried_here(settings, UNKNOWN):
        assert not start_carrier(settings, UNKNOWN)


@pytest.mark.slow
def test_a_process_holds_its_execution_and_its_place_from_its_start_to_its_end(settings: Settings) -> None:
    settings = settings.model_copy(update={"max_executions": 1})
    ended = threading.Event()
    place = take_place(settings)
    assert start_carrier(settings, UNKNOWN, place=place, ended=ended.set)
    os.close(place)

    assert take_place(settings) is None
    assert not start_carrier(settings, UNKNOWN)

    assert ended.wait(60)
    assert "no execution" in (settings.executions_root / UNKNOWN / "detached.log").read_text()
    place = take_place(settings)
    assert place is not None
    os.close(place)


def test_what_starts_packages_does_not_know_the_secrets_of_the_doors(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = type(settings.api_token)("s3cret")
    monkeypatch.setenv("RABBITMQ_PASSWORD", "s3cret")
    told = _environment(settings.model_copy(update={"api_token": secret, "api_previous_token": secret}))
    assert "s3cret" not in told.values()
