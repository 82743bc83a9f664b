"""The bridge as a whole: a thread that consumes and publishes, each on a connection of its own, until it is closed."""

from __future__ import annotations

import asyncio
import logging
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Self

from contracts.errors import NotFoundError, RuntimeFault
from services.bridge.broker import pause_after
from services.bridge.consumer import Consumer
from services.bridge.publisher import Publisher
from services.bridge.topology import Topology

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from types import TracebackType

    from runtime.installation import Installation
    from runtime.live_installation import Source
    from services.orchestrator import Dispatcher

_LOG: Final = logging.getLogger(__name__)
_STOP_SECONDS: Final = 30.0
"""For the delivery and the message at hand; whatever takes longer is given back by the broker, or sent again."""


@dataclass(frozen=True, slots=True)
class BridgeState:
    """How the bridge stands, as of now.

    Attributes:
        consuming: it takes submissions.
        publishing: it is connected to tell the platform; of several bridges one at a time does.
        fault: why one of them does not work; `None` while both do.
    """

    consuming: bool = False
    publishing: bool = False
    fault: RuntimeFault | None = None


class Bridge:
    """Carries submissions in and messages out for as long as it is open, in a thread and an event loop of its own.

    A broker or a ledger that is away, now or from the start, only delays: it is tried again and again, with a warning.

    Args:
        source: knows the installation as the platform's settings would have it now.
        dispatcher: is woken for each execution that was recorded.

    Raises:
        InvalidSettingsError: no broker is configured, or it names the queue of the legacy trainer.
    """

    def __init__(self, source: Source, dispatcher: Dispatcher) -> None:
        self._topology = Topology.of(source.current().settings)
        self._source, self._dispatcher = source, dispatcher
        self._working: set[str] = set()
        self._faults: dict[str, RuntimeFault | None] = {}
        self._loop = asyncio.new_event_loop()
        self._stop = asyncio.Event()
        self._thread = threading.Thread(target=self._work, name="bridge", daemon=True)

    @property
    def state(self) -> BridgeState:
        """How it stands, at once."""
        faults = [fault for fault in list(self._faults.values()) if fault is not None]
        return BridgeState("consuming" in self._working, "publishing" in self._working, faults[0] if faults else None)

    def start(self) -> Self:
        """Afterwards its thread works. Call it once."""
        self._thread.start()
        return self

    def close(self) -> None:
        """Afterwards it takes nothing and publishes nothing. The delivery and the message at hand were finished."""
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._stop.set)
            self._thread.join(_STOP_SECONDS)
        if not self._thread.is_alive() and not self._loop.is_closed():
            self._loop.close()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # --- the thread ---------------------------------------------------------------------------------------------------

    def _work(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_until_complete(self._both())
        finally:
            self._loop.run_until_complete(self._loop.shutdown_default_executor())

    async def _both(self) -> None:
        publisher = Publisher(self._source, self._topology)

        def recorded(execution_id: str) -> None:
            self._dispatcher.wake(execution_id)
            publisher.wake()

        consumer = Consumer(self._source, self._topology, recorded)
        await asyncio.gather(
            self._again_and_again("submissions wait", "consuming", consumer.consume),
            self._again_and_again("messages wait", "publishing", publisher.publish),
        )

    async def _again_and_again(
        self, said: str, name: str, work: Callable[[asyncio.Event, Callable[[], None]], Awaitable[None]]
    ) -> None:
        """Works until the end is asked for, whatever goes wrong."""
        failures = 0

        def began() -> None:
            nonlocal failures
            failures = 0
            self._note(name, works=True)
            _LOG.info("%s by way of %s", name, self._topology.exchange)

        while not self._stop.is_set():
            try:
                await work(self._stop, began)
            except RuntimeFault as fault:
                self._note(name, fault=fault)
                _LOG.warning("%s: %s %s", said, fault.message, fault.hint)
            except Exception:  # noqa: BLE001 - whatever it was, a bridge that stands still loses the platform
                self._note(name)
                _LOG.exception("%s because of a defect; report it", said)
            failures += 1
            try:
                await asyncio.wait_for(self._stop.wait(), pause_after(failures))
            except TimeoutError:
                continue
        self._note(name)

    def _note(self, name: str, *, works: bool = False, fault: RuntimeFault | None = None) -> None:
        if works:
            self._working.add(name)
        else:
            self._working.discard(name)
        self._faults[name] = fault


def run_bridge(source: Source, dispatcher: Dispatcher, stop: threading.Event) -> None:
    """Returns once `stop` is set and the bridge has finished what was at hand. Executions go on.

    Raises:
        InvalidSettingsError: as `Bridge`.
    """
    bridge = Bridge(source, dispatcher)
    with dispatcher, bridge:
        stop.wait()


def replay(here: Installation, task_id: int) -> int:
    """How many messages of the task will be sent again, the same ones in the same order, by whichever bridge runs.

    Raises:
        NotFoundError: the platform was never told anything about this task.
    """
    if not here.ledger.messages(task_id=task_id, limit=1):
        raise NotFoundError(
            f"nothing was ever told about task {task_id}",
            hint="Give the task_id of a submission that came by HTTP, by RabbitMQ or by a deployment run.",
            context={"task_id": task_id},
        )
    return here.ledger.replay(task_id=task_id)
