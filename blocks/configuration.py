"""What a program that works for a platform goes by: this machine's settings, and over them one source of the platform's.

A site uses one source: Nacos where `use_nacos` says so (for these programs it does unless it is set to false); else the
blocks of the Prefect server, where there is one; else `mtr.toml` and the environment alone. Each is read afresh for each
execution, so that what an operator changes takes effect for the next one, on every machine, without a restart.

- A worker's flow calls `open_served_installation()`.
- `mtr serve` and `mtr bridge` make a `LiveInstallation(served_settings(load_settings(served=True), long_lived=True))` and
  hand it on as their `Source`.
"""

from __future__ import annotations

import contextlib
import logging
import os
from typing import TYPE_CHECKING, Any

import httpx
from prefect.exceptions import MissingContextError
from prefect.logging import get_run_logger

from blocks.execution_policy import ExecutionPolicy
from blocks.object_store import ObjectStore
from contracts.errors import OrchestratorUnavailableError
from runtime.installation import Installation
from runtime.platform_settings import FileSettings, NacosSettings, Reading, uses_nacos
from runtime.settings import Settings, change_settings, load_settings

if TYPE_CHECKING:
    from collections.abc import Iterator

    from prefect.blocks.core import Block

    from runtime.platform_settings import PlatformSettings

BLOCK_NAME = "mtr"
"""The one document of each block type that this product reads."""


class BlockSettings:
    """The blocks of the Prefect server, over what this machine says.

    Args:
        machine: what this machine says.
        long_lived: a program that serves goes on while the server is away, by what it read last; before the first reading
            with execution off. A flow fails instead, and is tried again.
    """

    name = f"the Prefect blocks named {BLOCK_NAME!r}"

    def __init__(self, machine: Settings, *, long_lived: bool = False) -> None:
        self.machine = machine
        self._long_lived = long_lived
        self._last: Settings | None = None

    def read(self) -> Reading:
        """See `PlatformSettings.read`.

        Raises:
            InvalidSettingsError: a block's field is wrong; the message names it.
            OrchestratorUnavailableError: a flow's server does not answer.
        """
        try:
            self._last = configured(self.machine)
        except (httpx.HTTPError, RuntimeError, OSError) as error:  # a server that is not there is a RuntimeError, too
            fault = OrchestratorUnavailableError(
                f"{self.name} cannot be read: {type(error).__name__}: {error}"[:500],
                hint="Start the Prefect server, or correct PREFECT_API_URL.",
            )
            if not self._long_lived:
                raise fault from error
            return self._without(fault)
        return Reading(self._last)

    def _without(self, fault: OrchestratorUnavailableError) -> Reading:
        if self._last is not None:
            return Reading(self._last, warnings=(f"{fault.message}; what was read last stays",), fault=fault)
        off = change_settings(self.machine, {"execution_enabled": False}, place=self.name)
        return Reading(off, warnings=(f"{fault.message}; execution stays off",), fault=fault)


def served_settings(machine: Settings, *, long_lived: bool = False) -> PlatformSettings:
    """The one source of a site whose machine says `machine`.

    Args:
        machine: as `load_settings(served=True)` answers.
        long_lived: a program that serves, not one execution's process: as for `NacosSettings` and `BlockSettings`.
    """
    if uses_nacos(machine, served=True):
        return NacosSettings(machine, long_lived=long_lived)
    if os.environ.get(
        "PREFECT_API_URL"
    ):  # every run of a worker has it; without it Prefect would start a server to ask
        return BlockSettings(machine, long_lived=long_lived)
    return FileSettings()


@contextlib.contextmanager
def open_served_installation() -> Iterator[Installation]:
    """The installation of a flow that a worker runs.

    Raises:
        InvalidSettingsError: a setting or a block's field is wrong; the message names it.
    """
    reading = served_settings(load_settings(served=True)).read()
    for warning in reading.warnings:
        _log().warning(warning)
    with Installation.open(reading.settings) as installation:
        yield installation


def _log() -> logging.Logger | logging.LoggerAdapter[logging.Logger]:
    """The run's log, which people see in the UI."""
    try:
        return get_run_logger()
    except MissingContextError:
        return logging.getLogger("mtr.settings")


def configured(settings: Settings) -> Settings:
    """`settings` with what the blocks say; a field that is empty in the UI leaves the machine's value.

    Raises:
        InvalidSettingsError: a field's value is not what it must be.
    """
    changes = {**_said(ObjectStore), **_said(ExecutionPolicy)}
    if not changes:
        return settings
    return change_settings(settings, changes, place=f"the Prefect blocks named {BLOCK_NAME!r}")


def _said(kind: type[Block]) -> dict[str, Any]:
    try:
        block = kind.load(BLOCK_NAME)
    except ValueError:  # there is none: what Prefect raises for an unknown document
        return {}
    return {
        name: value
        for name in kind.model_fields
        if name in Settings.model_fields and (value := getattr(block, name)) is not None
    }
