from __future__ import annotations

import os
import threading
from datetime import UTC, datetime

from runtime.execution.journal import Journal, follow, read
from runtime.execution.protocol import Metric, Phase

EXECUTION = "5b9e3c1e-0000-4000-8000-000000000001"
NOW = datetime(2030, 1, 31, 12, tzinfo=UTC)


def journal_in(tmp_path) -> Journal:
    return Journal.of(tmp_path, EXECUTION)


def kinds(entries) -> list[str]:
    return [entry["kind"] for entry in entries]


def test_what_is_appended_is_read(tmp_path) -> None:
    with journal_in(tmp_path) as journal:
        journal.append("stage", stage="train", state="running")
    assert [(entry["kind"], entry["stage"], entry["state"]) for entry in journal.read()] == [
        ("stage", "train", "running")
    ]


def test_only_its_owner_can_read_it(tmp_path) -> None:
    with journal_in(tmp_path) as journal:
        journal.append("state", state="queued")
    assert journal.path.stat().st_mode & 0o077 == 0


def test_the_tail_is_the_last_entries(tmp_path) -> None:
    with journal_in(tmp_path) as journal:
        for number in range(10_000):
            journal.append("log", message="x" * 50, number=number)
    assert [entry["number"] for entry in journal.read(tail=3)] == [9997, 9998, 9999]


def test_a_longer_tail_than_there_is_is_everything(tmp_path) -> None:
    with journal_in(tmp_path) as journal:
        journal.append("log", message="only")
    assert len(journal.read(tail=100)) == 1


def test_no_journal_is_empty(tmp_path) -> None:
    assert read(tmp_path / "none.jsonl") == []


def test_the_line_of_a_killed_writer_spoils_no_other(tmp_path) -> None:
    with journal_in(tmp_path) as journal:
        journal.append("state", state="running")
        os.write(os.open(journal.path, os.O_WRONLY | os.O_APPEND), b'{"kind": "log", "mess')
    with journal_in(tmp_path) as again:
        again.append("state", state="failed")
    assert [entry["state"] for entry in again.read()] == ["running", "failed"]


def test_following_gives_what_is_there_and_what_comes(tmp_path) -> None:
    journal = journal_in(tmp_path)
    journal.append("state", state="queued")
    done = threading.Event()
    seen = []
    for entry in follow(journal.path, done.is_set):
        seen.append(entry["kind"])
        if len(seen) == 1:
            journal.append("log", message="later")
            done.set()
    journal.close()
    assert seen == ["state", "log"]


def test_following_waits_for_a_journal_that_does_not_exist_yet(tmp_path) -> None:
    journal = journal_in(tmp_path)
    asked = []

    def stop() -> bool:
        asked.append(True)
        if len(asked) == 2:
            journal.append("log", message="first")
        return len(asked) > 3

    assert kinds(follow(journal.path, stop)) == ["log"]
    journal.close()


def test_lines_of_two_writers_do_not_mix(tmp_path) -> None:
    def write(name: str) -> None:
        with journal_in(tmp_path) as journal:
            for _ in range(500):
                journal.append("log", message=name * 300)

    threads = [threading.Thread(target=write, args=(name,)) for name in "abcd"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(journal_in(tmp_path).read()) == 2000


def test_a_listener_writes_events_without_their_base_fields(tmp_path) -> None:
    with journal_in(tmp_path) as journal:
        journal.listener().event(Metric("training-event/v1", EXECUTION, 0, NOW, "val", 3, None, {"loss": 0.5}))
    entry = journal.read()[0]
    del entry["at"]
    assert entry == {"kind": "metric", "split": "val", "epoch": 3, "step": None, "metrics": {"loss": 0.5}}


def test_control_characters_of_a_package_reach_no_terminal(tmp_path) -> None:
    with journal_in(tmp_path) as journal:
        listener = journal.listener()
        listener.output("\x1b[2J\x1b]0;title\x07text", 0)
        listener.event(Phase("training-event/v1", EXECUTION, 0, NOW, "a\x1bb", "c\x9bd"))
    output, phase = journal.read()
    assert (output["text"], phase["phase"], phase["message"]) == ("�[2J�]0;title�text", "a�b", "c�d")


def test_lines_that_were_left_out_are_counted(tmp_path) -> None:
    with journal_in(tmp_path) as journal:
        journal.listener().output("x", 17)
    assert journal.read()[0]["left_out"] == 17
