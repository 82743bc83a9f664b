"""From journal lines to log messages: what each says, none twice, none lost."""

from __future__ import annotations

from typing import TYPE_CHECKING

import orjson
import pytest

from contracts.errors import LedgerUnavailableError
from contracts.limits import MAX_TOLD_CHARACTERS, MAX_TOLD_LOGS, TOLD_LINES_AT_ONCE
from contracts.messages import TaskLog
from runtime.execution.journal import Journal
from runtime.execution.telling import Teller, line_of, messages_of
from runtime.ledger import Ledger, Told
from tests.assets import ledger_processes
from tests.assets.submissions import submission

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

AT = "2030-01-31T12:00:00Z"


@pytest.fixture
def ledger(sqlite_url: str) -> Iterator[Ledger]:
    with Ledger.open(sqlite_url) as opened:
        yield opened


@pytest.fixture
def execution(ledger: Ledger):
    return ledger.accept(submission(), label="x", announced=True).execution


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Journal]:
    with Journal(tmp_path / "here" / "journal.jsonl") as opened:
        yield opened


def say(journal: Journal, *texts: str) -> None:
    for text in texts:
        journal.append("log", level="info", message=text)


def told(ledger: Ledger) -> list[str]:
    return [one.body["log_content"] for one in ledger.messages() if one.kind == TaskLog.kind]


@pytest.mark.parametrize(
    ("entry", "level", "content"),
    [
        ({"kind": "stage", "stage": "train", "state": "running"}, "info", "stage train"),
        ({"kind": "stage", "stage": "train", "state": "failed", "message": "no"}, "error", "stage train failed: no"),
        ({"kind": "state", "state": "interrupted", "message": "m"}, "warning", "interrupted: m"),
        ({"kind": "attempt", "attempt": 2}, "info", "attempt 2"),
        ({"kind": "phase", "phase": "warm up", "message": None}, "info", "phase warm up"),
        ({"kind": "phase", "phase": "train", "message": "all"}, "info", "phase train: all"),
        ({"kind": "checkpoint", "path": "a.pt", "message": None}, "info", "checkpoint a.pt"),
        ({"kind": "log", "level": "warning", "message": "hot"}, "warning", "hot"),
        ({"kind": "output", "text": "plain"}, "info", "plain"),
        ({"kind": "output", "text": "x", "left_out": 3}, "info", "… 3 lines are only in the runtime's log\nx"),
        (
            {"kind": "metric", "split": "val", "epoch": 3, "step": None, "metrics": {"loss": 0.25, "f1": 1}},
            "info",
            "epoch 3 val: loss 0.25, f1 1",
        ),
    ],
)
def test_a_line_says_what_people_read(entry, level, content) -> None:
    moment, *said = line_of(orjson.dumps({"at": AT, **entry}))
    assert (moment.isoformat(), *said) == ("2030-01-31T12:00:00+00:00", level, content)


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b'{"kind": "lo',
        b"[]",
        b'{"kind": "unheard of"}',
        b'{"kind": "stage", "stage": "train", "state": "completed"}',
        b'{"kind": "state", "state": "succeeded", "message": "the status tells it"}',
        b'{"kind": "attempt", "attempt": 1}',
        b'{"kind": "log", "level": "info", "message": " "}',
    ],
)
def test_a_line_that_says_nothing_to_the_platform_is_no_message(raw) -> None:
    assert line_of(raw) is None


def test_content_is_cut_and_has_no_control_characters() -> None:
    _, _, content = line_of(orjson.dumps({"kind": "output", "text": "\x1b[2J" + "x" * 20_000}))
    assert (len(content), "\x1b" in content) == (MAX_TOLD_CHARACTERS, False)


def test_a_few_lines_are_a_message_each() -> None:
    lines = [orjson.dumps({"kind": "output", "text": str(number)}) for number in range(TOLD_LINES_AT_ONCE)]
    assert len(messages_of(lines, 1)) == TOLD_LINES_AT_ONCE


def test_many_lines_are_joined_in_order_those_of_one_level() -> None:
    levels = ["info"] * 20 + ["error"] + ["info"] * 20
    lines = [
        orjson.dumps({"kind": "log", "level": level, "message": str(number)}) for number, level in enumerate(levels)
    ]
    first, error, last = messages_of(lines, 1)
    assert first.log_content.split("\n") == [str(number) for number in range(20)]
    assert (error.log_level, error.log_content) == ("error", "20")
    assert last.log_content.split("\n") == [str(number) for number in range(21, 41)]


def test_a_flood_of_lines_is_few_messages() -> None:
    lines = [orjson.dumps({"kind": "output", "text": "x" * 60}) for _ in range(10_000)]
    assert len(messages_of(lines, 1)) <= 61 * 10_000 / (MAX_TOLD_CHARACTERS - 61) + 1


def test_what_is_new_is_told_once(ledger, execution, journal) -> None:
    teller = Teller(ledger, journal.path, execution)
    say(journal, "a", "b")
    teller.tell()
    teller.tell()
    say(journal, "c")
    teller.tell()

    assert told(ledger) == ["a", "b", "c"]


def test_another_process_goes_on_where_the_first_stopped(ledger, execution, journal) -> None:
    say(journal, "a")
    Teller(ledger, journal.path, execution).tell()
    say(journal, "b")
    Teller(ledger, journal.path, execution).tell()

    assert told(ledger) == ["a", "b"]


def test_two_that_tell_the_same_journal_tell_it_once(ledger, execution, journal) -> None:
    one, other = (Teller(ledger, journal.path, execution) for _ in range(2))
    for text in "abcd":
        say(journal, text)
        one.tell()
        say(journal, text.upper())
        other.tell()

    assert told(ledger) == list("aAbBcCdD")


def test_a_shorter_journal_of_another_machine_is_told_whole_and_the_first_goes_on(
    ledger, execution, journal, tmp_path
) -> None:
    say(journal, "a", "b", "c")
    Teller(ledger, journal.path, execution).tell()
    with Journal(tmp_path / "elsewhere" / "journal.jsonl") as other:
        say(other, "x")
        Teller(ledger, other.path, execution).tell()
    say(journal, "d")
    Teller(ledger, journal.path, execution).tell()

    assert told(ledger) == ["a", "b", "c", "x", "d"]


def test_a_line_that_is_not_whole_yet_waits(ledger, execution, journal) -> None:
    teller = Teller(ledger, journal.path, execution)
    say(journal, "a")
    with journal.path.open("ab") as file:
        file.write(b'{"kind": "log", "level": "info", "message": "b"')
        file.flush()
        teller.tell()
        file.write(b"}\n")
    assert told(ledger) == ["a"]

    teller.tell()
    assert told(ledger) == ["a", "b"]


def test_a_journal_that_lost_its_end_loses_no_line_that_is_still_there(ledger, execution, journal) -> None:
    say(journal, "a", "b" * 100)
    Teller(ledger, journal.path, execution).tell()
    with journal.path.open("r+b") as file:  # power was cut
        file.truncate(len(file.readline()))
    say(journal, "c")

    Teller(ledger, journal.path, execution).tell()
    assert told(ledger) == ["a", "b" * 100, "a", "c"]


def test_a_long_journal_is_told_whole(ledger, execution, journal) -> None:
    with journal.path.parent.mkdir() or journal.path.open("wb") as file:
        for number in range(80_000):
            file.write(b'{"kind":"output","at":"%s","text":"%08d%s"}\n' % (AT.encode(), number, b"x" * 60))
    Teller(ledger, journal.path, execution).tell()

    said = [line[:8] for content in told(ledger) for line in content.split("\n")]
    assert said == [f"{number:08d}" for number in range(80_000)]


def test_a_line_longer_than_one_look_is_told(ledger, execution, journal) -> None:
    say(journal, "a", "x" * 9_000_000, "b")
    Teller(ledger, journal.path, execution).tell()

    assert told(ledger) == ["a", "x" * MAX_TOLD_CHARACTERS, "b"]


def test_what_is_not_announced_is_not_told(ledger, journal) -> None:
    own = ledger.accept(submission(), label="x").execution
    say(journal, "a")
    Teller(ledger, journal.path, own).tell()

    assert ledger.messages() == ()


def test_without_a_journal_nothing_is_told(ledger, execution, journal) -> None:
    Teller(ledger, journal.path, execution).tell()
    assert told(ledger) == []


def test_lines_after_the_end_are_no_messages(ledger, execution, journal) -> None:
    teller = Teller(ledger, journal.path, execution)
    ledger.finish(execution.execution_id, state="succeeded", result={}, error=None, artifacts=[], model=None)
    say(journal, "late")
    teller.tell()

    assert told(ledger) == []


def test_beyond_the_limit_the_journal_is_not_read_any_more(ledger, execution, journal, monkeypatch) -> None:
    say(journal, "a")
    monkeypatch.setattr(ledger, "told", lambda *_: Told(0, MAX_TOLD_LOGS + 1))
    Teller(ledger, journal.path, execution).tell()

    assert told(ledger) == []


def test_a_ledger_that_was_away_gets_every_line_once_when_it_is_back(ledger, execution, journal, monkeypatch) -> None:
    teller = Teller(ledger, journal.path, execution)
    say(journal, "a")
    teller.tell()
    tell = ledger.tell

    def written_but_not_heard(*given, **named):
        tell(*given, **named)
        raise LedgerUnavailableError("the connection broke", hint="h")

    monkeypatch.setattr(ledger, "tell", written_but_not_heard)
    say(journal, "b")
    with pytest.raises(LedgerUnavailableError):
        teller.tell()
    monkeypatch.setattr(ledger, "tell", tell)
    say(journal, "c")
    teller.tell()

    assert told(ledger) == ["a", "b", "c"]


@pytest.mark.slow
def test_a_process_killed_while_it_tells_repeats_and_loses_nothing(sqlite_url, ledger, execution, journal) -> None:
    for _ in range(3):
        worker = ledger_processes.start("tell_forever", sqlite_url, execution.execution_id, str(journal.path))
        assert worker.stdout.readline() == "working\n"
        before = ledger.messages()
        while len(ledger.messages()) < len(before) + 5:  # until it is in the middle of its work
            pass
        worker.kill()
        worker.communicate()
    Teller(ledger, journal.path, execution).tell()

    said = [entry["message"] for entry in journal.read()]
    assert [line for content in told(ledger) for line in content.split("\n")] == said
