"""One call for many items: every one, the first error, the interruption, and how many threads."""

from __future__ import annotations

import threading
import time

import pytest

from runtime.store.parallel import for_each


@pytest.mark.parametrize("threads", [1, 8])
def test_every_item_is_worked_on_once(threads: int) -> None:
    done: list[int] = []

    for_each(iter(range(1_000)), done.append, threads=threads)

    assert sorted(done) == list(range(1_000))


@pytest.mark.parametrize("threads", [1, 8])
def test_the_first_error_is_raised_and_stops_the_rest(threads: int) -> None:
    done: list[int] = []

    def work(item: int) -> None:
        if item == 20:
            raise LookupError(item)
        done.append(item)

    with pytest.raises(LookupError, match="20"):
        for_each(range(1_000_000), work, threads=threads)

    assert len(done) < 1_000_000


def test_an_error_of_the_items_themselves_is_raised() -> None:
    def items():
        yield 1
        raise LookupError("no more")

    with pytest.raises(LookupError, match="no more"):
        for_each(items(), lambda _: None, threads=4)


def test_no_thread_is_left_after_an_interruption() -> None:
    started = threading.Event()

    def work(_: int) -> None:
        started.set()
        time.sleep(0.001)

    def interrupt() -> None:
        assert started.wait(10)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        for_each(range(1_000_000), work, threads=4, on_tick=interrupt)

    assert [thread.name for thread in threading.enumerate() if thread.name == "store"] == []


@pytest.mark.slow
def test_a_far_store_gets_more_threads() -> None:
    seen: set[int] = set()

    def far(_: int) -> None:
        seen.add(threading.get_ident())
        time.sleep(0.01)  # what is measured is a latency: this is one

    for_each(range(3_000), far, threads=4, most_threads=64)

    assert len(seen) > 32


@pytest.mark.slow
def test_threads_stay_within_their_bound() -> None:
    alive, most = 0, 0
    lock = threading.Lock()

    def far(_: int) -> None:
        nonlocal alive, most
        with lock:
            alive += 1
            most = max(most, alive)
        time.sleep(0.005)
        with lock:
            alive -= 1

    for_each(range(600), far, threads=2, most_threads=6)

    assert most <= 6


def test_nothing_to_do_is_done() -> None:
    for_each([], lambda _: None)
