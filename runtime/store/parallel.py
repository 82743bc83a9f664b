"""The same call for many objects, in as many threads as the distance to the store asks for."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Final, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

Item = TypeVar("Item")

NEAR_THREADS: Final = 32
"""For a store whose answers take a millisecond or two: a tenth quicker than 16, and 64 are no quicker."""
FAR_THREADS: Final = 128
"""The most; 128 threads reached 0.8 of what 15 ms of latency allow."""
_OBJECTS_PER_SECOND: Final = 8_000
"""What one process can hash and write; as many threads as calls are then under way at once."""
_TICK_SECONDS: Final = 0.05


def for_each(
    items: Iterable[Item],
    work: Callable[[Item], None],
    *,
    threads: int = NEAR_THREADS,
    most_threads: int = FAR_THREADS,
    on_tick: Callable[[], None] | None = None,
) -> None:
    """Afterwards `work` has returned for every item, in any order.

    It begins with `threads`, and once the first calls have shown the latency, takes as many more as keep the processor
    busy. The first error stops the rest, which end their current call, and is raised. An interruption (Ctrl-C, a
    cancelled flow run) does the same within that time.

    Args:
        items: what is worked on; consumed under a lock, so a generator will do.
        work: called from several threads at once.
        threads: with how many it begins; 1 works in the caller's own thread.
        most_threads: the bound.
        on_tick: called from the caller's thread a few times a second, for progress.
    """
    if threads <= 1:
        _in_this_thread(items, work, on_tick)
        return
    crew = _Crew(items, work)
    try:
        crew.hire(threads)
        wanted = threads
        while crew.busy():
            crew.wait(_TICK_SECONDS)
            if on_tick is not None:
                on_tick()
            quickest = crew.quickest_seconds
            if quickest is not None and wanted < most_threads and not crew.out_of_items:
                target = min(most_threads, round(quickest * _OBJECTS_PER_SECOND))
                if target > wanted:
                    crew.hire(target - wanted)
                    wanted = target
    except BaseException:
        crew.stop()
        raise
    crew.stop()
    if crew.error is not None:
        raise crew.error


def _in_this_thread(items: Iterable[Item], work: Callable[[Item], None], on_tick: Callable[[], None] | None) -> None:
    next_tick = time.monotonic() + _TICK_SECONDS
    for item in items:
        work(item)
        if on_tick is not None and time.monotonic() >= next_tick:
            on_tick()
            next_tick = time.monotonic() + _TICK_SECONDS


class _Crew:
    """Threads that take items from one iterator until it is empty, one of them fails, or they are stopped."""

    def __init__(self, items: Iterable[Item], work: Callable[[Item], None]) -> None:
        self._items, self._work = iter(items), work
        self._taking = threading.Lock()
        self._threads: list[threading.Thread] = []
        self._stopped = False
        self.out_of_items = False
        self.error: BaseException | None = None
        self.quickest_seconds: float | None = None
        """The shortest of each thread's first calls: what a call takes when nothing is in its way."""

    def hire(self, count: int) -> None:
        for _ in range(count):
            if self.out_of_items:
                return
            thread = threading.Thread(target=self._run, name="store", daemon=True)
            self._threads.append(thread)
            thread.start()

    def busy(self) -> bool:
        return any(thread.is_alive() for thread in self._threads)

    def wait(self, seconds: float) -> None:
        """Returns after `seconds`, or when the oldest thread ends; signal handlers run in between."""
        alive = next((thread for thread in self._threads if thread.is_alive()), None)
        if alive is not None:
            alive.join(seconds)

    def stop(self) -> None:
        self._stopped = True
        for thread in self._threads:
            thread.join()

    def _run(self) -> None:
        measured = 0
        try:
            while not self._stopped:
                with self._taking:
                    try:
                        item = next(self._items)
                    except StopIteration:
                        self.out_of_items = True
                        return
                if measured >= 4:
                    self._work(item)
                    continue
                began = time.perf_counter()
                self._work(item)
                took = time.perf_counter() - began
                measured += 1
                if measured > 1 and (self.quickest_seconds is None or took < self.quickest_seconds):
                    self.quickest_seconds = took  # not the first call: it opens the connection
        except BaseException as error:  # noqa: BLE001 - handed to the caller's thread, whatever it is
            with self._taking:
                self.error = self.error or error
                self._stopped = True
