"""What a stage leaves in the UI."""

from __future__ import annotations

import json
import time
import uuid
from types import SimpleNamespace
from typing import TYPE_CHECKING

import httpx
import pytest
from prefect.logging import disable_run_logger

from tasks import showing, view_client
from tasks.showing import (
    MAX_ARTIFACT_CHARACTERS,
    escape,
    show_markdown,
    show_table,
    update_progress,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from prefect.client.schemas.actions import ArtifactCreate, ArtifactUpdate


def test_a_cell_stays_a_cell() -> None:
    assert escape("a|b\nc<d") == "a\\|b c&lt;d"


class Server:
    """What is sent to it, and how it answers."""

    def __init__(self) -> None:
        self.created: list[ArtifactCreate] = []
        self.changed: list[ArtifactUpdate] = []
        self.away = False
        self.asked = 0

    def create_artifact(self, artifact: ArtifactCreate) -> SimpleNamespace:
        self._answer()
        self.created.append(artifact)
        return SimpleNamespace(id=uuid.uuid4())

    def update_artifact(self, _identity: uuid.UUID, artifact: ArtifactUpdate) -> None:
        self._answer()
        self.changed.append(artifact)

    def _answer(self) -> None:
        self.asked += 1
        if self.away:
            raise httpx.ConnectError("no server")


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    answering = Server()
    monkeypatch.setattr(view_client.ViewClient, "_connected", lambda _self: answering)
    monkeypatch.setattr(showing, "VIEW", view_client.ViewClient())
    with disable_run_logger():
        yield answering


def test_a_view_that_cannot_be_shown_fails_nothing(server: Server) -> None:
    server.away = True
    show_table("rows", [{"a": 1}], "rows")
    assert show_markdown("text", "# text", "text") is None
    with update_progress("progress", "progress") as move:
        move(1, 2)


def test_a_server_that_is_away_is_left_alone_for_a_while(server: Server) -> None:
    server.away = True
    for _ in range(100):
        show_markdown("text", "# text", "text")
    assert server.asked == 1


def test_a_server_that_came_back_is_shown_things_again(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    server.away = True
    show_markdown("text", "# text", "text")
    server.away = False
    now = time.monotonic()
    monkeypatch.setattr(view_client.time, "monotonic", lambda: now + view_client.AWAY_SECONDS + 1)
    assert show_markdown("text", "# text", "text") is not None


def test_a_table_holds_plain_cells(server: Server) -> None:
    show_table("rows", [{"name": ["a"], "count": 3, "none": None}], "rows")
    assert json.loads(server.created[0].data) == [{"name": "['a']", "count": 3, "none": None}]


def test_a_long_table_is_shortened_and_says_so(server: Server) -> None:
    show_table("rows", [{"": f"parameter {number}", "value": "x" * 1000} for number in range(1000)], "rows")
    rows = json.loads(server.created[0].data)
    assert len(server.created[0].data) <= MAX_ARTIFACT_CHARACTERS
    assert rows[-1][""].endswith("have all of it.")


def test_a_text_is_bounded_and_says_so(server: Server) -> None:
    show_markdown("text", "x" * 10**6, "text")
    assert len(server.created[0].data) == MAX_ARTIFACT_CHARACTERS
    assert server.created[0].data.endswith("have all of it.")


def test_progress_ends_at_a_hundred(server: Server) -> None:
    with update_progress("progress", "progress") as move:
        move(1, 2)
    assert server.changed[-1].data == 100.0
