"""The installation of a program that serves, as the platform's settings would have it now.

The HTTP API and the bridge hold a `Source` and ask it for the installation at the start of each request or message:

    source.current()   at once, never older than a few seconds: reading, /health, /ready, /metrics
    source.fresh()     asks the platform first, in bounded time: what accepts an execution

Work in flight keeps the installation that it has; that one stays whole. A program without a platform, and a test, uses
`Fixed`.
"""

from __future__ import annotations

import logging
import threading
import time
from typing import TYPE_CHECKING, Protocol, Self

from contracts.errors import RuntimeFault
from contracts.limits import PLATFORM_SETTINGS_POLL_SECONDS, PLATFORM_SETTINGS_WARN_SECONDS
from runtime.installation import Installation

if TYPE_CHECKING:
    from types import TracebackType

    from runtime.platform_settings import PlatformSettings, Reading

LOGGER = logging.getLogger("mtr.settings")


class Source(Protocol):
    """Who knows the installation as it is now."""

    def current(self) -> Installation:
        """The installation, at once: this never waits for anything."""
        ...

    def fresh(self) -> Installation:
        """The installation after the platform was asked again; in bounded time, and it raises nothing."""
        ...


class Fixed:
    """An installation whose settings nobody changes while the program runs."""

    def __init__(self, installation: Installation) -> None:
        self._installation = installation

    def current(self) -> Installation:
        """See `Source.current`."""
        return self._installation

    def fresh(self) -> Installation:
        """See `Source.fresh`."""
        return self._installation


class LiveInstallation:
    """An installation that follows its platform's settings. A context: within it, a thread reads them again and again.

    Making it reads them once.

    Args:
        platform: where they are read.
        poll_seconds: the pause between two reads.
        warn_seconds: how often a warning is repeated that stays true.

    Raises:
        InvalidSettingsError: this machine's own settings are wrong, or its folder cannot be made.
    """

    def __init__(
        self,
        platform: PlatformSettings,
        *,
        poll_seconds: float = PLATFORM_SETTINGS_POLL_SECONDS,
        warn_seconds: float = PLATFORM_SETTINGS_WARN_SECONDS,
    ) -> None:
        self._platform, self._poll_seconds, self._warn_seconds = platform, poll_seconds, warn_seconds
        self._said: dict[str, float] = {}
        self._reading = threading.Lock()
        self._reads = 0
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._follow, name="platform-settings", daemon=True)
        self._latest = platform.read()
        self._now = Installation.open(self._latest.settings)
        self._warn(self._latest.warnings)

    @property
    def reading(self) -> Reading:
        """What was read last, with its warnings and where each decision stands; at once."""
        return self._latest

    def current(self) -> Installation:
        """See `Source.current`."""
        return self._now

    def fresh(self) -> Installation:
        """See `Source.fresh`. Callers at the same time share a read; while the platform is away it is not asked for each."""
        if self._latest.fault is None:
            seen = self._reads
            with self._reading:
                # one that began after this call serves as well; `_reads` counts the finished ones
                if self._reads < seen + 2 and self._latest.fault is None:
                    self._read()
        return self._now

    def close(self) -> None:
        """Afterwards nothing reads any more and the installation holds no connection."""
        self._ending.set()
        if self._thread.is_alive():
            self._thread.join()
        self._now.close()

    def _follow(self) -> None:
        while not self._ending.wait(self._poll_seconds):
            with self._reading:
                self._read()

    def _read(self) -> None:
        """Afterwards `current` answers what holds, or what held where that cannot be known."""
        try:
            reading = self._platform.read()
        except RuntimeFault as fault:  # somebody is writing mtr.toml
            self._warn((f"{fault.message}; what held before stays",))
        except Exception:
            LOGGER.exception("the platform's settings cannot be read; what held before stays")
        else:
            if reading.settings != self._now.settings:
                self._now = self._now.decided_anew(reading.settings)
                LOGGER.info("the settings have changed: %s", self._platform.name)
            self._latest = reading
            self._warn(reading.warnings)
        self._reads += 1

    def _warn(self, warnings: tuple[str, ...]) -> None:
        """Each of them at once when it is new, and again from time to time."""
        now = time.monotonic()
        self._said = {text: at for text, at in self._said.items() if text in warnings}
        for text in warnings:
            if now - self._said.get(text, -self._warn_seconds) >= self._warn_seconds:
                self._said[text] = now
                LOGGER.warning(text)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
