"""Prefect servers of one installation."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from services.orchestrator.environment import child_environment
from services.orchestrator.processes import PrefectServer, answers
from tests.assets.executions import settings_at

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.service


def test_servers_that_meet_a_new_database_at_once_all_start(tmp_path: Path) -> None:
    environment = child_environment(settings_at(tmp_path / "home"), os.environ)

    def start(name: str) -> PrefectServer:
        log = tmp_path / f"{name}.log"
        server = PrefectServer.launch(environment, log=log, cwd=tmp_path, port=None, ui=False)
        try:
            server.wait()
        except BaseException:
            server.stop()
            raise
        return server

    with ThreadPoolExecutor(3) as threads:  # a server ends with the thread that started it
        servers = list(threads.map(start, ["first", "second", "third"]))
        assert [answers(server.api_url) for server in servers] == [True, True, True]
        for server in servers:
            server.stop()
