"""What one installation works with: its store, ledger, cache and registries, made once at a process's start."""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING, Any, Self, TypeVar

from contracts.errors import InvalidSettingsError
from runtime.settings import load_settings

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from runtime.archive.limits import ArchiveLimits
    from runtime.ledger import Ledger
    from runtime.materialization.cache import Cache
    from runtime.registry.dataset_names import DatasetNames
    from runtime.registry.model_packages import ModelPackages
    from runtime.registry.models import Models
    from runtime.registry.packages import Packages
    from runtime.registry.snapshots import Snapshots
    from runtime.settings import Settings
    from runtime.store.objects import ObjectStore

Part = TypeVar("Part")

LOGGER = logging.getLogger("mtr.settings")

# ruff: noqa: PLC0415 - each part is imported when it is first asked for: `mtr package inspect` needs no database


class Installation:
    """The parts of one installation. Each is made when first asked for, once, and shared by all threads.

    Attributes:
        settings: what the operator decided.
    """

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self._making = threading.RLock()
        self._parts: dict[str, Any] = {}
        self._shared: dict[str, Any] = {}  # what the platform's settings never change: the ledger, the cache

    @classmethod
    def open(cls, settings: Settings | None = None) -> Self:
        """The installation that `settings` describe, its folder made, readable to its owner alone.

        Args:
            settings: default is what holds in the current directory; with `use_nacos` set, what Nacos says besides.

        Raises:
            InvalidSettingsError: as `load_settings`, or the folder cannot be made.
        """
        settings = settings or _held_here()
        try:
            settings.home.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise InvalidSettingsError(
                f"home is {settings.home}, which cannot be made a folder: {error.strerror or error}",
                hint="Set MTR_HOME, or home in mtr.toml, to a folder that you can write.",
                context={"home": str(settings.home)},
            ) from error
        return cls(settings)

    @property
    def store(self) -> ObjectStore:
        """The object store."""
        from runtime.store.objects import open_store

        return self._once("store", lambda: open_store(self.settings))

    @property
    def ledger(self) -> Ledger:
        """The state of record, its schema brought forward.

        Raises:
            LedgerUnavailableError: the database does not answer.
        """
        from runtime.ledger import Ledger

        return self._once("ledger", lambda: Ledger.open(self.settings.ledger_url), self._shared)

    @property
    def cache(self) -> Cache:
        """The cache that all executions of this machine share."""
        from runtime.materialization.cache import Cache

        return self._once("cache", lambda: Cache(self.settings.cache_root, self.settings.cache_max_bytes), self._shared)

    @property
    def archive_limits(self) -> ArchiveLimits:
        """What a package may cost that is registered here, or run."""
        from runtime.archive.limits import ArchiveLimits

        most = self.settings.max_upload_bytes
        return ArchiveLimits(max_packed_bytes=most, max_unpacked_bytes=most)

    @property
    def packages(self) -> Packages:
        """Registered code packages."""
        from runtime.registry.packages import Packages

        return self._once("packages", lambda: Packages(self.store, self.archive_limits))

    @property
    def model_packages(self) -> ModelPackages:
        """Registered model packages."""
        from runtime.registry.model_packages import ModelPackages

        return self._once("model_packages", lambda: ModelPackages(self.store, self.archive_limits))

    @property
    def snapshots(self) -> Snapshots:
        """Pinned data sets."""
        from runtime.registry.snapshots import Snapshots

        return self._once(
            "snapshots", lambda: Snapshots(self.store, evidence=self.settings.cache_root / "pin-evidence.sqlite")
        )

    @property
    def models(self) -> Models:
        """Models that executions registered."""
        from runtime.registry.models import Models

        return self._once("models", lambda: Models(self.ledger))

    @property
    def datasets(self) -> DatasetNames:
        """The names of pinned data sets."""
        from runtime.registry.dataset_names import DatasetNames

        return self._once("datasets", lambda: DatasetNames(self.ledger, self.snapshots))

    def close(self) -> None:
        """Afterwards nothing of it holds a connection; asking for a part makes it anew."""
        with self._making:
            ledger = self._shared.get("ledger")
            self._parts.clear()
            self._shared.clear()
        if ledger is not None:
            ledger.close()

    def decided_anew(self, settings: Settings) -> Self:
        """The same installation under other decisions of the platform: ledger and cache are this one's own.

        Who works with this one may go on with it. Close either of them, once both are done with.
        """
        other = type(self)(settings)
        other._making, other._shared = self._making, self._shared  # noqa: SLF001 - of the same class
        return other

    def _once(self, name: str, make: Callable[[], Part], parts: dict[str, Any] | None = None) -> Part:
        """The part `name`, made by the first caller; others wait for it."""
        parts = self._parts if parts is None else parts
        with self._making:
            if name not in parts:
                parts[name] = make()
            part: Part = parts[name]
            return part

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _held_here() -> Settings:
    settings = load_settings()
    if not settings.use_nacos:
        return settings
    from runtime.platform_settings import NacosSettings

    reading = NacosSettings(settings).read()
    for warning in reading.warnings:
        LOGGER.warning(warning)
    return reading.settings
