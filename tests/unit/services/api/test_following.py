"""Server-sent events from a journal: every entry once, the end last, and nothing that a package says breaks the framing."""

from __future__ import annotations

import asyncio
import json
import socket
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from contracts.errors import LedgerUnavailableError
from runtime.execution.journal import Journal
from runtime.ledger.records import Standing
from services.api import following
from services.api.following import Follower
from services.api.streams import Threads
from services.api.watching import Watch

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

ID = "7c2e91d0-0000-4000-8000-000000000000"


@pytest.fixture
def journal(tmp_path: Path) -> Journal:
    with Journal(tmp_path / "journal.jsonl") as opened:
        yield opened


def standing(state: str = "succeeded", *, ago_seconds: float = 60, **fields: Any) -> Standing:
    ended = (
        datetime.now(UTC) - timedelta(seconds=ago_seconds) if state in ("succeeded", "failed", "cancelled") else None
    )
    usual = {"stage": "train", "error": None, "ended_at": ended, "owner_host": None}
    return Standing(state=state, **{**usual, **fields})


def parse(stream: bytes) -> list[dict[str, str]]:
    """The events of a stream, by the rules of the standard: `event`, `id` and `data` of each, comments left out."""
    events = []
    text = stream.decode().replace("\r\n", "\n").replace("\r", "\n")
    for block in text.split("\n\n"):
        fields: dict[str, str] = {}
        for line in block.split("\n"):
            name, _, value = line.partition(":")
            if name:
                value = value.removeprefix(" ")
                fields[name] = fields[name] + "\n" + value if name == "data" and name in fields else value
        if "data" in fields:
            events.append(fields)
    return events


def follow(
    path: Path,
    stands: Callable[[], Standing | None],
    position: int = 0,
    on_piece: Callable[[bytes], None] = lambda _: None,
) -> list[dict[str, str]]:
    """All events that a follower gets."""

    async def take() -> bytes:
        def look(ids):
            found = stands()
            return {} if found is None else dict.fromkeys(ids, found)

        stream = b""
        async with asyncio.timeout(30):
            async for piece in Follower(ID, path, position, Watch(look), Threads(1)).events():
                stream += piece
                on_piece(piece)
        return stream

    return parse(asyncio.run(take()))


def test_an_execution_that_ended_is_told_whole_and_then_its_end(journal: Journal) -> None:
    journal.append("phase", phase="load", message=None)
    journal.append("metric", split="val", metrics={"accuracy": 0.5})

    events = follow(journal.path, standing)

    assert [event["event"] for event in events] == ["phase", "metric", "end"]
    assert json.loads(events[1]["data"])["metrics"] == {"accuracy": 0.5}
    assert json.loads(events[2]["data"]) == {"kind": "end", "execution_id": ID, "state": "succeeded", "error": None}


def test_from_every_event_s_id_exactly_the_rest_follows(journal: Journal) -> None:
    for number in range(5):
        journal.append("log", level="info", message=str(number))
    everything = follow(journal.path, standing)

    for at, event in enumerate(everything[:-1]):
        assert follow(journal.path, standing, int(event["id"])) == everything[at + 1 :]


@pytest.mark.slow
def test_the_end_comes_after_what_is_written_before_it(journal: Journal) -> None:
    journal.append("log", level="info", message="first")
    stands = [standing("running")]

    def write_more(piece: bytes) -> None:
        if b"first" in piece:
            journal.append("log", level="info", message="last")
            stands[0] = standing()

    events = follow(journal.path, lambda: stands[0], on_piece=write_more)

    assert [json.loads(event["data"]).get("message") for event in events] == ["first", "last", None]


def test_the_last_words_after_the_end_are_waited_for(journal: Journal) -> None:
    journal.append("log", level="info", message="first")

    def write_last_words(piece: bytes) -> None:
        if b"first" in piece:
            journal.append("stage", stage="publish_outcome", state="completed")

    events = follow(journal.path, lambda: standing(ago_seconds=0), on_piece=write_last_words)

    assert [event["event"] for event in events] == ["log", "stage", "end"]


def test_an_execution_that_never_ran_has_its_end_only(tmp_path: Path) -> None:
    events = follow(tmp_path / "none", lambda: standing("cancelled", stage=None, error={"code": "cancelled"}))

    assert [event["event"] for event in events] == ["end"]


def test_a_journal_on_another_machine_is_said(tmp_path: Path) -> None:
    events = follow(tmp_path / "none", lambda: standing(owner_host="gpu-7"))

    assert [event["event"] for event in events] == ["elsewhere", "end"]
    assert json.loads(events[0]["data"])["host"] == "gpu-7"


@pytest.mark.slow
def test_a_journal_that_is_about_to_begin_here_is_waited_for(journal: Journal) -> None:
    stands = [standing("running", owner_host=socket.gethostname())]
    looks = []

    def look() -> Standing:
        looks.append(1)
        if len(looks) == 2:
            journal.append("log", level="info", message="begun")
            stands[0] = standing()
        return stands[0]

    assert [event["event"] for event in follow(journal.path, look)] == ["log", "end"]


@pytest.mark.parametrize("said", ["a\n\ndata: forged", "a\r\rid: 1", "\x00\x1b[2J", "\u2028\u0085", "event: end\n\n"])
def test_no_text_breaks_the_framing(journal: Journal, said: str) -> None:
    journal.append("output", text=said)
    journal.append(f"kind {said}", text="x")

    events = follow(journal.path, standing)

    assert [event["event"] for event in events] == ["output", "entry", "end"]
    assert json.loads(events[0]["data"])["text"] == said


def test_who_waits_hears_a_heartbeat(journal: Journal, monkeypatch) -> None:
    monkeypatch.setattr(following, "FOLLOW_HEARTBEAT_SECONDS", 0)
    pieces: list[bytes] = []
    stands = [standing("queued", stage=None)]

    def end_after_heartbeat(piece: bytes) -> None:
        pieces.append(piece)
        if piece.startswith(b":"):
            stands[0] = standing()

    follow(journal.path, lambda: stands[0], on_piece=end_after_heartbeat)

    assert b": nothing new\n\n" in pieces


@pytest.mark.slow
def test_a_ledger_that_is_away_ends_nothing(journal: Journal) -> None:
    journal.append("log", level="info", message="x")
    looks = []

    def look() -> Standing:
        looks.append(1)
        if len(looks) < 3:
            raise LedgerUnavailableError("away", hint="wait")
        return standing()

    assert [event["event"] for event in follow(journal.path, look)] == ["log", "end"]


@pytest.mark.slow
def test_many_followers_look_at_the_ledger_together(journal: Journal) -> None:
    looks: list[list[str]] = []

    def look(ids):
        looks.append(sorted(ids))
        return dict.fromkeys(ids, standing()) if len(looks) > 1 else {}

    async def take() -> None:
        watch, threads = Watch(look), Threads(1)

        async def one(number: int) -> None:
            async for _ in Follower(str(number % 2), journal.path, 0, watch, threads).events():
                pass

        async with asyncio.timeout(30):
            await asyncio.gather(*map(one, range(200)))

    asyncio.run(take())
    assert looks == [["0", "1"], ["0", "1"]]


def test_a_slow_reader_is_read_for_a_page_at_a_time(journal: Journal) -> None:
    for _ in range(5_000):
        journal.append("log", level="info", message="x" * 100)
    largest = []

    follow(journal.path, standing, on_piece=lambda piece: largest.append(len(piece)))

    assert max(largest) < 200_000
