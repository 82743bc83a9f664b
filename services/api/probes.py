"""Whether what this service depends on answers now: asked at once, for a bounded time, and not more often than once a second."""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Literal

from contracts.errors import (
    OrchestratorUnavailableError,
    RuntimeFault,
    StorageRefusedError,
    StorageUnavailableError,
)
from contracts.limits import MIN_FREE_DISK_BYTES, PROBE_MEMORY_SECONDS, PROBE_SECONDS
from runtime.sizes import readable_size
from services.orchestrator.environment import has_server
from services.orchestrator.processes import answers

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from concurrent.futures import Future
    from pathlib import Path

    from runtime.installation import Installation
    from runtime.live_installation import Source

_log = logging.getLogger(__name__)

_PROBED_KEY: Final = "training-code-runtime/.ready"
"""Need not be there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What one dependency answered.

    Attributes:
        state: `ok`, `unavailable`, or `unused` where none is configured.
        needed: whether this service can do nothing without it.
        seconds: how long the answer took, or was waited for.
        message: what is wrong, or what answered.
    """

    state: Literal["ok", "unavailable", "unused"]
    needed: bool
    seconds: float
    message: str

    def to_document(self) -> dict[str, Any]:
        """As `/ready` shows it."""
        return {
            "state": self.state,
            "needed": self.needed,
            "seconds": round(self.seconds, 4),
            "message": self.message,
        }


@dataclass(frozen=True, slots=True)
class Probe:
    """How one dependency is asked.

    Attributes:
        ask: returns what answered, `None` where none is configured, or raises.
        needed: as in `Answer`.
    """

    ask: Callable[[], str | None]
    needed: bool


class Probes:
    """Asks every dependency in parallel. An answer that is late is not waited for, and not asked for a second time meanwhile."""

    def __init__(self, probes: Mapping[str, Probe]) -> None:
        self._probes = dict(probes)
        self._threads = ThreadPoolExecutor(max_workers=max(1, len(self._probes)), thread_name_prefix="mtr-probe")
        self._asked: dict[str, tuple[Future[str | None], float]] = {}
        self._lock = asyncio.Lock()
        self._answers: dict[str, Answer] = {}
        self._answered_at = float("-inf")

    async def answers(self) -> dict[str, Answer]:
        """What each dependency answers, by name; for `PROBE_MEMORY_SECONDS` the same answers are given again."""
        async with self._lock:  # many who ask at once are told by one asking
            if time.monotonic() - self._answered_at > PROBE_MEMORY_SECONDS:
                self._answers = await self._ask_all()
                self._answered_at = time.monotonic()
            return self._answers

    def close(self) -> None:
        """Afterwards no new question is asked."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def _ask_all(self) -> dict[str, Answer]:
        found = await asyncio.gather(*(self._ask(name, probe) for name, probe in self._probes.items()))
        return dict(zip(self._probes, found, strict=True))

    async def _ask(self, name: str, probe: Probe) -> Answer:
        asked = self._asked.get(name)
        if asked is None or asked[0].done():
            asked = self._asked[name] = (self._threads.submit(probe.ask), time.monotonic())
        future, since = asked
        answer = partial(Answer, needed=probe.needed)
        try:
            async with asyncio.timeout(PROBE_SECONDS):
                said = await asyncio.shield(asyncio.wrap_future(future))
        except TimeoutError:
            waited = time.monotonic() - since
            return answer(state="unavailable", seconds=waited, message=f"no answer for {waited:.1f} s")
        except RuntimeFault as fault:
            return answer(state="unavailable", seconds=time.monotonic() - since, message=fault.message)
        except OSError as error:
            return answer(state="unavailable", seconds=time.monotonic() - since, message=str(error))
        except Exception as error:  # noqa: BLE001 - a probe must not take the others' answers away
            _log.exception("the probe of %s failed", name)
            return answer(state="unavailable", seconds=time.monotonic() - since, message=type(error).__name__)
        if said is None:
            return answer(state="unused", seconds=0.0, message="none is configured")
        return answer(state="ok", seconds=time.monotonic() - since, message=said)


def probes_of(source: Source) -> Probes:
    """The probes of the installation that `source` names at the time.

    Store and ledger are needed: nothing can be accepted without them. Prefect and the broker are not: what was accepted waits
    in the ledger, and goes on once they are back.
    """
    return Probes(
        {
            "store": Probe(lambda: _ask_store(source.current()), needed=True),
            "ledger": Probe(lambda: _ask_ledger(source.current()), needed=True),
            "prefect": Probe(_ask_prefect, needed=False),
            "broker": Probe(lambda: _ask_broker(source.current()), needed=False),
        }
    )


def _ask_store(here: Installation) -> str:
    """A look at each bucket, which tells a missing one, a refused key and a dead server; `mtr doctor` tries writing, too.

    No listing: the store's library holds the interpreter while it waits for one, and with it every other request.
    """
    _require_room(here.settings.home)
    root = here.settings.store_root
    if not here.settings.uses_s3:
        if root.exists() and not root.is_dir():
            raise StorageUnavailableError(
                f"{root} is no folder", hint="Remove what lies there, or set MTR_HOME.", context={"path": str(root)}
            )
        return "local folders"
    here.store.exists("default", _PROBED_KEY)
    missing = here.store.missing_buckets()
    if missing:
        raise StorageRefusedError(
            f"these buckets do not exist: {', '.join(missing)}", hint="Run `mtr apply`, which makes them."
        )
    return "S3"


def _require_room(home: Path) -> None:
    """Nothing, where this machine's disk takes what is received: whatever goes to a store far away lies here first."""
    left = shutil.disk_usage(home).free
    if left < MIN_FREE_DISK_BYTES:
        raise StorageRefusedError(
            f"the disk of {home} has {readable_size(left)} left, and {readable_size(MIN_FREE_DISK_BYTES)} are needed",
            hint="Free some, or set MTR_HOME to a larger disk.",
            context={"path": str(home), "free_bytes": left},
        )


def _ask_ledger(here: Installation) -> str:
    here.ledger.pending_messages(limit=1)
    return here.ledger.database.engine.dialect.name


def _ask_prefect() -> str | None:
    if not has_server():
        return None
    url = os.environ["PREFECT_API_URL"]
    if not answers(url, seconds=PROBE_SECONDS):
        raise OrchestratorUnavailableError(
            f"the Prefect server at {url} does not answer", hint="Start it, or correct PREFECT_API_URL."
        )
    return f"the server at {url}"


def _ask_broker(here: Installation) -> str | None:
    """Whether it takes connections; a broker would log every one that begins to speak and leaves."""
    host, port = here.settings.rabbitmq_host, here.settings.rabbitmq_port
    if not host:
        return None
    with socket.create_connection((host, port), timeout=PROBE_SECONDS):
        return f"{host}:{port} takes connections"
