"""Where an installation's decisions come from, read afresh for each execution: this machine's own files, or Nacos.

A third source, the blocks of a Prefect server, is in `blocks.configuration`. A site uses one.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Protocol

from contracts.admission import SETTING_EXECUTION_ENABLED, Origin
from contracts.errors import InvalidSettingsError, RuntimeFault
from runtime.platform_settings.decision import all_off, decide, lock_api
from runtime.platform_settings.document import read_document
from runtime.platform_settings.memory import LastGood
from runtime.platform_settings.nacos import NacosClient, NacosPlace
from runtime.settings import decide_settings, load_settings

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from runtime.platform_settings.decision import Decision
    from runtime.settings import Settings


@dataclass(frozen=True, slots=True)
class Reading:
    """What holds now.

    Attributes:
        settings: complete, this machine's own where the source says nothing.
        places: where the source decided what it decided, by our settings' names.
        warnings: what an operator should know, each a sentence that names its setting.
        fault: why the source could not be asked; the settings are then the last good ones, or execution is off.
    """

    settings: Settings
    places: Mapping[str, str] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    fault: RuntimeFault | None = None


class PlatformSettings(Protocol):
    """A source of decisions."""

    @property
    def name(self) -> str:
        """As messages name it."""
        ...

    def read(self) -> Reading:
        """What holds now, in bounded time. Any thread may call it.

        Raises:
            InvalidSettingsError: this machine's own settings are wrong.
        """
        ...


class FileSettings:
    """`mtr.toml` and the environment.

    Args:
        load: reads them; default as a program that serves does.
    """

    name = "mtr.toml and the environment"

    def __init__(self, load: Callable[[], Settings] | None = None) -> None:
        self._load = load or (lambda: load_settings(served=True))

    def read(self) -> Reading:
        """See `PlatformSettings.read`."""
        return Reading(self._load())


class NacosSettings:
    """The platform's document in Nacos, over what this machine says.

    While Nacos does not give a usable document, the last good one stays: this process's own, or the one that another
    process of this machine kept. Where there is none, execution is off.

    Args:
        machine: what this machine says.
        long_lived: a program that serves: until Nacos has answered it once, execution is off whatever was kept. A process
            of one execution goes by what was kept.
    """

    def __init__(self, machine: Settings, *, long_lived: bool = False) -> None:
        self.machine = machine
        self.place = NacosPlace.of(machine)
        self._client = NacosClient(self.place)
        self._kept = LastGood(machine.home, str(self.place))
        self._long_lived = long_lived
        self._last: bytes | None = None
        self._reading = threading.Lock()

    @property
    def name(self) -> str:
        """As messages name it."""
        return str(self.place)

    def read(self) -> Reading:
        """See `PlatformSettings.read`; it raises nothing."""
        with self._reading:
            try:
                content = self._client.fetch()
                document = {} if content is None else read_document(content)
            except RuntimeFault as fault:
                return self._without(fault)
            if content is None:
                self._last = b""
                self._kept.forget()
                decision = all_off(f"there is no {self.place}")
                lock_api(decision, self.machine)
                return self._reading_of(decision, f"there is no {self.place}; execution stays off")
            self._last = content
            self._kept.keep(content)
            return self._reading_of(decide(document, self.machine))

    def close(self) -> None:
        """Afterwards it holds no resources."""
        self._client.close()

    def _without(self, fault: RuntimeFault) -> Reading:
        document = self._recalled() if self._last is None else read_document(self._last) if self._last else None
        if document is None:  # none was ever read, or the last answer was that there is none
            decision = all_off(fault.message)
            lock_api(decision, self.machine)
            reading = self._reading_of(decision, f"{fault.message}; execution stays off")
        else:
            decision = decide(document, self.machine)
            said = "the last good settings stay"
            if self._last is None and self._long_lived:
                decision.changes["execution_enabled"] = False
                off = Origin(SETTING_EXECUTION_ENABLED, f"is not known since this program started: {fault.message}")
                decision.origins["execution_enabled"] = (off,)
                said = "execution stays off until it can; the rest is as it was known last"
            reading = self._reading_of(decision, f"{fault.message}; {said}")
        return replace(reading, fault=fault)

    def _recalled(self) -> dict[str, Any] | None:
        content = self._kept.recall()
        try:
            return None if content is None else read_document(content)
        except InvalidSettingsError:  # a file that somebody changed
            return None

    def _reading_of(self, decision: Decision, *warnings: str) -> Reading:
        settings = decide_settings(self.machine, decision.changes, place=self.name, origins=decision.origins)
        return Reading(settings, decision.places, (*warnings, *decision.warnings))


def uses_nacos(settings: Settings, *, served: bool) -> bool:
    """Whether the platform's settings in Nacos decide for a process that is `served` to a platform or is not."""
    return served if settings.use_nacos is None else settings.use_nacos
