"""What an operator's Prometheus reads."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest
from prometheus_client.parser import text_string_to_metric_families

from contracts.errors import LedgerUnavailableError, codes
from runtime.installation import Installation
from runtime.live_installation import Fixed
from services.api.metrics import Metrics, Traffic, TrafficCount
from tests.assets.executions import settings_at
from tests.assets.submissions import submission

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def here(tmp_path: Path) -> Iterator[Installation]:
    with Installation.open(settings_at(tmp_path / "home")) as opened:
        yield opened


def scraped(here: Installation, traffic: Traffic | None = None) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    """Every sample, by name and labels."""
    text = Metrics(Fixed(here), traffic or Traffic()).text().decode()
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def executions(state: str, code: str = "") -> tuple[str, tuple[tuple[str, str], ...]]:
    return "mtr_executions", (("code", code), ("state", state))


def test_executions_are_counted_by_state_and_code(here: Installation) -> None:
    for _ in range(3):
        here.ledger.accept(submission(), label="x")
    failed = here.ledger.accept(submission(), label="x").execution.execution_id
    error = {"code": "out_of_memory", "message": "m", "hint": "h", "context": {}}
    here.ledger.finish(failed, state="failed", result={}, error=error, artifacts=[], model=None)

    found = scraped(here)

    assert (found[executions("queued")], found[executions("failed", "out_of_memory")]) == (3, 1)


def test_a_state_without_executions_is_zero_from_the_start(here: Installation) -> None:
    found = scraped(here)

    assert {state: found[executions(state)] for state in ("queued", "running", "succeeded", "failed", "cancelled")} == {
        "queued": 0,
        "running": 0,
        "succeeded": 0,
        "failed": 0,
        "cancelled": 0,
    }


def test_a_code_that_is_none_of_ours_becomes_no_series_of_its_own(here: Installation) -> None:
    for number in range(3):
        failed = here.ledger.accept(submission(), label="x").execution.execution_id
        error = {"code": f"made-up-{number}", "message": "m", "hint": "h", "context": {}}
        here.ledger.finish(failed, state="failed", result={}, error=error, artifacts=[], model=None)

    found = scraped(here)

    assert found[executions("failed", "other")] == 3
    assert {dict(labels)["code"] for name, labels in found if name == "mtr_executions"} <= {"", "other", *codes()}


def test_stages_queue_and_outbox_are_told(here: Installation) -> None:
    execution = here.ledger.accept(submission(), label="x", announced=True).execution
    here.ledger.add_stage_seconds(execution.execution_id, {"train": 12.5})

    found = scraped(here)

    assert found["mtr_stage_seconds_total", (("stage", "train"),)] == 12.5
    assert found["mtr_outbox_pending_messages", ()] == 1
    assert found["mtr_queue_oldest_age_seconds", ()] > 0
    assert found["mtr_outbox_oldest_pending_age_seconds", ()] > 0


def test_what_the_cache_had_is_told_beside_what_was_fetched(here: Installation) -> None:
    execution_id = here.ledger.accept(submission(), label="x").execution.execution_id
    number = here.ledger.begin_attempt(execution_id).number
    here.ledger.end_attempt(
        execution_id,
        number,
        outcome="succeeded",
        record={},
        paid_seconds=1.0,
        training_finished=True,
        counted={"cached_items": 7, "downloaded_items": 2},
    )

    found = scraped(here)

    assert [found["mtr_dataset_items_total", (("source", source),)] for source in ("cache", "store")] == [7, 2]


def test_a_ledger_that_is_away_is_a_figure_and_no_failure(here: Installation, monkeypatch) -> None:
    def away() -> None:
        raise LedgerUnavailableError("away", hint="wait")

    monkeypatch.setattr(here.ledger, "figures", away)
    found = scraped(here)

    assert found["mtr_ledger_up", ()] == 0
    assert ("mtr_http_sent_bytes_total", ()) in found


def test_bytes_and_requests_are_counted_whoever_answers(here: Installation) -> None:
    traffic = Traffic()

    async def answer(scope, receive, send) -> None:
        while (await receive()).get("more_body"):
            pass
        await send({"type": "http.response.start", "status": 201, "headers": []})
        await send({"type": "http.response.body", "body": b"12345"})

    asyncio.run(request(TrafficCount(answer, traffic), "BREW", [b"abc", b"de"]))
    found = scraped(here, traffic)

    assert found["mtr_http_received_bytes_total", ()] == 5
    assert found["mtr_http_sent_bytes_total", ()] == 5
    assert found["mtr_http_requests_total", (("method", "other"), ("status", "201"))] == 1
    assert found["mtr_http_open_requests", ()] == 0


async def request(app, method: str, body: list[bytes]) -> None:
    messages = [{"type": "http.request", "body": part, "more_body": at < len(body) - 1} for at, part in enumerate(body)]

    async def receive():
        return messages.pop(0)

    async def send(_message) -> None:
        return

    await app({"type": "http", "method": method}, receive, send)


def test_every_name_follows_the_conventions(here: Installation) -> None:
    here.ledger.accept(submission(), label="x")
    families = list(text_string_to_metric_families(Metrics(Fixed(here), Traffic()).text().decode()))

    assert all(family.documentation for family in families)
    assert all(family.name.startswith(("mtr_", "process_")) for family in families)
    assert all(
        sample.name.endswith("_total") for family in families if family.type == "counter" for sample in family.samples
    )
