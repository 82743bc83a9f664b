"""A journal in pages: nothing twice, nothing left out, wherever somebody stopped."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from contracts.limits import JOURNAL_PAGE_BYTES, MAX_TOLD_ENTRY_BYTES
from runtime.execution.journal import Journal
from runtime.execution.journal_pages import TOO_LONG, is_position, read_page

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def journal(tmp_path: Path) -> Journal:
    with Journal(tmp_path / "journal.jsonl") as opened:
        yield opened


def read_from(journal: Journal, position: int) -> list[tuple[int, dict[str, Any]]]:
    """All that can be read now."""
    entries = []
    while True:
        page = read_page(journal.path, position)
        entries += page.entries
        position = page.position
        if not page.more:
            return entries


def test_a_journal_that_is_not_there_has_no_entries(tmp_path: Path) -> None:
    assert read_page(tmp_path / "none", 0).entries == []


def test_every_entry_comes_once_over_all_pages(journal: Journal) -> None:
    for number in range(3_000):
        journal.append("log", level="info", message=f"{number} " + "x" * 60)

    assert [entry["message"].split()[0] for _, entry in read_from(journal, 0)] == [str(n) for n in range(3_000)]


@settings(max_examples=30)
@given(sizes=st.lists(st.integers(0, JOURNAL_PAGE_BYTES), min_size=1, max_size=8), data=st.data())
def test_from_every_position_the_rest_follows(tmp_path_factory, sizes, data) -> None:
    with Journal(tmp_path_factory.mktemp("j") / "journal.jsonl") as journal:
        for size in sizes:
            journal.append("output", text="y" * size)
        everything = read_from(journal, 0)
        stopped = data.draw(st.integers(0, len(everything) - 1))

        assert read_from(journal, everything[stopped][0]) == everything[stopped + 1 :]


def test_a_line_that_is_being_written_is_given_once_it_is_whole(journal: Journal) -> None:
    journal.append("log", message="whole")
    descriptor = os.open(journal.path, os.O_WRONLY | os.O_APPEND)
    os.write(descriptor, b'{"kind": "log", "mess')
    page = read_page(journal.path, 0)
    os.write(descriptor, b'age": "late"}\n')
    os.close(descriptor)

    assert [entry["message"] for _, entry in read_from(journal, page.position)] == ["late"]


def test_a_line_that_is_no_entry_is_left_out(journal: Journal) -> None:
    journal.append("log", message="before")
    with journal.path.open("ab") as file:
        file.write(b'{"torn\n\n[1]\n')
    journal.append("log", message="after")

    assert [entry["message"] for _, entry in read_from(journal, 0)] == ["before", "after"]


def test_a_carriage_return_ends_no_line(journal: Journal) -> None:
    journal.append("log", message="one")
    with journal.path.open("ab") as file:
        file.write(b'{"kind":"log",\r"message":"two"}\n')

    assert [entry["message"] for _, entry in read_from(journal, 0)] == ["one", "two"]


def test_an_entry_that_is_too_long_is_mentioned_and_passed(journal: Journal) -> None:
    journal.append("output", text="z" * (MAX_TOLD_ENTRY_BYTES + JOURNAL_PAGE_BYTES))
    long = journal.path.stat().st_size
    journal.append("log", message="after")

    mentioned, after = (entry for _, entry in read_from(journal, 0))
    assert mentioned == {"kind": TOO_LONG, "bytes": long}
    assert after["message"] == "after"


@pytest.mark.parametrize("position", [1, 10_000, -1, 2**63, 10**26])
def test_what_is_no_position(journal: Journal, position: int) -> None:
    journal.append("log", message="one")

    assert not is_position(journal.path, position)


def test_the_end_of_every_entry_is_a_position(journal: Journal) -> None:
    journal.append("log", message="one")
    journal.append("log", message="two")

    assert all(is_position(journal.path, at) for at, _ in read_from(journal, 0))
