"""The way to the Prefect server for what is only a view: quick, or not taken at all.

Prefect's own client waits a minute for a server that is away, at every call. Whoever supervises a training must not
wait: here a call fails at once, and then the server is left alone for a while.
"""

from __future__ import annotations

import contextlib
import threading
import time
from typing import TYPE_CHECKING, Final, TypeVar

import httpx
from prefect.client.orchestration import get_client
from prefect.logging import get_run_logger
from prefect.settings import PREFECT_API_URL, temporary_settings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from prefect.client.orchestration import SyncPrefectClient

Answer = TypeVar("Answer")

REQUEST_SECONDS: Final = 5.0
AWAY_SECONDS: Final = 30.0
"""For so long nothing is shown after the server did not answer."""
_NO_RETRIES: Final = {"client.max_retries": 0}


class ViewClient:
    """A connection that is opened when first needed, used by one thread at a time, and given up when it fails."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._client: SyncPrefectClient | None = None
        self._api_url: str | None = None
        self._away_until = 0.0

    def ask(self, call: Callable[[SyncPrefectClient], Answer]) -> Answer | None:
        """What `call` answers; `None` where the server is away or refuses, which the run's log then says once."""
        with self._lock:
            if time.monotonic() < self._away_until:
                return None
            try:
                with temporary_settings(_NO_RETRIES):
                    return call(self._connected())
            except httpx.HTTPStatusError as error:
                get_run_logger().warning("Prefect refused to show something: %s", error)
            except Exception as error:  # noqa: BLE001 - a view that fails must not fail what it shows, whatever the reason
                get_run_logger().warning("Nothing is shown for %.0f s, Prefect is away: %s", AWAY_SECONDS, error)
                self._away_until = time.monotonic() + AWAY_SECONDS
                self._close()
            return None

    def close(self) -> None:
        """Afterwards no connection is open; `ask` opens one again."""
        with self._lock:
            self._close()

    def _connected(self) -> SyncPrefectClient:
        api_url = PREFECT_API_URL.value()
        if self._client is None or self._api_url != api_url:
            self._close()
            opened = get_client(sync_client=True, httpx_settings={"timeout": REQUEST_SECONDS})
            self._client, self._api_url = opened.__enter__(), api_url
            self._away_until = 0.0
        return self._client

    def _close(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            with contextlib.suppress(httpx.HTTPError):
                client.__exit__(None, None, None)


VIEW: Final = ViewClient()
"""This process's; flows close it when they end."""


@contextlib.contextmanager
def impatient() -> Iterator[SyncPrefectClient]:
    """A client whose calls fail at once where the server is away, for whoever asks again a second later."""
    with temporary_settings(_NO_RETRIES), get_client(sync_client=True) as client:
        yield client
