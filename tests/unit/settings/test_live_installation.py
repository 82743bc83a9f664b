"""An installation that follows its platform: at once for who asks, whole for who works, and not loud."""

from __future__ import annotations

import logging
import threading
import time
from typing import TYPE_CHECKING

import pytest

from contracts.errors import InvalidSettingsError, PlatformSettingsUnavailableError
from runtime.installation import Installation
from runtime.live_installation import Fixed, LiveInstallation
from runtime.platform_settings import Reading
from runtime.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


class Platform:
    """A source whose answer a test decides."""

    name = "the test"

    def __init__(self, home: Path) -> None:
        self.reading = Reading(Settings(home=home))
        self.reads = 0
        self.fault: Exception | None = None
        self.may_answer = threading.Event()
        self.may_answer.set()

    def say(self, *warnings: str, fault: PlatformSettingsUnavailableError | None = None, **changes: object) -> None:
        settings = self.reading.settings.model_copy(update=changes)
        self.reading = Reading(settings, warnings=warnings, fault=fault)

    def read(self) -> Reading:
        self.reads += 1
        assert self.may_answer.wait(60)
        if self.fault is not None:
            raise self.fault
        return self.reading


AWAY = PlatformSettingsUnavailableError("Nacos is away", hint="start it")


@pytest.fixture
def platform(tmp_path: Path) -> Platform:
    return Platform(tmp_path / "home")


def eventually(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def test_a_change_is_current_without_anybody_asking(platform: Platform) -> None:
    with LiveInstallation(platform, poll_seconds=0.01) as live:
        platform.say(max_processes=3)

        eventually(lambda: live.current().settings.max_processes == 3)


def test_a_change_is_there_for_who_asks_afresh(platform: Platform) -> None:
    with LiveInstallation(platform, poll_seconds=3600) as live:
        platform.say(max_processes=3)
        before = live.current().settings.max_processes

        assert (before, live.fresh().settings.max_processes) == (1024, 3)


def test_nothing_changed_is_the_same_installation(platform: Platform) -> None:
    with LiveInstallation(platform, poll_seconds=0.01) as live:
        first = live.current()
        eventually(lambda: platform.reads > 5)

        assert live.current() is first


def test_current_does_not_wait_for_a_platform_that_does_not_answer(platform: Platform) -> None:
    with LiveInstallation(platform, poll_seconds=0.01) as live:
        platform.may_answer.clear()
        eventually(lambda: platform.reads > 1)

        found = live.current()
        platform.may_answer.set()

    assert found.settings == platform.reading.settings


def test_work_in_flight_goes_on_with_the_older_one_and_shares_the_ledger(platform: Platform) -> None:
    with LiveInstallation(platform, poll_seconds=3600) as live:
        older = live.current()
        platform.say(max_processes=3, s3_endpoint="http://127.0.0.1:9")
        newer = live.fresh()

        assert newer is not older
        assert newer.ledger is older.ledger
        assert (older.ledger.next_task_id(), newer.ledger.next_task_id()) == (1, 2)
        assert (older.settings.uses_s3, newer.settings.uses_s3) == (False, True)


def test_a_ledger_that_the_newer_one_opened_is_the_older_one_s_too(platform: Platform) -> None:
    with LiveInstallation(platform, poll_seconds=3600) as live:
        older = live.current()
        platform.say(max_processes=3)
        newer = live.fresh()

        assert newer.ledger is older.ledger


def test_a_platform_that_is_away_is_not_asked_for_each_request(platform: Platform) -> None:
    platform.say(fault=AWAY)
    with LiveInstallation(platform, poll_seconds=3600) as live:
        for _ in range(10):
            live.fresh()

    assert platform.reads == 1


class CountingLock:
    """A lock that knows how many threads have come to it."""

    def __init__(self) -> None:
        self.came = 0
        self._lock = threading.Lock()

    def __enter__(self) -> None:
        self.came += 1
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()


def test_many_who_ask_at_once_share_a_reading(platform: Platform, monkeypatch: pytest.MonkeyPatch) -> None:
    with LiveInstallation(platform, poll_seconds=3600) as live:
        lock = CountingLock()
        monkeypatch.setattr(live, "_reading", lock)
        platform.may_answer.clear()
        asking = [threading.Thread(target=live.fresh) for _ in range(20)]
        for thread in asking:
            thread.start()
        eventually(lambda: lock.came == 20)
        platform.may_answer.set()
        for thread in asking:
            thread.join()

    assert platform.reads == 3  # at its making, the one under way, and one that began after all had asked


def test_a_warning_is_said_once_and_again_only_after_a_while(
    platform: Platform, caplog: pytest.LogCaptureFixture
) -> None:
    platform.say("a is text", "b is gone")
    with caplog.at_level(logging.WARNING, "mtr.settings"), LiveInstallation(platform, poll_seconds=0.01):
        eventually(lambda: platform.reads > 10)

    assert [record.message for record in caplog.records] == ["a is text", "b is gone"]


def test_a_warning_that_stays_true_repeats(platform: Platform, caplog: pytest.LogCaptureFixture) -> None:
    platform.say("a is text")
    with (
        caplog.at_level(logging.WARNING, "mtr.settings"),
        LiveInstallation(platform, poll_seconds=0.01, warn_seconds=0.02),
    ):
        eventually(lambda: len(caplog.records) > 2)

    assert {record.message for record in caplog.records} == {"a is text"}


def test_a_machine_whose_own_settings_are_wrong_does_not_start(platform: Platform) -> None:
    platform.fault = InvalidSettingsError("x is no setting", hint="correct it")

    with pytest.raises(InvalidSettingsError, match="x is no setting"):
        LiveInstallation(platform)


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        (InvalidSettingsError("x is no setting", hint="correct it"), "x is no setting; what held before stays"),
        (ZeroDivisionError(), "the platform's settings cannot be read; what held before stays"),
    ],
)
def test_later_it_goes_on_with_what_held(
    platform: Platform, caplog: pytest.LogCaptureFixture, fault: Exception, said: str
) -> None:
    with LiveInstallation(platform, poll_seconds=3600) as live:
        before = live.current()
        platform.fault = fault

        assert live.fresh() is before
    assert [record.message for record in caplog.records] == [said]


def test_a_closed_one_reads_no_more(platform: Platform) -> None:
    with LiveInstallation(platform, poll_seconds=0.01):
        eventually(lambda: platform.reads > 2)

    assert "platform-settings" not in {thread.name for thread in threading.enumerate()}


def test_a_fixed_installation_answers_itself(tmp_path: Path) -> None:
    with Installation.open(Settings(home=tmp_path / "home")) as here:
        source = Fixed(here)

        assert source.current() is source.fresh() is here
